#include "topology/fabric_places.hh"

#include <cinttypes>
#include <cstdio>

#include "topology/fabric_hosts.hh"
#include "topology/topology_names.hh"

namespace mfu {

std::string guid_text(uint64_t guid) {
  char text[24];
  snprintf(text, sizeof text, "0x%016" PRIx64, guid);
  return text;
}

std::string switch_place(const FabricNode& node) {
  std::string name = switch_name(node.description);
  if (node.description.find(';') != std::string::npos && !name.empty()) return name;
  return name + (name.empty() ? "" : " ") + guid_text(node.guid);
}

std::string adapter_place(const Fabric& fabric, const FabricRoles& roles, uint32_t adapter) {
  const uint32_t host = roles.host_of[adapter];
  if (host != kNoIndex) return roles.hosts[host].name + " " + roles.devices[adapter];
  return fabric.nodes[adapter].description + " " + guid_text(fabric.nodes[adapter].guid);
}

std::string counted(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace mfu
