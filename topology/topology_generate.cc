#include "topology/topology_generate.hh"

#include <algorithm>
#include <map>

#include "topology/host_list.hh"
#include "topology/topology_names.hh"

namespace mfu {
namespace {

using Wrong = tl::unexpected<std::string>;
using Taken = std::unordered_set<std::string>;

// Units that have nodes, with what is above them, each by its first node: the order in which a
// fabric was discovered must not show.
struct Outline {
  struct Pod {
    std::vector<uint32_t> units;
  };
  std::vector<std::vector<Pod>> islands;
  std::vector<uint32_t> units;  // all of them
};

Outline outline_of(const FabricRoles& roles, const SlurmNodes& nodes) {
  auto before = [&nodes](uint32_t a, uint32_t b) {
    return host_before(nodes.by_unit[a].front(), nodes.by_unit[b].front());
  };
  std::map<uint32_t, std::vector<Outline::Pod>> islands;
  for (const FabricPod& one : roles.pods) {
    Outline::Pod pod;
    for (uint32_t unit : one.units) {
      if (!nodes.by_unit[unit].empty()) pod.units.push_back(unit);
    }
    std::sort(pod.units.begin(), pod.units.end(), before);
    if (!pod.units.empty()) islands[one.island].push_back(std::move(pod));
  }
  Outline outline;
  for (auto& [island, pods] : islands) {
    std::sort(pods.begin(), pods.end(), [&before](const Outline::Pod& a, const Outline::Pod& b) {
      return before(a.units.front(), b.units.front());
    });
    outline.islands.push_back(std::move(pods));
  }
  std::sort(outline.islands.begin(), outline.islands.end(),
            [&before](const auto& a, const auto& b) {
              return before(a.front().units.front(), b.front().units.front());
            });
  for (const auto& pods : outline.islands) {
    for (const Outline::Pod& pod : pods) {
      outline.units.insert(outline.units.end(), pod.units.begin(), pod.units.end());
    }
  }
  return outline;
}

std::vector<std::string> unit_names(const Fabric& fabric, const FabricRoles& roles,
                                    const std::vector<uint32_t>& units, Taken* taken) {
  std::vector<std::string> wanted;
  for (uint32_t unit : units) {
    std::vector<std::string> names;
    for (uint32_t leaf : roles.units[unit].leaves) {
      names.push_back(switch_name(fabric.nodes[roles.leaves[leaf].node].description));
    }
    wanted.push_back(shared_name(names));
  }
  return unique_names(wanted, "su", taken);
}

// What the switches above these leaves have in common in their names: those of level 2, or all that
// can be reached upwards if `top`, of the highest level.
std::string name_above(const Fabric& fabric, const FabricRoles& roles,
                       const std::vector<Outline::Pod>& pods, bool top) {
  std::vector<uint32_t> reached;
  std::vector<bool> seen(fabric.nodes.size());
  auto climb = [&](uint32_t from) {
    for (const FabricPort& port : fabric.nodes[from].ports) {
      if (port.peer >= seen.size() || seen[port.peer]) continue;
      if (roles.levels[port.peer] <= roles.levels[from]) continue;
      seen[port.peer] = true;
      reached.push_back(port.peer);
    }
  };
  for (const Outline::Pod& pod : pods) {
    for (uint32_t unit : pod.units) {
      for (uint32_t leaf : roles.units[unit].leaves) climb(roles.leaves[leaf].node);
    }
  }
  for (size_t done = 0; top && done < reached.size(); ++done) climb(reached[done]);
  uint32_t highest = 0;
  for (uint32_t node : reached) highest = std::max(highest, roles.levels[node]);
  std::vector<std::string> names;
  for (uint32_t node : reached) {
    if (roles.levels[node] == highest) names.push_back(switch_name(fabric.nodes[node].description));
  }
  return shared_name(names);
}

tl::expected<GeneratedTopology, std::string> checked(GeneratedTopology result) {
  const auto notes = check_topology(result.topology, "the generated topology");
  if (!notes) return Wrong(notes.error());
  result.notes.insert(result.notes.end(), notes->begin(), notes->end());
  return result;
}

// NVLink cliques with their nodes, by the first unit that has one of them, then by name.
std::vector<TopologyBlock> clique_blocks(const Outline& outline, const SlurmNodes& nodes,
                                         const GenerateOptions& options,
                                         GeneratedTopology* result) {
  std::vector<TopologyBlock> blocks;
  std::unordered_map<std::string, size_t> known;
  std::vector<std::string> without;
  for (uint32_t unit : outline.units) {
    const size_t before = blocks.size();
    for (const std::string& node : nodes.by_unit[unit]) {
      const auto clique = options.cliques.find(node);
      if (clique == options.cliques.end()) {
        without.push_back(node);
        continue;
      }
      const auto [found, added] = known.emplace(clique->second, blocks.size());
      if (added) blocks.push_back({clique->second, {}, 0});
      blocks[found->second].nodes.push_back(node);
    }
    std::sort(blocks.begin() + static_cast<std::ptrdiff_t>(before), blocks.end(),
              [](const auto& a, const auto& b) { return host_before(a.name, b.name); });
    for (size_t i = before; i < blocks.size(); ++i) known[blocks[i].name] = i;
  }
  if (!without.empty()) {
    result->notes.push_back(
        count_hosts(without, "nodes have no NVLink clique in the map, left out"));
  }
  std::vector<std::string> wanted;
  for (const TopologyBlock& block : blocks) wanted.push_back(slurm_name(block.name));
  Taken taken;
  const std::vector<std::string> names = unique_names(wanted, "nvl", &taken);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i].name = names[i];
  return blocks;
}

}  // namespace

