#include "topology/show_command.hh"

#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <iostream>

#include "topology/command_line.hh"
#include "topology/fabric_options.hh"
#include "topology/fabric_picture.hh"
#include "topology/node_picture.hh"
#include "topology/node_source.hh"
#include "topology/nvml_command.hh"
#include "topology/text_table.hh"
#include "topology/whole_file.hh"

namespace mfu {
namespace {

namespace options = boost::program_options;

constexpr char kShow[] =
    "Usage: mfu-topo show [--node FILE] [--svg FILE | --json | --xml]\n"
    "       mfu-topo show --fabric FILE | --live-fabric [--all] [--svg FILE | --json]\n\n"
    "Draws this node: GPUs, network adapters, NUMA nodes and how far they are apart; or a fabric:\n"
    "islands, pods, units, leaves, with what an audit finds in them.\n\n";
constexpr char kSnapshot[] =
    "Usage: mfu-topo snapshot --output FILE [--ca NAME] [--limit SECONDS]\n\n"
    "Discovers the InfiniBand fabric and writes it for the other commands. For root's timer: "
    "takes\n"
    "half a minute for 35,000 adapters. On any error the file stays as it was.\n\n";

struct Given {
  std::string node, names, svg;
  FabricSource fabric;
  bool json = false, xml = false, all = false;
};

void write_or_fail(const std::string& path, const std::string& text) {
  const std::string error = write_whole_file(path, text);
  if (!error.empty()) throw CommandFailed{error};
}

int show_node(const Given& given) {
  if (given.all) throw WrongUsage{"--all is for a fabric"};
  if (!given.names.empty()) throw WrongUsage{"--names is for a fabric"};
  const SourcedNode node = value_or_fail(take_node(given.node, given.fabric.seconds));
  if (!given.svg.empty()) write_or_fail(given.svg, draw_node_svg(node.map, node.name));
  if (given.json) {
    std::cout << node_json(node.map, node.name);
  } else if (given.svg.empty()) {
    std::cout << draw_node(node.map, node.name, terminal_columns());
  }
  return 0;
}

int show_fabric(const Given& given) {
  const NameMap names = value_or_fail(read_name_map(given.names));
  const FabricSnapshot snapshot = value_or_fail(take_fabric(given.fabric));
  const FabricRoles roles = find_roles(snapshot.fabric, adapter_names(snapshot.fabric, names));
  const FabricFigures figures =
      fabric_figures(snapshot.fabric, roles, audit_fabric(snapshot.fabric, roles));
  const FabricPicture picture = {snapshot.fabric, roles, figures,
                                 given.fabric.live ? "now" : given.fabric.file, snapshot.taken_at};
  if (!given.svg.empty()) write_or_fail(given.svg, draw_fabric_svg(picture));
  if (given.json) {
    std::cout << fabric_json(picture);
  } else if (given.svg.empty()) {
    std::cout << draw_fabric(picture, terminal_columns(), given.all);
  }
  return 0;
}

int show(const Given& given) {
  const bool fabric = given.fabric.live || !given.fabric.file.empty();
  if (given.fabric.live && !given.fabric.file.empty()) {
    throw WrongUsage{"--fabric and --live-fabric: one of them"};
  }
  if (fabric && !given.node.empty()) throw WrongUsage{"a node or a fabric: one of them"};
  if (!given.xml) return fabric ? show_fabric(given) : show_node(given);
  if (fabric || !given.node.empty() || given.json || !given.svg.empty()) {
    throw WrongUsage{"--xml is of this node, and alone"};
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever runs us for it may be killed while a driver hangs
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const Clock::time_point begin = Clock::now();
  const std::string xml = value_or_fail(discover_node_xml());
  const NodeMap map = value_or_fail(node_map_from_xml(xml, "hwloc's own XML"));
  const auto taken = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  const milliseconds limit = given.fabric.seconds == 0
                                 ? nvml_limit(taken)
                                 : milliseconds(std::chrono::seconds(given.fabric.seconds));
  std::cout << xml << nvml_section(map, limit);
  return 0;
}

}  // namespace

int run_show(int argc, char** argv) {
  Given given;
  options::options_description shown("Options");
  auto add = shown.add_options();
  add("node", options::value(&given.node)->value_name("FILE"),
      "a node from a file of hwloc or of NCCL instead of this one");
  add_fabric_options(&shown, &given.fabric);
  add("names", options::value(&given.names)->value_name("FILE"),
      "lines of KEY NODE; KEY is a node GUID (0x...), a node description or a host's name");
  add("all", options::bool_switch(&given.all), "every leaf of a fabric, also where many are equal");
  add("svg", options::value(&given.svg)->value_name("FILE"), "write a picture for a browser");
  add("json", options::bool_switch(&given.json), "one JSON object");
  add("xml", options::bool_switch(&given.xml),
      "hwloc's XML of this node, with NVML's word on its GPUs behind it");
  return run_command(argc, argv, {"show", kShow}, &shown, [&given] { return show(given); });
}

int run_snapshot(int argc, char** argv) {
  FabricSource source;
  source.live = true;
  std::string output;
  options::options_description shown("Options");
  shown.add_options()("output,o", options::value(&output)->value_name("FILE"),
                      "where to write it: the old file is replaced when the new one is complete");
  add_discovery_options(&shown, &source);
  return run_command(argc, argv, {"snapshot", kSnapshot}, &shown, [&] {
    if (output.empty()) throw WrongUsage{"--output FILE is needed"};
    const FabricSnapshot snapshot = value_or_fail(take_fabric(source));
    write_or_fail(output, write_fabric(snapshot.fabric, snapshot.taken_at));
    return 0;
  });
}

}  // namespace mfu
