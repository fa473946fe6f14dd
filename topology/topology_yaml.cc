#include "topology/topology_yaml.hh"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "topology/host_list.hh"

namespace mfu {
namespace {

constexpr size_t kMostTopologies = 64;

using Wrong = tl::unexpected<std::string>;

// Thrown inside this file only; the place is the YAML node's.
struct Misplaced {
  YAML::Mark mark;
  std::string why;
};

uint32_t line_of(const YAML::Mark& mark) {
  return mark.line >= 0 ? static_cast<uint32_t>(mark.line) + 1 : 0;
}

class Reader {
 public:
  TopologyFile read(const YAML::Node& root, const std::string& where) {
    if (!root.IsSequence()) {
      throw Misplaced{root.Mark(), "a topology.yaml is a list of '- topology: NAME'"};
    }
    if (root.size() > kMostTopologies) throw Misplaced{root.Mark(), "too many topologies"};
    TopologyFile file;
    std::set<std::string> names;
    for (const YAML::Node& entry : root) {
      Topology topology = topology_of(entry);
      if (!names.insert(topology.name).second) {
        throw Misplaced{entry.Mark(), "topology '" + topology.name + "' is defined before"};
      }
      auto notes = check_topology(topology, where);
      if (!notes) throw notes.error();
      for (std::string& note : *notes) file.notes.push_back(topology.name + ": " + note);
      if (topology.kind == TopologyKind::kOther) {
        file.notes.push_back(topology.name + ": of a kind that is not known here");
      }
      file.topologies.push_back(std::move(topology));
    }
    if (file.topologies.empty()) throw Misplaced{root.Mark(), "no topology"};
    return file;
  }

 private:
  // A scalar of the entry `key`, which must be there if `needed`.
  static std::string text_of(const YAML::Node& map, const char* key, bool needed) {
    const YAML::Node value = map[key];
    if (!value || value.IsNull()) {
      if (needed) throw Misplaced{map.Mark(), std::string("no '") + key + ":'"};
      return "";
    }
    if (!value.IsScalar()) throw Misplaced{value.Mark(), std::string(key) + " is one word"};
    return value.Scalar();
  }

  static bool truth_of(const YAML::Node& map, const char* key) {
    const YAML::Node value = map[key];
    bool truth = false;
    if (!value) return false;
    if (!YAML::convert<bool>::decode(value, truth)) {
      throw Misplaced{value.Mark(), std::string(key) + " is true or false"};
    }
    return truth;
  }

  // True, or since 26.05 its options.
  static bool is_flat(const YAML::Node& entry) {
    const YAML::Node flat = entry["flat"];
    if (!flat || !flat.IsMap()) return truth_of(entry, "flat");
    expect_keys(flat, {"alpha_step_rank"});
    truth_of(flat, "alpha_step_rank");
    return true;
  }

  static void expect_map(const YAML::Node& node, const char* what) {
    if (!node.IsMap()) throw Misplaced{node.Mark(), std::string(what) + " is a list of keys"};
  }

  static void expect_keys(const YAML::Node& map, std::initializer_list<const char*> known) {
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        throw Misplaced{entry.first.Mark(), "unknown key '" + key.substr(0, 40) + "'"};
      }
    }
  }

  static YAML::Node list_of(const YAML::Node& map, const char* key) {
    const YAML::Node list = map[key];
    if (!list || !list.IsSequence()) {
      throw Misplaced{map.Mark(), std::string("no list '") + key + ":'"};
    }
    return list;
  }

  // The hostlist of `key`, or none.
  std::vector<std::string> hosts_of(const YAML::Node& map, const char* key) {
    auto names = expand_hosts(text_of(map, key, false));
    if (!names) throw Misplaced{map[key].Mark(), names.error()};
    names_ += names->size();
    if (names_ > 4 * kMostHosts) throw Misplaced{map.Mark(), "too many names in one file"};
    return std::move(*names);
  }

  void count(const YAML::Node& entry) {
    // An alias may stand for many entries in few bytes.
    if (++entries_ > 2 * kMostSwitches) throw Misplaced{entry.Mark(), "too many entries"};
  }

  Topology topology_of(const YAML::Node& entry) {
    expect_map(entry, "a topology");
    Topology topology;
    topology.name = text_of(entry, "topology", true);
    topology.cluster_default = truth_of(entry, "cluster_default");
    const YAML::Node tree = entry["tree"];
    const YAML::Node block = entry["block"];
    const bool flat = is_flat(entry);
    if ((tree ? 1 : 0) + (block ? 1 : 0) + (flat ? 1 : 0) > 1) {
      throw Misplaced{entry.Mark(), "one of tree, block and flat"};
    }
    if (tree || block || flat) {
      expect_keys(entry, {"topology", "cluster_default", "tree", "block", "flat"});
    }
    topology.kind = flat ? TopologyKind::kFlat : TopologyKind::kOther;
    if (tree) read_tree(tree, &topology);
    if (block) read_blocks(block, &topology);
    return topology;
  }