tl::expected<GeneratedTopology, std::string> generate_tree(const Fabric& fabric,
                                                           const FabricRoles& roles,
                                                           const SlurmNodes& nodes,
                                                           const GenerateOptions& options) {
  const Outline outline = outline_of(roles, nodes);
  GeneratedTopology result;
  result.notes = nodes.notes;
  auto& switches = result.topology.switches;
  if (outline.units.empty()) return Wrong("no node of Slurm is in the fabric");

  Taken taken = {"root"};
  if (!options.rest.empty() && !taken.insert(options.rest).second) {
    return Wrong("the switch of the other nodes cannot be '" + options.rest + "'");
  }
  const auto leaf_names = unit_names(fabric, roles, outline.units, &taken);
  std::unordered_map<uint32_t, std::string> names;
  for (size_t i = 0; i < outline.units.size(); ++i) {
    names[outline.units[i]] = leaf_names[i];
    switches.push_back({leaf_names[i], {}, nodes.by_unit[outline.units[i]], 0});
  }

  std::vector<std::string> roots;
  std::vector<std::string> wanted_pods;
  std::vector<std::string> wanted_tops;
  for (const auto& pods : outline.islands) {
    for (const Outline::Pod& pod : pods) {
      if (pods.size() > 1) wanted_pods.push_back(name_above(fabric, roles, {pod}, false));
    }
    wanted_tops.push_back(name_above(fabric, roles, pods, true));
  }
  // Of the names that both want, the top has more right.
  const auto top_names = unique_names(wanted_tops, "fabric", &taken);
  const auto pod_names = unique_names(wanted_pods, "pod", &taken);
  size_t next_pod = 0;
  std::vector<TopologySwitch> tops;
  for (size_t i = 0; i < outline.islands.size(); ++i) {
    TopologySwitch top{top_names[i], {}, {}, 0};
    for (const Outline::Pod& pod : outline.islands[i]) {
      TopologySwitch above{"", {}, {}, 0};
      for (uint32_t unit : pod.units) above.switches.push_back(names[unit]);
      if (outline.islands[i].size() == 1) {
        top.switches = std::move(above.switches);
      } else {
        above.name = pod_names[next_pod++];
        top.switches.push_back(above.name);
        switches.push_back(std::move(above));
      }
    }
    // A switch above one leaf only would say nothing.
    if (top.switches.size() == 1 && outline.islands[i].size() == 1) {
      roots.push_back(top.switches.front());
    } else {
      roots.push_back(top.name);
      tops.push_back(std::move(top));
    }
  }
  switches.insert(switches.end(), tops.begin(), tops.end());
  if (!options.rest.empty() && !nodes.absent.empty()) {
    switches.push_back({options.rest, {}, nodes.absent, 0});
    roots.push_back(options.rest);
  }
  if (options.root && roots.size() > 1) switches.push_back({"root", roots, {}, 0});
  return checked(std::move(result));
}

tl::expected<GeneratedTopology, std::string> generate_blocks(const Fabric& fabric,
                                                             const FabricRoles& roles,
                                                             const SlurmNodes& nodes,
                                                             const GenerateOptions& options) {
  const Outline outline = outline_of(roles, nodes);
  GeneratedTopology result;
  result.notes = nodes.notes;
  Topology& topology = result.topology;
  topology.kind = TopologyKind::kBlock;
  if (!options.cliques.empty()) {
    topology.blocks = clique_blocks(outline, nodes, options, &result);
  } else {
    Taken taken;
    const auto names = unit_names(fabric, roles, outline.units, &taken);
    for (size_t i = 0; i < outline.units.size(); ++i) {
      topology.blocks.push_back({names[i], nodes.by_unit[outline.units[i]], 0});
    }
  }
  topology.block_sizes = options.block_sizes;
  if (!topology.block_sizes.empty()) {
    std::vector<std::string> kept;
    std::vector<std::string> left_out;
    const size_t base = topology.block_sizes.front();
    std::erase_if(topology.blocks, [&](const TopologyBlock& block) {
      if (block.nodes.size() >= base) return false;
      const bool keeps = options.keeps_small && options.keeps_small(block);
      std::vector<std::string>& small = keeps ? kept : left_out;
      small.insert(small.end(), block.nodes.begin(), block.nodes.end());
      return !keeps;
    });
    const std::string what =
        "nodes are in blocks of fewer than " + std::to_string(base) + " nodes, ";
    if (!left_out.empty()) result.notes.push_back(count_hosts(left_out, what + "left out"));
    if (!kept.empty()) {
      result.notes.push_back(count_hosts(kept, what + "which Slurm takes since 25.05"));
    }
  }
  if (topology.blocks.empty())
    return Wrong("no block: no node of Slurm is in one that is large enough");
  if (topology.block_sizes.empty()) {
    const auto [least, most] = std::minmax_element(
        topology.blocks.begin(), topology.blocks.end(),
        [](const auto& a, const auto& b) { return a.nodes.size() < b.nodes.size(); });
    topology.block_sizes = {static_cast<uint32_t>(least->nodes.size())};
    if (2 * least->nodes.size() < most->nodes.size()) {
      result.notes.push_back("block " + least->name + " has only " +
                             std::to_string(least->nodes.size()) +
                             " nodes and makes that the base block size: choose block sizes that "
                             "leave it out, or mend the fabric");
    }
  }
  return checked(std::move(result));
}

}  // namespace mfu
