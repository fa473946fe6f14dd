// From what the nodes know of a job step to the step's accounting line.
#ifndef MFU_PLUGIN_STEP_REPORT_HH_
#define MFU_PLUGIN_STEP_REPORT_HH_

#include <cstdint>
#include <map>

#include "plugin/comment.hh"
#include "plugin/node_sums.hh"
#include "plugin/step_plan.hh"
#include "profiler/peak_additions.hh"

namespace mfu {

// The step's figures as of `now_ns`, for merge_step() (`ended`) or show_running(). `nodes`: the
// last word of each node, by node id. A node that was never heard, or had not ended when the step
// was given up, makes an ended step partial. `spreads`: of the nodes that have ended. `peaks`: the
// site's, beside the table's.
Comment report_step(const StepPlan& plan, const std::map<uint32_t, NodeSums>& nodes,
                    const CollectiveSpreads& spreads, const PeakAdditions& peaks, uint64_t now_ns,
                    bool ended);

// A reason that clocks were held back is told when it held for that much of the time.
inline constexpr double kLeastClockReason = 0.05;

}  // namespace mfu

#endif
