#include "topology/topology_diff.hh"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "topology/host_list.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Leaves with their nodes, and switches above as sets of leaves: the form of trees and blocks
// alike.
struct Shape {
  struct Leaf {
    std::string name;
    std::vector<std::string> nodes;
  };
  struct Level {
    std::string name;
    std::vector<uint32_t> leaves;
  };
  std::vector<Leaf> leaves;
  std::vector<Level> levels;
  std::unordered_map<std::string, uint32_t> leaf_of;  // the first that has a node
};

void add_leaf(Shape* shape, const std::string& name, const std::vector<std::string>& nodes) {
  const auto index = static_cast<uint32_t>(shape->leaves.size());
  Shape::Leaf leaf{name, {}};
  for (const std::string& node : nodes) {
    if (shape->leaf_of.emplace(node, index).second) leaf.nodes.push_back(node);
  }
  shape->leaves.push_back(std::move(leaf));
}

Shape shape_of_tree(const Topology& topology) {
  Shape shape;
  std::unordered_map<std::string, uint32_t> index;  // of all switches
  std::vector<uint32_t> leaf(topology.switches.size(), kNone);
  for (uint32_t i = 0; i < topology.switches.size(); ++i) {
    const TopologySwitch& one = topology.switches[i];
    index.emplace(one.name, i);
    if (!one.switches.empty()) continue;
    leaf[i] = static_cast<uint32_t>(shape.leaves.size());
    add_leaf(&shape, one.name, one.nodes);
  }
  for (const TopologySwitch& one : topology.switches) {
    if (one.switches.empty()) continue;
    std::set<uint32_t> seen;
    std::vector<const TopologySwitch*> open = {&one};
    Shape::Level level{one.name, {}};
    while (!open.empty()) {
      const TopologySwitch* at = open.back();
      open.pop_back();
      for (const std::string& child : at->switches) {
        const auto found = index.find(child);
        if (found == index.end() || !seen.insert(found->second).second) continue;
        if (leaf[found->second] != kNone) {
          level.leaves.push_back(leaf[found->second]);
        } else {
          open.push_back(&topology.switches[found->second]);
        }
      }
    }
    shape.levels.push_back(std::move(level));
  }
  return shape;
}

// Blocks of a larger size are runs of blocks in their order, so that order is structure.
Shape shape_of_blocks(const Topology& topology) {
  Shape shape;
  for (const TopologyBlock& block : topology.blocks) add_leaf(&shape, block.name, block.nodes);
  const auto& sizes = topology.block_sizes;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const uint32_t run = sizes.front() > 0 ? sizes[i] / sizes.front() : 0;
    for (uint32_t begin = 0; run > 1 && begin < topology.blocks.size(); begin += run) {
      const auto end =
          std::min<uint32_t>(begin + run, static_cast<uint32_t>(topology.blocks.size()));
      Shape::Level level{topology.blocks[begin].name + ".." + topology.blocks[end - 1].name, {}};
      for (uint32_t block = begin; block < end; ++block) level.leaves.push_back(block);
      shape.levels.push_back(std::move(level));
    }
  }
  return shape;
}

Shape shape_of(const Topology& topology) {
  return topology.kind == TopologyKind::kBlock ? shape_of_blocks(topology)
                                               : shape_of_tree(topology);
}

class Difference {
 public:
  Difference(const Shape& first, const Shape& second) : first_(first), second_(second) {}

  std::vector<TopologyChange> find() {
    pair_leaves();
    compare_nodes();
    compare_levels();
    return std::move(changes_);
  }

 private:
  using Shared = std::map<std::pair<uint32_t, uint32_t>, std::vector<std::string>>;

  void pair_leaves() {
    for (const Shape::Leaf& leaf : first_.leaves) {
      for (const std::string& node : leaf.nodes) {
        const auto found = second_.leaf_of.find(node);
        if (found == second_.leaf_of.end()) continue;
        shared_[{first_.leaf_of.at(node), found->second}].push_back(node);
      }
    }
    best_second_.assign(first_.leaves.size(), kNone);
    best_first_.assign(second_.leaves.size(), kNone);
    for (const auto& [pair, nodes] : shared_) {
      const auto [a, b] = pair;
      if (better(nodes.size(), a, b, a, best_second_[a])) best_second_[a] = b;
      if (better(nodes.size(), a, b, best_first_[b], b)) best_first_[b] = a;
    }
  }

  // Whether a and b share more than those before, or as much and have one name.
  bool better(size_t count, uint32_t a, uint32_t b, uint32_t old_a, uint32_t old_b) const {
    if (old_a == kNone || old_b == kNone) return true;
    const size_t before = shared_.at({old_a, old_b}).size();
    if (count != before) return count > before;
    return first_.leaves[a].name == second_.leaves[b].name &&
           first_.leaves[old_a].name != second_.leaves[old_b].name;
  }

