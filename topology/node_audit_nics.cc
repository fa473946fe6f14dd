// The rules about network adapters: near to a GPU, and up.
#include <algorithm>
#include <iterator>

#include "topology/nic_roles.hh"
#include "topology/node_audit.hh"
#include "topology/step_gpus.hh"

namespace mfu {
namespace {

std::vector<size_t> active_of(const NodeMap& map, const std::vector<size_t>& nics) {
  std::vector<size_t> active;
  std::copy_if(nics.begin(), nics.end(), std::back_inserter(active),
               [&map](size_t nic) { return map.nics[nic].active(); });
  return active;
}

bool all_known(const NodeMap& map, const std::vector<size_t>& nics) {
  return std::all_of(nics.begin(), nics.end(),
                     [&map](size_t nic) { return map.nics[nic].known(); });
}

// Those that may be on its socket.
std::vector<size_t> local_of(const NodeMap& map, const Gpu& gpu, const std::vector<size_t>& nics) {
  std::vector<size_t> local;
  std::copy_if(nics.begin(), nics.end(), std::back_inserter(local),
               [&](size_t nic) { return !on_two_sockets(gpu.pci, map.nics[nic].pci); });
  return local;
}

std::string exclusion(const StepPlacement& step) {
  return step.node.empty() ? "" : "; until then srun --exclude=" + step.node;
}

// Of a card with several functions one port in use is enough: the other is often not cabled.
bool card_active(const NodeMap& map, const Nic& nic) {
  auto slot = [](const Nic& of) { return of.pci.bus_id.substr(0, of.pci.bus_id.find('.')); };
  return std::any_of(map.nics.begin(), map.nics.end(), [&](const Nic& other) {
    const bool same =
        nic.system_guid != 0 ? other.system_guid == nic.system_guid : slot(other) == slot(nic);
    return same && other.active();
  });
}

std::string port_text(const Nic& nic) {
  const NicPort& port = nic.ports.front();
  std::string text = "port " + std::to_string(port.number) + " is " + port_state_name(port.state);
  if (!port.physical.empty()) text += " (" + port.physical + ")";
  if (port.lid == kNoLid) text += ", LID 0xffff: no subnet manager has seen it";
  return text;
}

std::string port_remedy(const Nic& nic) {
  const NicPort& port = nic.ports.front();
  const std::string number = std::to_string(port.number);
  const std::string control = "ibportstate -C " + nic.name + " -D 0 " + number;
  std::string remedy = "report to the administrator: ";
  if (port.layer == LinkLayer::kEthernet) {
    return remedy + "rdma link show " + nic.name + "/" + number +
           ", then ip link set its netdev up";
  }
  if (port.physical == "Disabled") return remedy + control + " enable";
  if (port.physical == "Polling") {
    return remedy + "mlxlink -d " + nic.name + "; check the cable and the switch's port";
  }
  if (port.state == PortState::kInit || port.state == PortState::kArmed) {
    return remedy + "sminfo -C " + nic.name + "; the subnet manager does not bring it up";
  }
  return remedy + "ibstat " + nic.name + ", then " + control + " query";
}

}  // namespace

std::vector<Finding> audit_nearest_nic(const NodeMap& map, const StepPlacement& step,
                                       const NodeAuditOptions& options) {
  std::vector<Finding> findings;
  const std::vector<size_t> compute =
      nics_with(nic_roles(map, options.storage_nics), NicRole::kCompute);
  if (step.nodes == 1 || map.gpus.empty() || compute.empty()) return findings;
  const std::vector<size_t> active = active_of(map, compute);
  if (active.empty()) {
    if (!all_known(map, compute)) return findings;
    findings.push_back({"no-active-nic", Severity::kHigh, step.node,
                        "no port of " + nic_names(map, compute) +
                            " is ACTIVE: " + std::to_string(map.gpus.size()) + " GPUs have no RDMA",
                        "report to the administrator: ibstat" + exclusion(step)});
    return findings;
  }
  for (const size_t index : step_gpus(map, step)) {
    const Gpu& gpu = map.gpus[index];
    // SYS is also between two NUMA nodes of one socket, which is not what this is about.
    if (!local_of(map, gpu, active).empty()) continue;
    const std::vector<size_t> local = local_of(map, gpu, compute);
    // Two NUMA nodes may be of one socket, where it is unknown.
    if (!all_known(map, local) || (local.empty() && gpu.pci.package < 0)) continue;
    const NearestNics nearest = nearest_nics(map, gpu, active);
    const Nic& taken = map.nics[nearest.nics.front()];
    std::string evidence = "nearest active NIC " + taken.name + " is SYS away (" +
                           where_is(taken.pci) + "), the GPU is on " + where_is(gpu.pci);
    std::string remedy;
    if (local.empty()) {
      evidence += "; no NIC is on its socket";
      remedy = "use GPUs near to " + nic_names(map, active) +
               " in steps of several nodes, by --gpus-per-node and --gpu-bind=closest; the node "
               "itself lacks a NIC";
    } else {
      evidence += "; " + nic_names(map, local) + " of its socket " +
                  (local.size() == 1 ? "is" : "are") + " not active";
      remedy =
          "report to the administrator: ibstat " + map.nics[local.front()].name + exclusion(step);
    }
    // A node without a NIC there was built so, and is whole.
    findings.push_back({"gpu-nic-remote", local.empty() ? Severity::kWarning : Severity::kHigh,
                        place_of(step, gpu), evidence, remedy});
  }
  return findings;
}

std::vector<Finding> audit_nic_ports(const NodeMap& map, const StepPlacement& step,
                                     const NodeAuditOptions& options) {
  std::vector<Finding> findings;
  if (step.nodes == 1) return findings;
  const std::vector<size_t> compute =
      nics_with(nic_roles(map, options.storage_nics), NicRole::kCompute);
  const std::vector<size_t> active = active_of(map, compute);
  const std::vector<size_t> gpus = step_gpus(map, step);
  for (const size_t index : compute) {
    const Nic& nic = map.nics[index];
    if (!nic.known() || nic.active() || card_active(map, nic)) continue;
    std::vector<std::string> served;
    Distance far = Distance::kSys;
    for (const size_t gpu : gpus) {
      const NearestNics nearest = nearest_nics(map, map.gpus[gpu], compute);
      const bool is_nearest =
          std::find(nearest.nics.begin(), nearest.nics.end(), index) != nearest.nics.end();
      if (!is_nearest || nearest.distance == Distance::kSys) continue;
      served.push_back(short_name(map.gpus[gpu]));
      far = nearest.distance;
    }
    if (served.empty()) continue;
    std::string evidence =
        port_text(nic) + "; nearest NIC (" + distance_name(far) + ") of " + listed(served);
    if (!active.empty()) evidence += "; active: " + nic_names(map, active);
    findings.push_back({"nic-down", Severity::kHigh, place_of(step, nic), evidence,
                        port_remedy(nic) + exclusion(step)});
  }
  return findings;
}

}  // namespace mfu
