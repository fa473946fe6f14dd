#include "topology/generate_command.hh"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <iterator>
#include <string>
#include <unordered_set>
#include <vector>

#include "topology/command_line.hh"
#include "topology/fabric_text.hh"
#include "topology/host_list.hh"
#include "topology/node_file.hh"
#include "topology/text_table.hh"
#include "topology/topology_diff.hh"
#include "topology/topology_generate.hh"
#include "topology/topology_names.hh"
#include "topology/topology_yaml.hh"

namespace mfu {
namespace {

namespace options = boost::program_options;

constexpr size_t kMostBytes = 16 << 20;

constexpr char kGenerate[] =
    "Usage: mfu-topo generate --fabric FILE [OPTION...]\n\n"
    "Prints Slurm's topology file for the nodes of an InfiniBand fabric. FILE is a snapshot, or "
    "what\n"
    "ibnetdiscover prints. What is left out is told on standard error and in the file's "
    "comments.\n\n";
constexpr char kDiff[] =
    "Usage: mfu-topo diff IN-USE OTHER\n"
    "       mfu-topo diff IN-USE --fabric FILE [OPTION...]\n\n"
    "Tells how the topology file in use differs from another one, or from the fabric, by "
    "structure;\n"
    "names of switches do not matter. Exit status: 0 the same, 1 different, 2 trouble.\n\n";

struct Given {
  std::vector<std::string> files;
  std::string fabric, format, nodes, nodes_file, names, cliques, rest, sizes;
  double overlap = 0.5;
  bool root = false;
  bool json = false;
};

void add_options(options::options_description* shown, Given* given) {
  auto add = shown->add_options();
  add("fabric", options::value(&given->fabric)->value_name("FILE"), "the fabric's snapshot");
  add("nodes", options::value(&given->nodes)->value_name("LIST"), "only these nodes of Slurm");
  add("nodes-file", options::value(&given->nodes_file)->value_name("FILE"),
      "the same from a file (- is standard input): output of scontrol show nodes, or hostlists");
  add("names", options::value(&given->names)->value_name("FILE"),
      "lines of KEY NODE; KEY is a node GUID (0x...), a node description or a host's name");
  add("cliques", options::value(&given->cliques)->value_name("FILE"),
      "lines of NODE CLIQUE: NVLink domains, which are the blocks then");
  add("block-sizes", options::value(&given->sizes)->value_name("N,..."),
      "nodes of a base block, and of larger ones; blocks with fewer nodes are left out of a "
      "topology.conf");
  add("overlap", options::value(&given->overlap)->default_value(0.5, "0.5")->value_name("SHARE"),
      "leaves are merged if they share this much of their hosts");
  add("root", options::bool_switch(&given->root),
      "one switch above fabrics that no link joins: jobs may span them then");
  add("rest", options::value(&given->rest)->value_name("NAME"),
      "a switch of that name for nodes that are not in the fabric");
}

std::string input(const std::string& path) {
  if (path != "-") return value_or_fail(read_node_file(path, kMostBytes));
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

NameMap name_map(const std::string& path) {
  if (path.empty()) return {};
  return value_or_fail(parse_name_map(input(path), path));
}

// NODE may be a hostlist: all of it is in the clique.
std::unordered_map<std::string, std::string> clique_map(const std::string& path) {
  std::unordered_map<std::string, std::string> cliques;
  for (const auto& [nodes, clique] : name_map(path).by_text) {
    for (const std::string& node : value_or_fail(expand_hosts(nodes), path + ": ")) {
      const auto [found, added] = cliques.emplace(node, clique);
      if (!added && found->second != clique) {
        throw CommandFailed{path + ": " + node + " is in two cliques"};
      }
    }
  }
  return cliques;
}

std::vector<uint32_t> block_sizes(const std::string& list) {
  std::vector<uint32_t> sizes;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    uint32_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size == 0 || (stop < end && *stop != ',')) {
      throw WrongUsage{"--block-sizes is a list of numbers above 0"};
    }
    sizes.push_back(size);
    at = stop < end ? stop + 1 : stop;
  }
  return sizes;
}

std::string date_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts = {};
  char text[40];
  if (gmtime_r(&time, &parts) == nullptr) return "an unknown time";
  return {text, std::strftime(text, sizeof text, "%F %T UTC", &parts)};
}

