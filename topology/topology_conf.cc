#include "topology/topology_conf.hh"

#include <algorithm>
#include <unordered_map>

#include "topology/host_list.hh"

namespace mfu {
namespace {

using Names = std::unordered_map<std::string, uint32_t>;
using Wrong = tl::unexpected<std::string>;

Wrong wrong(const std::string& where, uint32_t line, const std::string& why) {
  return Wrong(where + (line > 0 ? ": line " + std::to_string(line) : "") + ": " + why);
}

std::string quoted(const std::string& name) {
  return "'" + name.substr(0, kLongestSwitchName) + "'";
}

// What switches and blocks have in common: a name, nodes, a line.
template <typename Group>
tl::expected<Names, std::string> index_names(const std::vector<Group>& groups, const char* what,
                                             const std::string& where) {
  Names names;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    if (group.name.empty()) return wrong(where, group.line, std::string(what) + " without a name");
    if (group.name.size() > kLongestSwitchName) {
      return wrong(where, group.line,
                   quoted(group.name) + "...: a name of more than " +
                       std::to_string(kLongestSwitchName) + " characters");
    }
    const auto [found, added] = names.emplace(group.name, i);
    if (!added) {
      const uint32_t line = groups[found->second].line;
      return wrong(where, group.line,
                   std::string(what) + " " + quoted(group.name) + " is defined before" +
                       (line > 0 ? ", in line " + std::to_string(line) : ""));
    }
  }
  return names;
}

template <typename Group>
void note_doubles(const std::vector<Group>& groups, const char* what,
                  std::vector<std::string>* notes) {
  Names first;
  std::vector<std::string> doubles;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    for (const std::string& node : groups[i].nodes) {
      const auto [found, added] = first.emplace(node, i);
      if (!added && found->second != i) doubles.push_back(node);
    }
  }
  if (doubles.empty()) return;
  notes->push_back(count_hosts(doubles, std::string("nodes are in more than one ") + what));
}

tl::expected<void, std::string> check_tree(const Topology& topology, const std::string& where,
                                           std::vector<std::string>* notes) {
  const auto& switches = topology.switches;
  if (switches.empty()) return wrong(where, 0, "no switch");
  if (switches.size() > kMostSwitches) return wrong(where, 0, "more switches than Slurm can count");
  const auto names = index_names(switches, "switch", where);
  if (!names) return Wrong(names.error());
  std::vector<uint32_t> parents(switches.size());
  std::vector<std::vector<uint32_t>> children(switches.size());
  for (uint32_t i = 0; i < switches.size(); ++i) {
    const TopologySwitch& one = switches[i];
    if (!one.switches.empty() && !one.nodes.empty()) {
      return wrong(where, one.line, "switch " + quoted(one.name) + " has both switches and nodes");
    }
    for (const std::string& child : one.switches) {
      const auto found = names->find(child);
      if (found == names->end()) {
        return wrong(where, one.line,
                     "switch " + quoted(one.name) + ": there is no switch " + quoted(child));
      }
      ++parents[found->second];
      children[i].push_back(found->second);
    }
  }
  // What is left when switches without parents are taken away again and again is a circle.
  std::vector<uint32_t> open;
  std::vector<uint32_t> above(switches.size());  // the longest way up
  std::vector<uint32_t> left = parents;
  for (uint32_t i = 0; i < switches.size(); ++i) {
    if (parents[i] == 0) open.push_back(i);
    if (parents[i] > 1) {
      notes->push_back("switch " + quoted(switches[i].name) + " has " + std::to_string(parents[i]) +
                       " parents");
    }
  }
  const size_t roots = open.size();
  for (size_t done = 0; done < open.size(); ++done) {
    for (uint32_t child : children[open[done]]) {
      above[child] = std::max(above[child], above[open[done]] + 1);
      if (above[child] >= kMostLevels) {
        return wrong(where, switches[child].line,
                     "switch " + quoted(switches[child].name) + " has more than " +
                         std::to_string(kMostLevels - 1) + " levels above it");
      }
      if (--left[child] == 0) open.push_back(child);
    }
  }
  for (uint32_t i = 0; i < switches.size(); ++i) {
    if (left[i] > 0) {
      return wrong(where, switches[i].line,
                   "switch " + quoted(switches[i].name) + " is above itself, or below such a one");
    }
  }
  if (roots > 1) {
    notes->push_back(std::to_string(roots) + " switches are roots: no job spans two of them");
  }
  note_doubles(switches, "leaf switch", notes);
  return {};
}

