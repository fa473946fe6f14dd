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

// What the largest fabrics hold: 18 nodes with 4 GPUs.
inline constexpr uint32_t kMostCliqueGpus = 72;
inline constexpr uint32_t kMostCliqueNodes = 18;

// A finding of high severity when the step lies in more cliques than its GPUs and nodes need, with
// those sizes. Nothing where a node has not told its clique.
std::optional<Finding> crossed_cliques(const StepPlan& plan,
                                       const std::map<uint32_t, NodeSums>& nodes);

}  // namespace mfu

#endif
