#include "topology/node_source.hh"

#include <unistd.h>

#include <algorithm>

#include "topology/nccl_topology.hh"
#include "topology/node_discovery.hh"
#include "topology/node_file.hh"
#include "topology/program_output.hh"

namespace mfu {
namespace {

// The name of the first element, behind what XML may have before it.
std::string first_element(std::string_view text) {
  size_t at = 0;
  while ((at = text.find('<', at)) != std::string_view::npos) {
    std::string_view rest = text.substr(at + 1);
    if (rest.starts_with("!--")) {
      at = std::min(text.find("-->", at), text.size());
    } else if (rest.starts_with("?") || rest.starts_with("!")) {
      ++at;
    } else {
      return std::string(rest.substr(0, rest.find_first_of(" \t\r\n/>")));
    }
  }
  return {};
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

}  // namespace

tl::expected<SourcedNode, std::string> take_node(const std::string& path, uint32_t seconds) {
  tl::expected<NodeMap, std::string> map;
  if (path.empty()) {
    NodeDiscovery discovery;
    const uint32_t limit = seconds == 0 ? kNodeSeconds : seconds;
    discovery.command = {own_program(), "show", "--xml", "--limit",
                         std::to_string((limit + 1) / 2)};
    discovery.limit = std::chrono::seconds(limit);
    map = discover_node(discovery);
    if (!map)
      map = tl::unexpected("this node: " + map.error() + "; mfu-topo show --xml tells more");
  } else {
    const auto text = read_node_file(path, kMostTopologyBytes);
    if (!text) return tl::unexpected(text.error());
    const std::string element = first_element(*text);
    if (element == "topology") {
      map = read_node_map(path);
    } else if (element == "system") {
      map = parse_nccl_topology(*text, path);
    } else {
      map = tl::unexpected(path +
                           ": neither hwloc's XML (lstopo FILE.xml, mfu-topo show --xml) nor "
                           "NCCL's (NCCL_TOPO_DUMP_FILE)");
    }
  }
  if (!map) return tl::unexpected(map.error());
  return SourcedNode{std::move(*map), path.empty() ? host_name() : path, path.empty()};
}

}  // namespace mfu