  void read_tree(const YAML::Node& tree, Topology* topology) {
    topology->kind = TopologyKind::kTree;
    expect_map(tree, "tree");
    expect_keys(tree, {"switches"});
    for (const YAML::Node& entry : list_of(tree, "switches")) {
      count(entry);
      expect_map(entry, "a switch");
      expect_keys(entry, {"switch", "children", "nodes"});
      TopologySwitch& one = topology->switches.emplace_back();
      one.name = text_of(entry, "switch", true);
      one.switches = hosts_of(entry, "children");
      one.nodes = hosts_of(entry, "nodes");
      one.line = line_of(entry.Mark());
    }
  }

  void read_blocks(const YAML::Node& block, Topology* topology) {
    topology->kind = TopologyKind::kBlock;
    expect_map(block, "block");
    expect_keys(block, {"block_sizes", "blocks"});
    if (block["block_sizes"]) {
      for (const YAML::Node& entry : list_of(block, "block_sizes")) {
        count(entry);
        uint32_t size = 0;
        if (!entry.IsScalar() || !YAML::convert<uint32_t>::decode(entry, size) || size == 0) {
          throw Misplaced{entry.Mark(), "a block size is a number above 0"};
        }
        topology->block_sizes.push_back(size);
      }
    }
    for (const YAML::Node& entry : list_of(block, "blocks")) {
      count(entry);
      expect_map(entry, "a block");
      expect_keys(entry, {"block", "nodes"});
      TopologyBlock& one = topology->blocks.emplace_back();
      one.name = text_of(entry, "block", true);
      one.nodes = hosts_of(entry, "nodes");
      one.line = line_of(entry.Mark());
    }
  }

  size_t names_ = 0;
  size_t entries_ = 0;
};

// Bare, unless YAML might read something else than this text.
std::string scalar(const std::string& text) {
  const bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ||
                              c == '_' || c == '-' || c == '[' || c == ']' || c == ',';
                     });
  std::string word = text;
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  static constexpr const char* kSpecial[] = {"true", "false", "yes", "no", "on",
                                             "off",  "null",  "y",   "n"};
  const bool special = std::any_of(std::begin(kSpecial), std::end(kSpecial),
                                   [&](const char* one) { return word == one; });
  return plain && !special ? text : "\"" + text + "\"";
}

}  // namespace

tl::expected<TopologyFile, std::string> parse_topology_yaml(std::string_view text,
                                                            const std::string& where) {
  auto placed = [&](const YAML::Mark& mark, const std::string& why) {
    const uint32_t line = line_of(mark);
    return Wrong(where + (line > 0 ? ": line " + std::to_string(line) : "") + ": " + why);
  };
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root || root.IsNull()) return Wrong(where + ": empty: no '- topology: NAME'");
    return Reader().read(root, where);
  } catch (const Misplaced& misplaced) {
    return placed(misplaced.mark, misplaced.why);
  } catch (const std::string& error) {
    return Wrong(error);
  } catch (const YAML::Exception& error) {
    return placed(error.mark, error.msg);
  }
}

std::string write_topology_yaml(const std::vector<Topology>& topologies,
                                const std::vector<std::string>& comments) {
  std::string text = topology_comments(comments) + "---\n";
  for (const Topology& topology : topologies) {
    text += "- topology: " + scalar(topology.name) + "\n";
    text +=
        std::string("  cluster_default: ") + (topology.cluster_default ? "true" : "false") + "\n";
    if (topology.kind == TopologyKind::kFlat) text += "  flat: true\n";
    if (topology.kind == TopologyKind::kTree) {
      text += "  tree:\n    switches:\n";
      for (const TopologySwitch& one : topology.switches) {
        text += "    - switch: " + scalar(one.name) + "\n";
        if (!one.switches.empty()) {
          text += "      children: " + scalar(compress_hosts(one.switches)) + "\n";
        }
        if (!one.nodes.empty()) text += "      nodes: " + scalar(compress_hosts(one.nodes)) + "\n";
      }
    }
    if (topology.kind == TopologyKind::kBlock) {
      text += "  block:\n";
      if (!topology.block_sizes.empty()) text += "    block_sizes:\n";
      for (uint32_t size : topology.block_sizes) text += "    - " + std::to_string(size) + "\n";
      text += "    blocks:\n";
      for (const TopologyBlock& block : topology.blocks) {
        text += "    - block: " + scalar(block.name) + "\n";
        if (!block.nodes.empty()) {
          text += "      nodes: " + scalar(compress_hosts(block.nodes)) + "\n";
        }
      }
    }
  }
  return text;
}

}  // namespace mfu