tl::expected<void, std::string> check_blocks(const Topology& topology, const std::string& where,
                                             std::vector<std::string>* notes) {
  if (topology.blocks.empty()) return wrong(where, 0, "no block");
  if (topology.blocks.size() > kMostSwitches) {
    return wrong(where, 0, "more blocks than Slurm can count");
  }
  if (const auto names = index_names(topology.blocks, "block", where); !names) {
    return Wrong(names.error());
  }
  const uint64_t base = base_block_size(topology);
  if (base == 0) return wrong(where, 0, "no block has nodes, and no block sizes are given");
  for (uint32_t size : topology.block_sizes) {
    const uint64_t times = size / base;
    if (size % base != 0 || times == 0 || (times & (times - 1)) != 0 || times > (1u << 15)) {
      return wrong(where, 0,
                   "block size " + std::to_string(size) + " is not " + std::to_string(base) +
                       " times a power of two");
    }
  }
  note_doubles(topology.blocks, "block", notes);
  return {};
}

}  // namespace

const char* topology_kind_name(TopologyKind kind) {
  switch (kind) {
    case TopologyKind::kTree:
      return "tree";
    case TopologyKind::kBlock:
      return "block";
    case TopologyKind::kFlat:
      return "flat";
    case TopologyKind::kOther:
      break;
  }
  return "other";
}

tl::expected<std::vector<std::string>, std::string> check_topology(const Topology& topology,
                                                                   const std::string& where) {
  std::vector<std::string> notes;
  tl::expected<void, std::string> done;
  if (topology.kind == TopologyKind::kTree) done = check_tree(topology, where, &notes);
  if (topology.kind == TopologyKind::kBlock) done = check_blocks(topology, where, &notes);
  if (!done) return Wrong(done.error());
  return notes;
}

uint32_t base_block_size(const Topology& topology) {
  if (!topology.block_sizes.empty()) return topology.block_sizes.front();
  for (const TopologyBlock& block : topology.blocks) {
    if (!block.nodes.empty()) return static_cast<uint32_t>(block.nodes.size());
  }
  return 0;
}

std::string small_blocks_note(const Topology& topology) {
  std::vector<std::string> small;
  const uint32_t base = base_block_size(topology);
  for (const TopologyBlock& block : topology.blocks) {
    if (block.nodes.size() < base) small.push_back(block.name);
  }
  if (small.empty()) return {};
  return count_hosts(small, "blocks have fewer than the " + std::to_string(base) +
                                " nodes of a base block, at which Slurm before 25.05 stops");
}

std::string topology_comments(const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& comment : comments) {
    text += comment.empty() ? "#" : "# ";
    for (char c : comment) text += c >= ' ' && c <= '~' ? c : '?';
    // A backslash at the end would join the next line to the comment.
    while (text.back() == '\\') text.pop_back();
    text += '\n';
  }
  return text;
}

std::string write_topology_conf(const Topology& topology,
                                const std::vector<std::string>& comments) {
  std::string text = topology_comments(comments);
  for (const TopologySwitch& one : topology.switches) {
    text += "SwitchName=" + one.name;
    if (!one.switches.empty()) text += " Switches=" + compress_hosts(one.switches);
    if (!one.nodes.empty()) text += " Nodes=" + compress_hosts(one.nodes);
    text += '\n';
  }
  for (const TopologyBlock& block : topology.blocks) {
    text += "BlockName=" + block.name;
    if (!block.nodes.empty()) text += " Nodes=" + compress_hosts(block.nodes);
    text += '\n';
  }
  std::string sizes;
  for (uint32_t size : topology.block_sizes) {
    sizes += (sizes.empty() ? "BlockSizes=" : ",") + std::to_string(size);
  }
  if (!sizes.empty()) text += sizes + "\n";
  return text;
}

}  // namespace mfu