  bool is_pair(uint32_t a, uint32_t b) const { return best_second_[a] == b && best_first_[b] == a; }

  void add(DiffKind kind, std::string subject, std::string object, std::vector<std::string> nodes) {
    sort_hosts(&nodes);
    changes_.push_back({kind, std::move(subject), std::move(object), std::move(nodes)});
  }

  void compare_nodes() {
    for (const Shape::Leaf& leaf : first_.leaves) only_here(leaf, second_, DiffKind::kMissing);
    for (const Shape::Leaf& leaf : second_.leaves) only_here(leaf, first_, DiffKind::kExtra);
    for (const auto& [pair, nodes] : shared_) {
      const auto [a, b] = pair;
      if (is_pair(a, b)) continue;
      const DiffKind kind = best_second_[a] == b  ? DiffKind::kMerged
                            : best_first_[b] == a ? DiffKind::kSplit
                                                  : DiffKind::kMoved;
      add(kind, first_.leaves[a].name, second_.leaves[b].name, nodes);
    }
  }

  void only_here(const Shape::Leaf& leaf, const Shape& other, DiffKind kind) {
    std::vector<std::string> nodes;
    for (const std::string& node : leaf.nodes) {
      if (other.leaf_of.count(node) == 0) nodes.push_back(node);
    }
    if (nodes.empty()) return;
    const bool missing = kind == DiffKind::kMissing;
    add(kind, missing ? leaf.name : "", missing ? "" : leaf.name, std::move(nodes));
  }

  // Leaves as classes: a leaf of the second topology and all of the first that became it. A leaf
  // that was split, or is on one side only, does not count.
  using Classes = std::vector<uint32_t>;

  void compare_levels() {
    std::map<Classes, std::vector<const Shape::Level*>> levels;
    std::map<Classes, std::vector<const Shape::Level*>> new_levels;
    for (const Shape::Level& level : first_.levels) {
      std::set<uint32_t> classes;
      for (uint32_t leaf : level.leaves) {
        if (best_second_[leaf] != kNone) classes.insert(class_of(best_second_[leaf]));
      }
      if (!classes.empty()) levels[Classes(classes.begin(), classes.end())].push_back(&level);
    }
    for (const Shape::Level& level : second_.levels) {
      std::set<uint32_t> classes;
      for (uint32_t leaf : level.leaves) {
        if (best_first_[leaf] != kNone) classes.insert(class_of(leaf));
      }
      if (!classes.empty()) new_levels[Classes(classes.begin(), classes.end())].push_back(&level);
    }
    for (const auto& [classes, old] : levels) {
      const auto found = new_levels.find(classes);
      const size_t kept = found == new_levels.end() ? 0 : found->second.size();
      for (size_t i = kept; i < old.size(); ++i) {
        add(DiffKind::kLevelGone, old[i]->name, "", below(first_, *old[i]));
      }
    }
    for (const auto& [classes, made] : new_levels) {
      const auto found = levels.find(classes);
      const size_t kept = found == levels.end() ? 0 : found->second.size();
      for (size_t i = kept; i < made.size(); ++i) {
        add(DiffKind::kLevelNew, "", made[i]->name, below(second_, *made[i]));
      }
    }
  }

  // Parts that were split off a leaf count as that leaf.
  uint32_t class_of(uint32_t second_leaf) const {
    const uint32_t from = best_first_[second_leaf];
    return best_second_[from];
  }

  static std::vector<std::string> below(const Shape& shape, const Shape::Level& level) {
    std::vector<std::string> nodes;
    for (uint32_t leaf : level.leaves) {
      const auto& more = shape.leaves[leaf].nodes;
      nodes.insert(nodes.end(), more.begin(), more.end());
    }
    return nodes;
  }

  const Shape& first_;
  const Shape& second_;
  Shared shared_;
  std::vector<uint32_t> best_second_;  // of each leaf of the first
  std::vector<uint32_t> best_first_;   // of each leaf of the second
  std::vector<TopologyChange> changes_;
};

