// Goodput: the share of allocated GPU time that went into training steps, over all runs of a job,
// and by name what the rest went into. Also known as effective training time ratio: steps times
// the time of one / wall time (MegaScale, section 6.3). The job's MFU is that of its steps times
// this.
//
// Everything is an exact sum of GPU-nanoseconds, added up in any order: for each device of a job
// step the parts are the step's wall time, to the nanosecond.
#ifndef MFU_PLUGIN_GOODPUT_HH_
#define MFU_PLUGIN_GOODPUT_HH_

#include <cstdint>
#include <vector>

#include "profiler/steps.hh"

namespace mfu {

using uint128 = unsigned __int128;

struct GoodputSums {
  uint128 productive_ns = 0;  // training steps, each with the median's time at most twice
  uint128 start_up_ns = 0;    // of job steps in the job's first run: up to the first training step
  uint128 restart_ns = 0;     // the same in every later run, which there is by requeueing
  uint128 writing_ns = 0;     // stalls in which the process wrote: checkpoints
  uint128 reading_ns = 0;     // ... in which it read: waiting for data
  uint128 stalled_ns = 0;     // ... of which neither is known: evaluation, network, others' writing
  uint128 tail_ns = 0;     // after the last training step: a last checkpoint, a hang until the end
  uint128 outside_ns = 0;  // allocated, and no job step ran
  uint128 unknown_ns = 0;  // no training steps were found

  bool operator==(const GoodputSums&) const = default;
  GoodputSums& operator+=(const GoodputSums& other);
  uint128 total_ns() const;
};

// A part, its name in mfu-report's JSON, and what it is called as a loss (the first one is none).
struct GoodputPart {
  const char* name;
  uint128 GoodputSums::*member;
  const char* loss;
};
inline constexpr GoodputPart kGoodputParts[] = {
    {"productive_ns", &GoodputSums::productive_ns, ""},
    {"start_up_ns", &GoodputSums::start_up_ns, "start-up"},
    {"restart_ns", &GoodputSums::restart_ns, "restart"},
    {"writing_ns", &GoodputSums::writing_ns, "checkpoint"},
    {"reading_ns", &GoodputSums::reading_ns, "data"},
    {"stalled_ns", &GoodputSums::stalled_ns, "stalled"},
    {"tail_ns", &GoodputSums::tail_ns, "tail"},
    {"outside_ns", &GoodputSums::outside_ns, "outside"},
    {"unknown_ns", &GoodputSums::unknown_ns, "unknown"},
};

// What a device did in a job step. CLOCK_REALTIME nanoseconds.
struct DeviceTraining {
  uint64_t begin_ns = 0;  // of the job step
  uint64_t end_ns = 0;
  StepEstimate steps = {};
  uint64_t writing_ns = 0;  // of its stalls: storage_io.hh
  uint64_t reading_ns = 0;
};

// The parts of end - begin, none of them restart: the device knows nothing of runs. Fewer than two
// steps, or times that contradict each other: all of it is unknown.
//
// N occurrences of what recurs in a step are N steps, wherever in the step it runs: N - 1 lie
// between them, and one more is spread over what came before the first and after the last.
GoodputSums goodput_of(const DeviceTraining& device);

// Allocations of a job, one after the other. Waiting in the queue between them is no allocated
// time; it stands beside the parts.
struct Runs {
  uint32_t count = 0;
  uint64_t begin_ns = 0;  // of the first one
  uint64_t end_ns = 0;    // of the last one
  uint64_t elapsed_ns = 0;

  void add(uint64_t run_begin_ns, uint64_t run_end_ns);
  Runs& operator+=(const Runs& other);
  uint64_t gap_ns() const;
};

// Adds what no job step covers of an allocation (GPUs x elapsed time). Job steps that overlap on
// the same GPUs, as --overlap allows, can fill more than it: then nothing is added.
void add_outside(uint128 allocated_gpu_ns, GoodputSums* run);

// The parts that are losses and not 0, the largest one first.
std::vector<const GoodputPart*> losses(const GoodputSums& sums);

struct Goodput {
  double fraction = -1;           // productive / total: at least that. Negative: not known
  const char* why_not = "";       // "no-time", "no-steps" (less than kLeastKnown is known)
  const char* largest_loss = "";  // GoodputPart::loss; empty: nothing was lost, or it is not known
};
inline constexpr double kLeastKnown = 0.9;
Goodput goodput(const GoodputSums& sums);

}  // namespace mfu

#endif
