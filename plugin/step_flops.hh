// FLOPs of a job step: what GPUs it had, the peak that they are held against, model FLOPs by
// declaration or from what was counted, and the FLOPs that were executed.
//
// Declared FLOPs are those of the whole run. Counted ones (basis gemm) are those of the GPUs and of
// the time that the nodes have told of: a step that runs, was killed or lacks nodes has figures of
// that part, and Sums::flops_ns says how large it is. A GPU on which nothing computed has executed
// nothing, which is known too; so its time is in the capacity.
#ifndef MFU_PLUGIN_STEP_FLOPS_HH_
#define MFU_PLUGIN_STEP_FLOPS_HH_

#include <cstdint>
#include <span>
#include <string>

#include "plugin/comment.hh"
#include "plugin/node_sums.hh"
#include "plugin/step_plan.hh"
#include "profiler/peak_additions.hh"

namespace mfu {

// A node's part in a step.
struct NodeShare {
  const NodeSums* node;
  uint32_t attributed_gpus;  // of node->gpus: those whose time is attributed
  uint64_t elapsed_ns;       // wall time that counts for each of its GPUs
  uint64_t told_ns;          // of it, the time up to the node's last word
};

struct StepStatus {
  bool ended = false;
  bool complete = false;  // every node has said its last word
  bool failed = false;    // a task of it
};

// Fills what the line says of GPUs, peak, model and executed FLOPs. comment->sums has its times and
// training steps, and comment->no_time says why GPUs are not attributed.
void add_flops(const StepPlan& plan, std::span<const NodeShare> shares, const PeakAdditions& peaks,
               const StepStatus& status, Comment* comment);

}  // namespace mfu

#endif
