#include "topology/fabric_roles.hh"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "topology/disjoint_sets.hh"
#include "topology/fabric_hosts.hh"
#include "topology/fabric_rails.hh"
#include "topology/host_list.hh"

namespace mfu {
namespace {

constexpr size_t kMostLeavesOfHost = 64;  // what has more is no host, but would cost its square

class RoleFinder {
 public:
  RoleFinder(const Fabric& fabric, FabricRoles* roles) : fabric_(fabric), roles_(*roles) {}

  void find(double overlap) {
    find_leaves();
    find_levels();
    link_hosts();
    find_units(overlap);
    find_rails(fabric_, &roles_);
    find_pods();
  }

 private:
  bool is_host_port(const FabricPort& port) const {
    const AdapterRole role = roles_.adapters[port.peer];
    return role == AdapterRole::kHost || role == AdapterRole::kUnnamed;
  }

  void find_leaves() {
    roles_.leaf_of.assign(fabric_.nodes.size(), kNoIndex);
    for (uint32_t i = 0; i < fabric_.nodes.size(); ++i) {
      const FabricNode& node = fabric_.nodes[i];
      if (node.kind != FabricKind::kSwitch) continue;
      FabricLeaf leaf;
      leaf.node = i;
      for (const FabricPort& port : node.ports) {
        leaf.host_ports += is_host_port(port);
        leaf.uplinks += fabric_.nodes[port.peer].kind == FabricKind::kSwitch && port.peer != i;
      }
      if (leaf.host_ports == 0) continue;
      roles_.leaf_of[i] = static_cast<uint32_t>(roles_.leaves.size());
      roles_.leaves.push_back(leaf);
    }
  }

  void find_levels() {
    roles_.levels.assign(fabric_.nodes.size(), 0);
    std::deque<uint32_t> next;
    for (const FabricLeaf& leaf : roles_.leaves) {
      roles_.levels[leaf.node] = 1;
      next.push_back(leaf.node);
    }
    for (; !next.empty(); next.pop_front()) {
      for (const FabricPort& port : fabric_.nodes[next.front()].ports) {
        if (fabric_.nodes[port.peer].kind != FabricKind::kSwitch || roles_.levels[port.peer] != 0) {
          continue;
        }
        roles_.levels[port.peer] = roles_.levels[next.front()] + 1;
        next.push_back(port.peer);
      }
    }
  }

  void link_hosts() {
    for (FabricHost& host : roles_.hosts) {
      for (uint32_t adapter : host.adapters) {
        for (const FabricPort& port : fabric_.nodes[adapter].ports) {
          if (roles_.leaf_of[port.peer] == kNoIndex) continue;
          host.ports.push_back(
              {adapter, port.number, roles_.leaf_of[port.peer], port.peer_port, kNoIndex});
        }
      }
    }
  }

  void find_units(double overlap) {
    std::vector<uint32_t> hosts_of(roles_.leaves.size(), 0);
    std::unordered_map<uint64_t, uint32_t> shared;  // hosts of two leaves
    std::vector<uint32_t> leaves;
    for (const FabricHost& host : roles_.hosts) {
      leaves.clear();
      for (const HostPort& port : host.ports) leaves.push_back(port.leaf);
      std::sort(leaves.begin(), leaves.end());
      leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
      if (leaves.size() > kMostLeavesOfHost) continue;
      for (size_t i = 0; i < leaves.size(); ++i) {
        ++hosts_of[leaves[i]];
        for (size_t j = 0; j < i; ++j) ++shared[uint64_t{leaves[j]} << 32 | leaves[i]];
      }
    }
    DisjointSets sets(roles_.leaves.size());
    for (const auto& [pair, hosts] : shared) {
      const auto a = static_cast<uint32_t>(pair >> 32);
      const auto b = static_cast<uint32_t>(pair);
      if (hosts > overlap * std::min(hosts_of[a], hosts_of[b])) sets.join(a, b);
    }
    collect_units(&sets);
  }

  void collect_units(DisjointSets* sets) {
    std::vector<uint32_t> unit_of(roles_.leaves.size(), kNoIndex);  // of a set
    auto unit_of_leaf = [&](uint32_t leaf) -> uint32_t {
      uint32_t& unit = unit_of[sets->find(leaf)];
      if (unit == kNoIndex) {
        unit = static_cast<uint32_t>(roles_.units.size());
        roles_.units.emplace_back();
      }
      return unit;
    };
    for (uint32_t h = 0; h < roles_.hosts.size(); ++h) {
      FabricHost& host = roles_.hosts[h];
      std::map<uint32_t, uint32_t> ports;  // of each unit
      for (const HostPort& port : host.ports) ++ports[unit_of_leaf(port.leaf)];
      uint32_t most = 0;
      for (const auto& [unit, count] : ports) {
        if (count > most) std::tie(host.unit, most) = std::tuple(unit, count);
      }
      if (host.unit != kNoIndex) roles_.units[host.unit].hosts.push_back(h);
    }
    for (uint32_t i = 0; i < roles_.leaves.size(); ++i) {
      roles_.leaves[i].unit = unit_of_leaf(i);
      roles_.units[roles_.leaves[i].unit].leaves.push_back(i);
    }
  }

  // Joins leaves by their links, then by units; with links of other switches they make islands.
  void find_pods() {
    DisjointSets pods(fabric_.nodes.size());
    DisjointSets islands(fabric_.nodes.size());
    for (uint32_t i = 0; i < fabric_.nodes.size(); ++i) {
      if (fabric_.nodes[i].kind != FabricKind::kSwitch) continue;
      for (const FabricPort& port : fabric_.nodes[i].ports) {
        if (fabric_.nodes[port.peer].kind != FabricKind::kSwitch) continue;
        islands.join(i, port.peer);
        if (roles_.levels[i] == 1) pods.join(i, port.peer);
      }
    }
    for (const FabricUnit& unit : roles_.units) {
      for (uint32_t leaf : unit.leaves) {
        pods.join(roles_.leaves[unit.leaves[0]].node, roles_.leaves[leaf].node);
        islands.join(roles_.leaves[unit.leaves[0]].node, roles_.leaves[leaf].node);
      }
    }
    std::vector<uint32_t> pod_of(fabric_.nodes.size(), kNoIndex);
    std::vector<uint32_t> island_of(fabric_.nodes.size(), kNoIndex);
    for (uint32_t u = 0; u < roles_.units.size(); ++u) {
      const uint32_t node = roles_.leaves[roles_.units[u].leaves[0]].node;
      uint32_t& pod = pod_of[pods.find(node)];
      if (pod == kNoIndex) {
        uint32_t& island = island_of[islands.find(node)];
        if (island == kNoIndex) island = roles_.islands++;
        pod = static_cast<uint32_t>(roles_.pods.size());
        roles_.pods.push_back({{}, island});
      }
      roles_.units[u].pod = pod;
      roles_.pods[pod].units.push_back(u);
    }
  }

  const Fabric& fabric_;
  FabricRoles& roles_;
};

}  // namespace

FabricRoles find_roles(const Fabric& fabric, const NodeNames& names, double overlap) {
  FabricRoles roles;
  find_hosts(fabric, names, &roles);
  RoleFinder(fabric, &roles).find(overlap);
  return roles;
}

}  // namespace mfu
