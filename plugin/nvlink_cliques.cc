#include "plugin/nvlink_cliques.hh"

#include <algorithm>
#include <string>
#include <string_view>

#include "topology/host_list.hh"

namespace mfu {
namespace {

struct Clique {
  uint32_t first_node = 0;
  uint32_t nodes = 0;
  uint64_t gpus = 0;
};

uint64_t divided_up(uint64_t count, uint64_t by) {
  return (count + by - 1) / by;
}

// Slurm refuses a segment that does not divide the job's nodes, or that no block holds.
size_t segment_of(size_t nodes, size_t most) {
  size_t segment = std::min(nodes, most);
  while (nodes % segment != 0) --segment;
  return segment;
}

std::string node_name(const StepPlan& plan, uint32_t id) {
  const auto names = expand_hosts(plan.node_list);
  return names && id < names->size() ? (*names)[id] : "node " + std::to_string(id);
}

}  // namespace

std::optional<Finding> crossed_cliques(const StepPlan& plan,
                                       const std::map<uint32_t, NodeSums>& nodes) {
  if (nodes.empty() || nodes.size() != plan.nodes) return std::nullopt;
  uint64_t gpus = 0;
  std::map<std::string_view, Clique> cliques;
  for (const auto& [id, node] : nodes) {
    if (node.clique[0] == '\0') return std::nullopt;
    gpus += node.gpus;
    const auto [clique, is_new] = cliques.try_emplace(node.clique, Clique{.first_node = id});
    ++clique->second.nodes;
    clique->second.gpus += node.gpus;
  }
  // A rack may be half of the largest, cut into partitions, or short of nodes.
  uint64_t most_gpus = kLeastCliqueGpus;
  uint32_t most_nodes = kLeastCliqueNodes;
  for (const auto& [name, clique] : cliques) {
    most_gpus = std::max(most_gpus, clique.gpus);
    most_nodes = std::max(most_nodes, clique.nodes);
  }
  const uint64_t needed =
      std::max(divided_up(gpus, most_gpus), divided_up(nodes.size(), most_nodes));
  if (cliques.size() <= needed) return std::nullopt;
  std::string evidence = std::to_string(nodes.size()) + " nodes with " + std::to_string(gpus) +
                         " GPUs lie in " + std::to_string(cliques.size()) +
                         " NVLink cliques, and fit into " + std::to_string(needed) + ":";
  // In the order of their first nodes.
  std::map<uint32_t, uint32_t> by_first_node;
  for (const auto& [name, clique] : cliques) by_first_node[clique.first_node] = clique.nodes;
  size_t told = 0;
  for (const auto& [first, count] : by_first_node) {
    if (++told > 4) break;
    evidence.append(told == 1 ? " " : ", ").append(std::to_string(count));
    evidence += " from " + node_name(plan, first) + " on";
  }
  if (told > 4) evidence += ", ...";
  return Finding{"nvlink-clique-crossed", Severity::kHigh, "job", evidence,
                 "sbatch --switches=" + std::to_string(needed) +
                     ", or topology/block with --segment=" +
                     std::to_string(segment_of(nodes.size(), most_nodes))};
}

}  // namespace mfu
