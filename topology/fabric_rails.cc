#include "topology/fabric_rails.hh"

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/host_list.hh"

namespace mfu {
namespace {

using Devices = std::vector<std::string>;

constexpr size_t kMostLists = 64;  // of devices, that a unit is compared with

bool device_before(const std::string& a, const std::string& b) {
  return host_before(a, b);
}

// More than half of the ports whose device is known.
std::string majority_device(const Fabric& fabric, const FabricRoles& roles, uint32_t node) {
  std::map<std::string_view, uint32_t> count;
  uint32_t known = 0;
  for (const FabricPort& port : fabric.nodes[node].ports) {
    const AdapterRole role = roles.adapters[port.peer];
    if (role != AdapterRole::kHost && role != AdapterRole::kUnnamed) continue;
    if (roles.devices[port.peer].empty()) continue;
    ++count[roles.devices[port.peer]];
    ++known;
  }
  for (const auto& [device, ports] : count) {
    if (2 * ports > known) return std::string(device);
  }
  return {};
}

// Sorted; empty if leaves have the same device or none.
Devices devices_of(const FabricRoles& roles, const FabricUnit& unit) {
  Devices devices;
  for (uint32_t leaf : unit.leaves) devices.push_back(roles.leaves[leaf].device);
  std::sort(devices.begin(), devices.end(), device_before);
  const bool distinct = std::adjacent_find(devices.begin(), devices.end()) == devices.end();
  return distinct && !devices.front().empty() ? devices : Devices();
}

// Lists of units with several leaves, the most common first.
std::vector<Devices> common_lists(const FabricRoles& roles) {
  std::map<Devices, uint32_t> count;
  for (const FabricUnit& unit : roles.units) {
    Devices devices = unit.leaves.size() > 1 ? devices_of(roles, unit) : Devices();
    if (!devices.empty()) ++count[std::move(devices)];
  }
  std::vector<std::pair<uint32_t, Devices>> ordered;
  ordered.reserve(count.size());
  for (const auto& [devices, units] : count) ordered.emplace_back(units, devices);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first, a.second.size()) > std::tuple(b.first, b.second.size());
  });
  if (ordered.size() > kMostLists) ordered.resize(kMostLists);
  std::vector<Devices> lists;
  lists.reserve(ordered.size());
  for (auto& [units, devices] : ordered) lists.push_back(std::move(devices));
  return lists;
}

uint32_t place_in(const Devices& list, const std::string& device) {
  const auto place = std::find(list.begin(), list.end(), device);
  return place == list.end() ? kNoIndex : static_cast<uint32_t>(place - list.begin());
}

void number_leaves(const Fabric& fabric, const std::vector<Devices>& lists, FabricUnit* unit,
                   FabricRoles* roles) {
  if (unit->leaves.size() == 1) {
    // A leaf with several ports of a host has all rails.
    for (uint32_t host : unit->hosts) {
      if (roles->hosts[host].ports.size() > 1) return;
    }
  }
  const Devices own = devices_of(*roles, *unit);
  for (const Devices& list : lists) {
    if (own.empty()) break;
    for (uint32_t leaf : unit->leaves) {
      roles->leaves[leaf].rail = place_in(list, roles->leaves[leaf].device);
    }
    const bool all = std::all_of(unit->leaves.begin(), unit->leaves.end(), [roles](uint32_t leaf) {
      return roles->leaves[leaf].rail != kNoIndex;
    });
    if (all) {
      unit->rails = static_cast<uint32_t>(list.size());
      break;
    }
    for (uint32_t leaf : unit->leaves) roles->leaves[leaf].rail = kNoIndex;
  }
  auto key = [&](uint32_t leaf) {
    const FabricNode& node = fabric.nodes[roles->leaves[leaf].node];
    return std::tuple(roles->leaves[leaf].rail, std::cref(node.description), node.guid);
  };
  std::sort(unit->leaves.begin(), unit->leaves.end(), [&key](uint32_t a, uint32_t b) {
    const auto [rail_a, name_a, guid_a] = key(a);
    const auto [rail_b, name_b, guid_b] = key(b);
    if (rail_a != rail_b) return rail_a < rail_b;
    if (name_a.get() != name_b.get()) return host_before(name_a.get(), name_b.get());
    return guid_a < guid_b;
  });
  // Devices tell nothing: by the order of the leaves.
  uint32_t next = 0;
  for (uint32_t leaf : unit->leaves) {
    if (roles->leaves[leaf].rail == kNoIndex) roles->leaves[leaf].rail = next++;
  }
  unit->rails = std::max(unit->rails, next);
}

void number_ports(FabricRoles* roles, FabricHost* host) {
  Devices devices;
  for (const HostPort& port : host->ports) devices.push_back(roles->devices[port.adapter]);
  std::sort(devices.begin(), devices.end(), device_before);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  for (HostPort& port : host->ports) {
    port.rail = roles->leaves[port.leaf].rail;
    if (port.rail == kNoIndex && !roles->devices[port.adapter].empty()) {
      port.rail = place_in(devices, roles->devices[port.adapter]);
    }
  }
  std::sort(host->ports.begin(), host->ports.end(), [](const HostPort& a, const HostPort& b) {
    return std::tie(a.rail, a.leaf, a.adapter, a.port) <
           std::tie(b.rail, b.leaf, b.adapter, b.port);
  });
}

}  // namespace

void find_rails(const Fabric& fabric, FabricRoles* roles) {
  for (FabricLeaf& leaf : roles->leaves) leaf.device = majority_device(fabric, *roles, leaf.node);
  const std::vector<Devices> lists = common_lists(*roles);
  for (FabricUnit& unit : roles->units) number_leaves(fabric, lists, &unit, roles);
  for (FabricHost& host : roles->hosts) {
    number_ports(roles, &host);
    for (const HostPort& port : host.ports) {
      if (port.rail != kNoIndex) roles->rails = std::max(roles->rails, port.rail + 1);
    }
  }
}

}  // namespace mfu
