// Rail-optimised fabrics made to a plan, and the real ones of shared/data.
#ifndef MFU_TESTS_UNIT_FABRIC_SAMPLES_HH_
#define MFU_TESTS_UNIT_FABRIC_SAMPLES_HH_

#include <algorithm>
#include <cstdlib>
#include <string>

#include "topology/fabric.hh"

namespace mfu {

inline constexpr char kNoSharedFabrics[] = "no shared data: set MFU_SHARED or run beside ../shared";

inline std::string shared_fabric(const std::string& name) {
  const char* root = std::getenv("MFU_SHARED");
  return std::string(root != nullptr ? root : "../shared") + "/data/topology/fabric/" + name;
}

// Host h of a unit is at port h of each of its leaves; a leaf has a link to each spine of its pod;
// spine i of each pod has a link to each core of group i.
struct FabricPlan {
  uint32_t pods = 1;
  uint32_t units = 2;  // of a pod
  uint32_t hosts = 4;  // of a unit
  uint32_t rails = 4;
  uint32_t spines = 4;  // of a pod
  uint32_t cores = 0;   // of a group
  std::string rate = "NDR";
  bool sharp = true;
};

class FabricMaker {
 public:
  uint32_t add(FabricKind kind, const std::string& description, uint32_t port_count) {
    FabricNode node;
    node.kind = kind;
    const auto index = static_cast<uint32_t>(fabric.nodes.size());
    node.guid = (kind == FabricKind::kSwitch ? 0x2c5eab0300000000 : 0xe09d730300000000) +
                uint64_t{index + 1} * 16;
    node.system_guid = node.guid;
    node.vendor = 0x2c9;
    node.device = kind == FabricKind::kSwitch ? 0xd2f2 : 0x1021;
    node.port_count = port_count;
    node.description = description;
    fabric.by_guid[node.guid] = index;
    fabric.nodes.push_back(std::move(node));
    return index;
  }
  void link(uint32_t a, uint32_t a_port, uint32_t b, uint32_t b_port, const std::string& rate,
            uint8_t width = 4) {
    fabric.nodes[a].ports.push_back({a_port, b, b_port, width, lane_rate_mbps(rate)});
    fabric.nodes[b].ports.push_back({b_port, a, a_port, width, lane_rate_mbps(rate)});
  }
  Fabric made() {
    for (FabricNode& node : fabric.nodes) {
      std::sort(node.ports.begin(), node.ports.end(),
                [](const FabricPort& x, const FabricPort& y) { return x.number < y.number; });
    }
    return std::move(fabric);
  }
  Fabric fabric;
};

// Names: "node7 mlx5_2", "MF0;leaf-p1-u2-r3:MQM9700/U1", "MF0;spine-p1-4:..", "MF0;core-4-2:..".
inline Fabric make_fabric(const FabricPlan& plan) {
  FabricMaker maker;
  auto switch_of = [&](const std::string& name, uint32_t ports) {
    const uint32_t node = maker.add(FabricKind::kSwitch, "MF0;" + name + ":MQM9700/U1", ports + 1);
    if (!plan.sharp) return node;
    const uint32_t aggregation =
        maker.add(FabricKind::kAdapter, "Mellanox Technologies Aggregation Node", 1);
    maker.fabric.nodes[aggregation].device = 0xcf09;
    maker.link(node, ports + 1, aggregation, 1, plan.rate);
    return node;
  };
  auto text = [](uint32_t number) { return std::to_string(number + 1); };
  std::vector<std::vector<uint32_t>> cores(plan.spines);
  for (uint32_t s = 0; s < plan.spines; ++s) {
    for (uint32_t c = 0; c < plan.cores; ++c) {
      cores[s].push_back(switch_of("core-" + text(s) + "-" + text(c), plan.pods));
    }
  }
  uint32_t host = 0;
  for (uint32_t p = 0; p < plan.pods; ++p) {
    std::vector<uint32_t> spines;
    for (uint32_t s = 0; s < plan.spines; ++s) {
      const uint32_t below = plan.units * plan.rails;
      spines.push_back(switch_of("spine-p" + text(p) + "-" + text(s), below + plan.cores));
      for (uint32_t c = 0; c < plan.cores; ++c) {
        maker.link(spines[s], below + 1 + c, cores[s][c], p + 1, plan.rate);
      }
    }
    for (uint32_t u = 0; u < plan.units; ++u) {
      std::vector<uint32_t> leaves;
      for (uint32_t r = 0; r < plan.rails; ++r) {
        leaves.push_back(switch_of("leaf-p" + text(p) + "-u" + text(u) + "-r" + text(r),
                                   plan.hosts + plan.spines));
        for (uint32_t s = 0; s < plan.spines; ++s) {
          maker.link(leaves[r], plan.hosts + 1 + s, spines[s], u * plan.rails + r + 1, plan.rate);
        }
      }
      for (uint32_t h = 0; h < plan.hosts; ++h, ++host) {
        for (uint32_t r = 0; r < plan.rails; ++r) {
          const uint32_t adapter = maker.add(FabricKind::kAdapter,
                                             "node" + text(host) + " mlx5_" + std::to_string(r), 1);
          maker.link(adapter, 1, leaves[r], h + 1, plan.rate);
        }
      }
    }
  }
  return maker.made();
}

// The node of that description; the first of several.
inline uint32_t node_called(const Fabric& fabric, const std::string& description) {
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    if (fabric.nodes[i].description == description) return i;
  }
  std::abort();
}

// Changes both ends of a linked port.
template <class Change>
void change_link(Fabric* fabric, uint32_t node, uint32_t number, Change change) {
  for (FabricPort& port : fabric->nodes[node].ports) {
    if (port.number != number) continue;
    change(port);
    for (FabricPort& other : fabric->nodes[port.peer].ports) {
      if (other.number == port.peer_port) change(other);
    }
    return;
  }
  std::abort();
}

inline void cut_link(Fabric* fabric, uint32_t node, uint32_t number) {
  auto drop = [fabric](uint32_t of, uint32_t port_number) {
    std::erase_if(fabric->nodes[of].ports,
                  [port_number](const FabricPort& port) { return port.number == port_number; });
  };
  for (const FabricPort& port : fabric->nodes[node].ports) {
    if (port.number != number) continue;
    const FabricPort copy = port;
    drop(copy.peer, copy.peer_port);
    drop(node, number);
    return;
  }
  std::abort();
}

// Exchanges what two adapters' first ports are linked to.
inline void swap_cables(Fabric* fabric, uint32_t a, uint32_t b) {
  FabricPort& at_a = fabric->nodes[a].ports[0];
  FabricPort& at_b = fabric->nodes[b].ports[0];
  auto end_of = [fabric](const FabricPort& port) -> FabricPort& {
    for (FabricPort& other : fabric->nodes[port.peer].ports) {
      if (other.number == port.peer_port) return other;
    }
    std::abort();
  };
  std::swap(end_of(at_a).peer, end_of(at_b).peer);
  std::swap(at_a.peer, at_b.peer);
  std::swap(at_a.peer_port, at_b.peer_port);
}

}  // namespace mfu

#endif