// SOURCE_DATE_EPOCH is the custom of programs whose output is to be the same again.
int64_t now() {
  const char* fixed = std::getenv("SOURCE_DATE_EPOCH");
  return fixed != nullptr ? std::strtoll(fixed, nullptr, 10) : std::time(nullptr);
}

// What a fabric and the options make, and what to say about it.
class Generator {
 public:
  explicit Generator(const Given& given) : given_(given) {
    if (given.fabric.empty()) throw WrongUsage{"--fabric FILE is needed"};
    if (!given.nodes.empty() && !given.nodes_file.empty()) {
      throw WrongUsage{"--nodes and --nodes-file: one of them"};
    }
    if (!(given.overlap > 0 && given.overlap <= 1))
      throw WrongUsage{"--overlap is above 0, at most 1"};
    if (!given.rest.empty() && slurm_name(given.rest) != given.rest) {
      throw WrongUsage{"--rest: Slurm cannot have a switch of that name"};
    }
    options_.root = given.root;
    options_.rest = given.rest;
    options_.block_sizes = block_sizes(given.sizes);
    options_.cliques = clique_map(given.cliques);
    const NameMap names = name_map(given.names);
    const bool listed = !given.nodes.empty() || !given.nodes_file.empty();
    std::vector<std::string> list;
    if (listed) {
      const bool file = !given.nodes_file.empty();
      list = value_or_fail(parse_node_list(file ? input(given.nodes_file) : given.nodes),
                           file ? given.nodes_file + ": " : "--nodes: ");
    }
    snapshot_ = value_or_fail(read_fabric(given.fabric));
    const Fabric& fabric = snapshot_.fabric;
    roles_ = find_roles(fabric, adapter_names(fabric, names), given.overlap);
    nodes_ = place_nodes(roles_, names, listed ? &list : nullptr);
  }

  // Throws CommandFailed when there is nothing to make it of.
  Topology make(TopologyKind kind, const GenerateOptions& options) {
    auto made = kind == TopologyKind::kTree
                    ? generate_tree(snapshot_.fabric, roles_, nodes_, options)
                    : generate_blocks(snapshot_.fabric, roles_, nodes_, options);
    GeneratedTopology result = value_or_fail(std::move(made), given_.fabric + ": ");
    for (const std::string& note : result.notes) {
      if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
    }
    return std::move(result.topology);
  }

  std::vector<std::string> comments() const {
    std::vector<std::string> lines;
    lines.push_back(std::string("Made by mfu-topo ") + MFU_VERSION + " on " + date_text(now()) +
                    " from " + given_.fabric + ",");
    lines.push_back(snapshot_.taken_at != 0 ? "a snapshot of " + date_text(snapshot_.taken_at) + "."
                                            : "a snapshot without a date.");
    for (const std::string& note : notes_) lines.push_back("Note: " + note + ".");
    return lines;
  }

  const GenerateOptions& options() const { return options_; }
  const std::vector<std::string>& notes() const { return notes_; }
  bool has_blocks() const { return !options_.cliques.empty() || !options_.block_sizes.empty(); }

 private:
  const Given& given_;
  GenerateOptions options_;
  FabricSnapshot snapshot_;
  FabricRoles roles_;
  SlurmNodes nodes_;
  std::vector<std::string> notes_;
};

