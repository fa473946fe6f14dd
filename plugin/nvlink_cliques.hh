// The NVLink fabrics (cliques of an NVL72 rack) that a step's nodes lie in.
#ifndef MFU_PLUGIN_NVLINK_CLIQUES_HH_
#define MFU_PLUGIN_NVLINK_CLIQUES_HH_

#include <cstdint>
#include <map>
#include <optional>

#include "plugin/node_sums.hh"
#include "plugin/step_plan.hh"
#include "topology/finding.hh"

namespace mfu {

// What the smallest racks hold (NVL36): 9 nodes with 4 GPUs.
inline constexpr uint64_t kLeastCliqueGpus = 36;
inline constexpr uint32_t kLeastCliqueNodes = 9;

// A finding of high severity when the step lies in more cliques than its GPUs and nodes need. How
// many a clique holds is known only from below: as many as the step has in one of them, and as the
// smallest rack does. Nothing where a node has not told its clique.
std::optional<Finding> crossed_cliques(const StepPlan& plan,
                                       const std::map<uint32_t, NodeSums>& nodes);

}  // namespace mfu

#endif
