#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <tuple>

#include "topology/fabric_text.hh"

namespace mfu {
namespace {

struct Words {
  const char* block;
  const char* guid;
  char letter;
};

Words words_of(FabricKind kind) {
  switch (kind) {
    case FabricKind::kSwitch:
      return {"Switch", "switchguid", 'S'};
    case FabricKind::kRouter:
      return {"Rt", "rtguid", 'R'};
    default:
      return {"Ca", "caguid", 'H'};
  }
}

std::string rate_text(const FabricPort& port) {
  const std::string name = link_name(port);
  return (port.width == 0 ? "?" + name : name) + (port.lane_mbps == 0 ? "??" : "");
}

void append_node(const FabricNode& node, std::string* text) {
  const Words words = words_of(node.kind);
  char line[160];
  auto append = [text, &line](int length) { text->append(line, static_cast<size_t>(length)); };
  append(snprintf(line, sizeof line, "\nvendid=0x%x\ndevid=0x%x\n", node.vendor, node.device));
  if (node.system_guid != 0) {
    append(snprintf(line, sizeof line, "sysimgguid=0x%" PRIx64 "\n", node.system_guid));
  }
  append(snprintf(line, sizeof line, "%s=0x%" PRIx64 "\n%s\t%u \"%c-%016" PRIx64 "\"\t\t# \"",
                  words.guid, node.guid, words.block, node.port_count, words.letter, node.guid));
  text->append(node.description).append("\"");
  if (node.kind == FabricKind::kSwitch) {
    append(snprintf(line, sizeof line, " base port 0 lid %u lmc 0", node.lid));
  }
  text->append("\n");
}

void append_port(const Fabric& fabric, const FabricNode& node, const FabricPort& port,
                 std::string* text) {
  const FabricNode& peer = fabric.nodes[port.peer];
  char line[160];
  auto append = [text, &line](int length) { text->append(line, static_cast<size_t>(length)); };
  append(snprintf(line, sizeof line, "[%u]\t\"%c-%016" PRIx64 "\"[%u]\t\t# ", port.number,
                  words_of(peer.kind).letter, peer.guid, port.peer_port));
  if (node.kind != FabricKind::kSwitch) {
    append(snprintf(line, sizeof line, "lid %u lmc 0 ", node.lid));
  }
  text->append("\"").append(peer.description).append("\"");
  append(snprintf(line, sizeof line, " lid %u ", peer.lid));
  text->append(rate_text(port)).append("\n");
}

}  // namespace

std::string write_fabric(const Fabric& fabric, int64_t taken_at) {
  std::vector<const FabricNode*> nodes;
  nodes.reserve(fabric.nodes.size());
  for (const FabricNode& node : fabric.nodes) nodes.push_back(&node);
  std::sort(nodes.begin(), nodes.end(), [](const FabricNode* a, const FabricNode* b) {
    return std::tie(a->kind, a->guid) < std::tie(b->kind, b->guid);
  });
  std::string text;
  if (taken_at != 0) {
    const time_t seconds = taken_at;
    tm time{};
    char stamp[80];
    gmtime_r(&seconds, &time);
    text.append(stamp, strftime(stamp, sizeof stamp,
                                "# slurm-mfu: snapshot taken at %Y-%m-%dT%H:%M:%SZ\n", &time));
  }
  for (const FabricNode* node : nodes) {
    append_node(*node, &text);
    for (const FabricPort& port : node->ports) append_port(fabric, *node, port, &text);
  }
  return text;
}

}  // namespace mfu
