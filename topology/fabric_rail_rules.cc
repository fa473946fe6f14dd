// Rules about the rails of hosts.
#include <algorithm>
#include <map>
#include <utility>

#include "topology/fabric_audit.hh"
#include "topology/fabric_peers.hh"
#include "topology/fabric_places.hh"

namespace mfu {
namespace {

std::string leaf_place(const Fabric& fabric, const FabricRoles& roles, uint32_t leaf) {
  return switch_place(fabric.nodes[roles.leaves[leaf].node]);
}

std::string port_query(const Fabric& fabric, const FabricRoles& roles, const HostPort& port) {
  const FabricNode& leaf = fabric.nodes[roles.leaves[port.leaf].node];
  return "ibportstate -G " + guid_text(leaf.guid) + " " + std::to_string(port.leaf_port) + " query";
}

void append(std::string* list, const std::string& item, const char* separator = "; ") {
  if (!list->empty()) *list += separator;
  *list += item;
}

// Named devices on a leaf, by device.
std::map<std::string, uint32_t> devices_on(const Fabric& fabric, const FabricRoles& roles,
                                           const FabricLeaf& leaf) {
  std::map<std::string, uint32_t> count;
  for (const FabricPort& port : fabric.nodes[leaf.node].ports) {
    if (roles.host_of[port.peer] != kNoIndex) ++count[roles.devices[port.peer]];
  }
  return count;
}

bool unit_has(const FabricRoles& roles, uint32_t unit, const std::string& device) {
  for (uint32_t leaf : roles.units[unit].leaves) {
    if (roles.leaves[leaf].device == device) return true;
  }
  return false;
}

uint32_t rails_of(const FabricHost& host) {
  uint64_t count = 0;
  for (size_t i = 0; i < host.ports.size(); ++i) {
    count +=
        host.ports[i].rail != kNoIndex && (i == 0 || host.ports[i].rail != host.ports[i - 1].rail);
  }
  return static_cast<uint32_t>(count);
}

// Built with few adapters: one that serves a unit of two rails, two of four. Faults take one rail
// of many, not half of all.
bool has_half(uint32_t rails, uint32_t of) {
  return of != 0 && 2 * rails <= of;
}

// Something else than a compute node: a login node, a server, a gateway.
bool is_other_machine(const FabricHost& host, uint32_t rails, uint32_t expected) {
  return !host.slurm_name && 2 * rails < expected;
}

// The device of a rail, as other units have it; empty if none has.
std::string device_of_rail(const FabricRoles& roles, uint32_t rail, uint32_t rails) {
  for (const FabricLeaf& leaf : roles.leaves) {
    if (leaf.rail == rail && roles.units[leaf.unit].rails == rails && !leaf.device.empty()) {
      return leaf.device;
    }
  }
  return {};
}

}  // namespace

std::vector<FabricFinding> find_swapped_rails(const Fabric& fabric, const FabricRoles& roles) {
  std::vector<FabricFinding> findings;
  std::map<uint32_t, std::map<std::string, uint32_t>> devices;  // of leaves that are in question
  for (uint32_t h = 0; h < roles.hosts.size(); ++h) {
    std::string evidence;
    std::string where;
    const FabricHost& host = roles.hosts[h];
    // Such a host counts its devices otherwise than those with all of them.
    if (host.unit != kNoIndex && has_half(rails_of(host), roles.units[host.unit].rails)) continue;
    for (const HostPort& port : host.ports) {
      const FabricLeaf& leaf = roles.leaves[port.leaf];
      const std::string& device = roles.devices[port.adapter];
      // A device that is usual on no leaf of the unit says nothing about rails.
      if (device.empty() || leaf.device.empty() || device == leaf.device ||
          !unit_has(roles, leaf.unit, device)) {
        continue;
      }
      if (devices.count(port.leaf) == 0) devices[port.leaf] = devices_on(fabric, roles, leaf);
      const std::map<std::string, uint32_t>& here = devices[port.leaf];
      uint32_t peers = 0;
      for (const auto& [name, count] : here) peers += count;
      const auto usual = here.find(leaf.device);
      append(&evidence, device + " is on " + leaf_place(fabric, roles, port.leaf) + " port " +
                            std::to_string(port.leaf_port) + ", where " +
                            std::to_string(usual == here.end() ? 0 : usual->second) + " of " +
                            std::to_string(peers) + " hosts have " + leaf.device);
      append(&where,
             leaf_place(fabric, roles, port.leaf) + " port " + std::to_string(port.leaf_port),
             " and ");
    }
    if (evidence.empty()) continue;
    findings.push_back({{"rail-swapped", Severity::kHigh, host.name, evidence,
                         "put the cables at " + where +
                             " right, or see with ibdev2netdev whether the host only names its "
                             "devices in another order"},
                        h,
                        kNoIndex});
  }
  return findings;
}

std::vector<FabricFinding> find_rails_elsewhere(const Fabric& fabric, const FabricRoles& roles) {
  std::vector<FabricFinding> findings;
  for (uint32_t h = 0; h < roles.hosts.size(); ++h) {
    const FabricHost& host = roles.hosts[h];
    const auto own = std::count_if(host.ports.begin(), host.ports.end(), [&](const HostPort& port) {
      return roles.leaves[port.leaf].unit == host.unit;
    });
    if (host.ports.empty() ||
        is_other_machine(host, static_cast<uint32_t>(own), roles.units[host.unit].rails)) {
      continue;
    }
    std::string evidence;
    std::string remedy;
    for (const HostPort& port : host.ports) {
      if (roles.leaves[port.leaf].unit == host.unit) continue;
      append(&evidence, roles.devices[port.adapter] + " is on " +
                            leaf_place(fabric, roles, port.leaf) + " port " +
                            std::to_string(port.leaf_port));
      append(&remedy, port_query(fabric, roles, port));
    }
    if (evidence.empty()) continue;
    evidence += ", while " + counted(host.ports.size(), "port") + " are mostly on the unit of " +
                leaf_place(fabric, roles, roles.units[host.unit].leaves[0]);
    findings.push_back({{"rail-elsewhere", Severity::kHigh, host.name, evidence,
                         remedy + "; move the cable to the host's own unit"},
                        h,
                        kNoIndex});
  }
  return findings;
}

std::vector<FabricFinding> find_missing_rails(const Fabric& fabric, const FabricRoles& roles) {
  std::vector<FabricFinding> findings;
  std::map<std::pair<uint32_t, uint32_t>, std::string> devices;  // by rail and number of rails
  for (const FabricUnit& unit : roles.units) {
    PeerCount<uint32_t> peers;
    for (uint32_t host : unit.hosts) peers.add(rails_of(roles.hosts[host]));
    // A unit with a leaf or two of a longer list is another kind of unit.
    const bool lacks_leaf = unit.rails > unit.leaves.size() && 2 * unit.leaves.size() > unit.rails;
    const uint32_t* usual = peers.usual();
    if (usual == nullptr && !lacks_leaf) continue;
    const uint32_t expected = lacks_leaf ? unit.rails : *usual;
    for (uint32_t h : unit.hosts) {
      const FabricHost& host = roles.hosts[h];
      const uint32_t rails = rails_of(host);
      if (rails >= expected || is_other_machine(host, rails, expected)) continue;
      if (!lacks_leaf && has_half(rails, expected) && peers.is_common(rails)) continue;
      std::string missing;
      bool no_leaf = false;
      std::string leaf_to_look_at;
      for (uint32_t rail = 0; rail < std::max(expected, unit.rails); ++rail) {
        const auto has = [rail](const HostPort& port) { return port.rail == rail; };
        if (std::any_of(host.ports.begin(), host.ports.end(), has)) continue;
        const auto [known, is_new] = devices.try_emplace({rail, unit.rails});
        if (is_new) known->second = device_of_rail(roles, rail, unit.rails);
        const std::string& device = known->second;
        append(&missing,
               "rail " + std::to_string(rail) + (device.empty() ? "" : " (" + device + ")"), ", ");
        const auto leaf =
            std::find_if(unit.leaves.begin(), unit.leaves.end(),
                         [&roles, rail](uint32_t l) { return roles.leaves[l].rail == rail; });
        if (leaf == unit.leaves.end()) {
          no_leaf = true;
        } else {
          append(&leaf_to_look_at, leaf_place(fabric, roles, *leaf), " and ");
        }
      }
      std::string evidence =
          std::to_string(rails) + " of " + counted(expected, "rail") + ": without " + missing;
      if (no_leaf) {
        evidence += "; no host of its unit has it, and no leaf is there for it";
      } else {
        evidence += "; " + std::to_string(peers.with(expected)) + " of " +
                    counted(peers.peers(), "host") + " of its unit have all";
      }
      findings.push_back(
          {{"rail-missing", Severity::kHigh, host.name, evidence,
            no_leaf ? "look for the unit's leaf of that rail: power, cables to the spines, "
                      "ibswitches; then ibdiagnet"
                    : "ibstat on the host; check its cable to " + leaf_to_look_at},
           h,
           kNoIndex});
    }
  }
  return findings;
}

}  // namespace mfu
