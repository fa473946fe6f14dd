// A running step as one node sees it at one instant: figures of the node's part of it, and of each
// GPU. They come about as the accounting line's do: add_records() and report_step().
//
// Two readings give the figures of the time between them: exact sums only ever rise, so that their
// differences are sums too.
#ifndef MFU_PLUGIN_LIVE_STEP_HH_
#define MFU_PLUGIN_LIVE_STEP_HH_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/comment.hh"
#include "plugin/live_spool.hh"
#include "plugin/node_records.hh"
#include "plugin/node_sums.hh"
#include "plugin/spool.hh"
#include "profiler/peak_additions.hh"

namespace mfu {

// Figures since the step's begin, and up to `until_ns` (CLOCK_REALTIME): the last word of whoever
// still runs, or now.
struct LiveFigures {
  Comment line;  // its sums are all of it, as if the step were merged; no_mfu and so on say why not
  uint64_t until_ns = 0;
};

struct LiveGpu {
  std::string uuid;  // "GPU-....", of a slice "MIG-..."; empty: the driver has not told it
  std::string pci;   // "00000000:4E:00.0"; empty: unknown
  DeviceKey key{};
  uint32_t rank = kNoTask;  // the lowest of its processes'
  uint32_t processes = 0;
  // "ok"; "idle": no activity yet; "silent": nothing heard for kSilentNs; "ended": all processes
  // have said their last word; else why it cannot be observed, as in n/a(reason).
  std::string state;
  LiveFigures figures;
  NodeSums sums;  // of it alone
  uint64_t temperature_c_us = 0;
  uint64_t temperature_ns = 0;
};
inline constexpr uint64_t kSilentNs = 5'000'000'000;

struct LiveStep {
  StepPlan plan;
  bool planned = false;
  LiveFigures figures;
  std::vector<LiveGpu> gpus;  // that a process uses, by rank; at most kMostLiveGpus
  uint32_t left_out = 0;      // more of them
};
// More than a node has; a forger may name thousands.
inline constexpr size_t kMostLiveGpus = 128;

// Declared FLOPs are those of all the step's GPUs, and this node has its GPUs' share of them. Where
// it is not known how many GPUs there are (whole_gpus()), or where only the step's end can tell,
// the figures are those of counted FLOPs; Comment::basis tells.
LiveStep live_step(const RunningStep& step, const SpoolRecords& records, const PeakAdditions& peaks,
                   uint64_t now_ns);

// The time between two readings. Nothing when it is none, or when the earlier one is no part of the
// later one: a record has gone. What one of them does not know, or knows by another basis or peak,
// is unknown.
std::optional<LiveFigures> between(const LiveFigures& before, const LiveFigures& after);

// figures() of either; where FLOPs are known not to have come, which only an interval can say, MFU
// and HFU are 0.
Figures live_figures(const Comment& line);

// Mean of the time between two readings; negative: unknown.
double celsius_between(const LiveGpu& before, const LiveGpu& after);

// The same step and GPU in an earlier reading, or nullptr.
const LiveStep* find_step(const std::vector<LiveStep>& steps, const LiveStep& step);
const LiveGpu* find_gpu(const LiveStep* step, const LiveGpu& gpu);

// "12.0", "12.batch", "7_3.0" of an array.
std::string step_name(const StepPlan& plan);

}  // namespace mfu

#endif