std::string sizes_text(const std::vector<uint32_t>& sizes) {
  std::string text;
  for (uint32_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

// Topologies of one kind, cluster_default first.
std::vector<const Topology*> of_kind(const TopologyFile& file, TopologyKind kind) {
  std::vector<const Topology*> found;
  for (const Topology& topology : file.topologies) {
    if (topology.kind == kind) found.push_back(&topology);
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const Topology* topology) { return topology->cluster_default; });
  return found;
}

const char* name_of(DiffKind kind) {
  static constexpr const char* kNames[] = {"kind",        "missing",     "extra",       "moved",
                                           "merged",      "split",       "level-gone",  "level-new",
                                           "block-sizes", "no-topology", "new-topology"};
  return kNames[static_cast<size_t>(kind)];
}

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') {
      constexpr char kHex[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      result += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace

std::vector<TopologyChange> diff_topologies(const Topology& first, const Topology& second) {
  std::vector<TopologyChange> changes;
  if (first.kind != second.kind) {
    changes.push_back(
        {DiffKind::kKind, topology_kind_name(first.kind), topology_kind_name(second.kind), {}});
  }
  const Shape first_shape = shape_of(first);
  const Shape second_shape = shape_of(second);
  auto structure = Difference(first_shape, second_shape).find();
  std::move(structure.begin(), structure.end(), std::back_inserter(changes));
  if (first.block_sizes != second.block_sizes) {
    changes.push_back(
        {DiffKind::kBlockSizes, sizes_text(first.block_sizes), sizes_text(second.block_sizes), {}});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.subject != b.subject) return host_before(a.subject, b.subject);
    return host_before(a.object, b.object);
  });
  return changes;
}

std::vector<TopologyChange> diff_topology_files(const TopologyFile& first,
                                                const TopologyFile& second) {
  // Two files with one topology each are compared even if their kinds differ.
  if (first.topologies.size() == 1 && second.topologies.size() == 1) {
    return diff_topologies(first.topologies.front(), second.topologies.front());
  }
  std::vector<TopologyChange> changes;
  for (TopologyKind kind : {TopologyKind::kTree, TopologyKind::kBlock, TopologyKind::kFlat}) {
    const auto old = of_kind(first, kind);
    const auto made = of_kind(second, kind);
    for (size_t i = 0; i < std::max(old.size(), made.size()); ++i) {
      if (i >= made.size()) {
        changes.push_back({DiffKind::kNoTopology, old[i]->name, "", {}});
      } else if (i >= old.size()) {
        changes.push_back({DiffKind::kNewTopology, "", made[i]->name, {}});
      } else {
        auto more = diff_topologies(*old[i], *made[i]);
        std::move(more.begin(), more.end(), std::back_inserter(changes));
      }
    }
  }
  return changes;
}

std::string write_changes(const std::vector<TopologyChange>& changes) {
  std::string text;
  for (const TopologyChange& change : changes) {
    const std::string nodes = std::to_string(change.nodes.size()) +
                              (change.nodes.size() == 1 ? " node " : " nodes ") +
                              compress_hosts(change.nodes);
    const std::string arrow = change.subject + " -> " + change.object;
    std::string line;
    switch (change.kind) {
      case DiffKind::kKind:
        line = "~ kind: " + arrow;
        break;
      case DiffKind::kMissing:
        line = "- " + nodes + " (was below " + change.subject + ")";
        break;
      case DiffKind::kExtra:
        line = "+ " + nodes + " (below " + change.object + ")";
        break;
      case DiffKind::kMoved:
        line = "~ moved: " + arrow + ": " + nodes;
        break;
      case DiffKind::kMerged:
        line = "~ merged: " + change.subject + " into " + change.object + ": " + nodes;
        break;
      case DiffKind::kSplit:
        line = "~ split: " + change.object + " off " + change.subject + ": " + nodes;
        break;
      case DiffKind::kLevelGone:
        line = "- switch " + change.subject + " above " + nodes;
        break;
      case DiffKind::kLevelNew:
        line = "+ switch " + change.object + " above " + nodes;
        break;
      case DiffKind::kBlockSizes:
        line = "~ block sizes: " + arrow;
        break;
      case DiffKind::kNoTopology:
        line = "- topology " + change.subject;
        break;
      case DiffKind::kNewTopology:
        line = "+ topology " + change.object;
        break;
    }
    text += printable(line) + '\n';
  }
  return text;
}

std::string write_changes_json(const std::vector<TopologyChange>& changes) {
  std::string text =
      std::string("{\"same\": ") + (changes.empty() ? "true" : "false") + ", \"changes\": [";
  for (size_t i = 0; i < changes.size(); ++i) {
    const TopologyChange& change = changes[i];
    text += std::string(i > 0 ? "," : "") + "\n  {\"change\": \"" + name_of(change.kind) + "\"";
    if (!change.subject.empty()) text += ", \"from\": " + json_text(change.subject);
    if (!change.object.empty()) text += ", \"to\": " + json_text(change.object);
    if (!change.nodes.empty()) {
      text += ", \"nodes\": " + json_text(compress_hosts(change.nodes)) +
              ", \"count\": " + std::to_string(change.nodes.size());
    }
    text += "}";
  }
  return text + (changes.empty() ? "]}\n" : "\n]}\n");
}

}  // namespace mfu