std::string generate(const Given& given) {
  Generator generator(given);
  std::vector<Topology> topologies;
  GenerateOptions options = generator.options();
  // Whatever reads a topology.yaml takes small blocks too.
  if (given.format == "yaml") options.keeps_small = [](const TopologyBlock&) { return true; };
  if (given.format == "tree" || given.format == "yaml") {
    topologies.push_back(generator.make(TopologyKind::kTree, options));
    topologies.back().name = "tree";
  }
  if (given.format == "block" || (given.format == "yaml" && generator.has_blocks())) {
    topologies.push_back(generator.make(TopologyKind::kBlock, options));
    topologies.back().name = "block";
  }
  if (topologies.empty()) throw WrongUsage{"--format is tree, block or yaml"};
  topologies.front().cluster_default = true;
  for (const std::string& note : generator.notes()) {
    std::cerr << "mfu-topo generate: " << printable(note) << '\n';
  }
  const auto comments = generator.comments();
  return given.format == "yaml" ? write_topology_yaml(topologies, comments)
                                : write_topology_conf(topologies.front(), comments);
}

// Blocks as the file in use has them: with no sizes where it says none, and with small ones of
// which it has a node; it may have left others out.
Topology blocks_like(const Topology& used, Generator* generator) {
  GenerateOptions options = generator->options();
  std::unordered_set<std::string> nodes;
  for (const TopologyBlock& block : used.blocks) {
    nodes.insert(block.nodes.begin(), block.nodes.end());
  }
  options.keeps_small = [&nodes](const TopologyBlock& block) {
    return std::any_of(block.nodes.begin(), block.nodes.end(),
                       [&nodes](const std::string& node) { return nodes.contains(node); });
  };
  const bool sizes_given = !options.block_sizes.empty();
  if (!sizes_given) options.block_sizes = used.block_sizes;
  if (options.block_sizes.empty()) options.block_sizes = {1};  // no block is small
  Topology made = generator->make(TopologyKind::kBlock, options);
  if (!sizes_given) made.block_sizes = used.block_sizes;
  return made;
}

// Of each topology that the file in use has, the same kind from the fabric.
TopologyFile generate_like(const Given& given, const TopologyFile& used) {
  Generator generator(given);
  TopologyFile made;
  for (const Topology& topology : used.topologies) {
    if (topology.kind != TopologyKind::kTree && topology.kind != TopologyKind::kBlock) continue;
    made.topologies.push_back(topology.kind == TopologyKind::kBlock
                                  ? blocks_like(topology, &generator)
                                  : generator.make(topology.kind, generator.options()));
    made.topologies.back().name = topology.name;
    made.topologies.back().cluster_default = topology.cluster_default;
  }
  if (made.topologies.empty()) throw CommandFailed{"the file in use has neither tree nor blocks"};
  made.notes = generator.notes();
  return made;
}

}  // namespace

int run_generate(int argc, char** argv) {
  Given given;
  options::options_description shown("Options");
  shown.add_options()("format",
                      options::value(&given.format)->default_value("tree")->value_name("WHAT"),
                      "tree or block: topology.conf; yaml: topology.yaml with a tree, and with "
                      "blocks if --cliques or --block-sizes is given");
  add_options(&shown, &given);
  return run_command(argc, argv, {"generate", kGenerate}, &shown, [&] {
    std::cout << generate(given);
    return 0;
  });
}

int run_diff(int argc, char** argv) {
  Given given;
  options::options_description shown("Options");
  shown.add_options()("json", options::bool_switch(&given.json), "one JSON object");
  add_options(&shown, &given);
  constexpr int kTrouble = 2;
  return run_command(argc, argv, {"diff", kDiff, kTrouble, kTrouble, &given.files}, &shown, [&] {
    if (given.files.size() != (given.fabric.empty() ? 2 : 1)) {
      throw WrongUsage{"two files, or one and --fabric"};
    }
    const TopologyFile used = value_or_fail(read_topology_file(given.files.front()));
    const TopologyFile other = given.fabric.empty()
                                   ? value_or_fail(read_topology_file(given.files[1]))
                                   : generate_like(given, used);
    for (const std::string& note : other.notes)
      std::cerr << "mfu-topo diff: " << printable(note) << '\n';
    const auto changes = diff_topology_files(used, other);
    std::cout << (given.json ? write_changes_json(changes) : write_changes(changes));
    return changes.empty() ? 0 : 1;
  });
}

}  // namespace mfu
