// Any bytes as a fabric's text: no crash, no undefined behaviour, no cost beyond measure; what is
// accepted is a sound graph, comes back from the writer as it was, and can be audited.
#include <cstdlib>
#include <string_view>

#include "topology/fabric_audit.hh"
#include "topology/fabric_text.hh"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_graph(const mfu::Fabric& fabric) {
  require(fabric.by_guid.size() == fabric.nodes.size());
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    const mfu::FabricNode& node = fabric.nodes[i];
    require(fabric.find(node.guid) == i && node.description.size() <= 63);
    uint32_t last = 0;
    for (const mfu::FabricPort& port : node.ports) {
      require(port.number > last && port.number <= node.port_count);
      require(port.peer < fabric.nodes.size());
      last = port.number;
      bool mutual = false;
      for (const mfu::FabricPort& other : fabric.nodes[port.peer].ports) {
        mutual = mutual || (other.number == port.peer_port && other.peer == i &&
                            other.peer_port == port.number);
      }
      require(mutual);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = mfu::parse_fabric({reinterpret_cast<const char*>(data), size});
  if (!read) {
    require(!read.error().empty());
    return 0;
  }
  const mfu::Fabric& fabric = read->fabric;
  check_graph(fabric);
  const std::string text = mfu::write_fabric(fabric, 1);
  const auto again = mfu::parse_fabric(text);
  require(again && again->contradictions == 0 && mfu::write_fabric(again->fabric, 1) == text);

  const mfu::FabricRoles roles = mfu::find_roles(fabric);
  const auto findings = mfu::audit_fabric(fabric, roles);
  std::vector<uint32_t> hosts;
  for (uint32_t i = 0; i < roles.hosts.size(); ++i) hosts.push_back(i);
  const mfu::JobSpan span = mfu::FabricSpans(fabric, roles).span(hosts);
  require(span.least_leaves <= span.leaves && span.least_units <= span.units &&
          span.least_pods <= span.pods);
  mfu::audit_job(roles, span, hosts, findings);
  return 0;
}
