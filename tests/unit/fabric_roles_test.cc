// Hosts, leaves, rails, units and pods: of made fabrics, where the plan says what they are, and of
// the real pod, where the switches' own names do.
#include "topology/fabric_roles.hh"

#include <gtest/gtest.h>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_hosts.hh"
#include "topology/fabric_text.hh"

namespace mfu {
namespace {

TEST(FabricRoles, DescriptionsNameHostAndDevice) {
  auto both = [](const char* text) {
    const DescribedAdapter described = described_adapter(text);
    return described.host + "|" + described.device;
  };
  EXPECT_EQ(both("a08-p1-dgx-04-c01 mlx5_5"), "a08-p1-dgx-04-c01|mlx5_5");
  EXPECT_EQ(both("a06 HCA-6"), "a06|mlx5_5");
  EXPECT_EQ(both("O'Brien host mlx5_bond_0"), "O'Brien host|mlx5_bond_0");
  EXPECT_EQ(both("RMD701091901003 ibp11s0f0"), "RMD701091901003|ibp11s0f0");
  EXPECT_EQ(both("node7 "), "node7|");
  EXPECT_EQ(both("MT4129 ConnectX7   Mellanox Technologies"), "|");
  EXPECT_EQ(both("a very long one that was cut HC"), "|");
  EXPECT_EQ(both("HCA-1"), "|");
  EXPECT_EQ(both(""), "|");
}

TEST(FabricRoles, TwoLevels) {
  FabricPlan plan;
  plan.units = 3;
  plan.hosts = 12;
  const Fabric fabric = make_fabric(plan);
  const FabricRoles roles = find_roles(fabric);
  ASSERT_EQ(roles.hosts.size(), 36u);
  EXPECT_EQ(roles.hosts[1].name, "node2");
  EXPECT_EQ(roles.hosts[9].name, "node10");
  EXPECT_EQ(roles.find_host("node36"), 35u);
  EXPECT_EQ(roles.find_host("node37"), kNoIndex);
  EXPECT_EQ(roles.leaves.size(), 12u);
  EXPECT_EQ(roles.pods.size(), 1u);
  EXPECT_EQ(roles.islands, 1u);
  EXPECT_EQ(roles.rails, 4u);
  ASSERT_EQ(roles.units.size(), 3u);
  for (uint32_t u = 0; u < 3; ++u) {
    const FabricUnit& unit = roles.units[u];
    ASSERT_EQ(unit.hosts.size(), 12u);
    EXPECT_EQ(unit.hosts[0], u * 12);
    ASSERT_EQ(unit.leaves.size(), 4u);
    for (uint32_t r = 0; r < 4; ++r) {
      const FabricLeaf& leaf = roles.leaves[unit.leaves[r]];
      EXPECT_EQ(leaf.rail, r);
      EXPECT_EQ(leaf.unit, u);
      EXPECT_EQ(leaf.device, "mlx5_" + std::to_string(r));
      EXPECT_EQ(leaf.host_ports, 12u);
      EXPECT_EQ(leaf.uplinks, 4u);
      EXPECT_EQ(
          fabric.nodes[leaf.node].description,
          "MF0;leaf-p1-u" + std::to_string(u + 1) + "-r" + std::to_string(r + 1) + ":MQM9700/U1");
    }
  }
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    const std::string& name = fabric.nodes[i].description;
    EXPECT_EQ(roles.levels[i], name.find("leaf") == 4 ? 1u : name.find("spine") == 4 ? 2u : 0u);
    if (name.starts_with("node")) {
      EXPECT_EQ(roles.adapters[i], AdapterRole::kHost);
      EXPECT_EQ(name, roles.hosts[roles.host_of[i]].name + " " + roles.devices[i]);
    } else if (fabric.nodes[i].kind == FabricKind::kAdapter) {
      EXPECT_EQ(roles.adapters[i], AdapterRole::kAggregation);
    }
  }
}

TEST(FabricRoles, ThreeLevelsHavePods) {
  FabricPlan plan;
  plan.pods = 3;
  plan.cores = 2;
  const Fabric fabric = make_fabric(plan);
  const FabricRoles roles = find_roles(fabric);
  ASSERT_EQ(roles.pods.size(), 3u);
  EXPECT_EQ(roles.islands, 1u);
  for (uint32_t p = 0; p < 3; ++p) {
    EXPECT_EQ(roles.pods[p].units, (std::vector<uint32_t>{2 * p, 2 * p + 1}));
  }
  EXPECT_EQ(roles.levels[node_called(fabric, "MF0;core-4-2:MQM9700/U1")], 3u);
}

TEST(FabricRoles, UnconnectedFabricsAreIslands) {
  FabricPlan plan;
  plan.pods = 3;
  plan.cores = 0;
  const FabricRoles roles = find_roles(make_fabric(plan));
  EXPECT_EQ(roles.pods.size(), 3u);
  EXPECT_EQ(roles.islands, 3u);
  EXPECT_EQ(roles.pods[2].island, 2u);
}

TEST(FabricRoles, MissingRailsAndSwappedCablesLeaveUnitsWhole) {
  Fabric fabric = make_fabric({});
  cut_link(&fabric, node_called(fabric, "node2 mlx5_1"), 1);
  swap_cables(&fabric, node_called(fabric, "node3 mlx5_0"), node_called(fabric, "node3 mlx5_3"));
  swap_cables(&fabric, node_called(fabric, "node4 mlx5_2"), node_called(fabric, "node5 mlx5_2"));
  const FabricRoles roles = find_roles(fabric);
  ASSERT_EQ(roles.units.size(), 2u);
  EXPECT_EQ(roles.units[0].hosts, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(roles.units[1].hosts, (std::vector<uint32_t>{4, 5, 6, 7}));
  for (const FabricLeaf& leaf : roles.leaves) {
    EXPECT_EQ(leaf.device, "mlx5_" + std::to_string(leaf.rail));
  }
  // A port has the rail of its leaf, whatever its name.
  const FabricHost& swapped = roles.hosts[2];
  EXPECT_EQ(swapped.ports[0].rail, 0u);
  EXPECT_EQ(roles.devices[swapped.ports[0].adapter], "mlx5_3");
}

TEST(FabricRoles, UnitWithoutALeafCountsAsItsPeers) {
  FabricPlan plan;
  plan.units = 3;
  Fabric fabric = make_fabric(plan);
  for (uint32_t h = 1; h <= 4; ++h) {
    cut_link(&fabric, node_called(fabric, "node" + std::to_string(h) + " mlx5_1"), 1);
  }
  const FabricRoles roles = find_roles(fabric);
  const FabricUnit& unit = roles.units[0];
  ASSERT_EQ(unit.leaves.size(), 3u);
  EXPECT_EQ(unit.rails, 4u);
  EXPECT_EQ(roles.leaves[unit.leaves[1]].rail, 2u);
  EXPECT_EQ(roles.leaves[unit.leaves[2]].rail, 3u);
}

TEST(FabricRoles, NamesOfTheInstallerAndOfTwoMachinesAreNobodys) {
  Fabric fabric = make_fabric({});
  for (const char* device : {" mlx5_0", " mlx5_1", " mlx5_2", " mlx5_3"}) {
    fabric.nodes[node_called(fabric, std::string("node1") + device)].description =
        std::string("localhost") + device;
    fabric.nodes[node_called(fabric, std::string("node2") + device)].description =
        std::string("node3") + device;
  }
  fabric.nodes[node_called(fabric, "node5 mlx5_0")].description =
      "MT4129 ConnectX7   Mellanox Technologies";
  const FabricRoles roles = find_roles(fabric);
  EXPECT_EQ(roles.hosts.size(), 5u);
  EXPECT_EQ(roles.find_host("node3"), kNoIndex);
  EXPECT_EQ(roles.find_host("localhost"), kNoIndex);
  EXPECT_EQ(roles.hosts[roles.find_host("node5")].ports.size(), 3u);
  EXPECT_EQ(std::count(roles.adapters.begin(), roles.adapters.end(), AdapterRole::kUnnamed), 13);
}

TEST(FabricRoles, NamesFromOutsideWin) {
  Fabric fabric = make_fabric({});
  NodeNames names;
  for (const char* device : {" mlx5_0", " mlx5_1", " mlx5_2", " mlx5_3"}) {
    // One that describes itself as another, and one whose first adapter is known only.
    names[fabric.nodes[node_called(fabric, std::string("node2") + device)].guid] = "gpu2";
    fabric.nodes[node_called(fabric, std::string("node2") + device)].description =
        std::string("node3") + device;
  }
  names[fabric.nodes[node_called(fabric, "node7 mlx5_1")].guid] = "gpu7";
  const FabricRoles roles = find_roles(fabric, names);
  EXPECT_EQ(roles.hosts.size(), 8u);
  for (const char* name : {"gpu2", "gpu7", "node3"}) {
    const uint32_t host = roles.find_host(name);
    ASSERT_NE(host, kNoIndex) << name;
    EXPECT_EQ(roles.hosts[host].ports.size(), 4u) << name;
    EXPECT_EQ(roles.hosts[host].slurm_name, name[0] == 'g') << name;
  }
}

TEST(FabricRoles, OneSystemHasOneName) {
  Fabric fabric = make_fabric({});
  FabricNode& nameless = fabric.nodes[node_called(fabric, "node1 mlx5_1")];
  nameless.description = "MT4129 ConnectX7   Mellanox Technologies";
  nameless.system_guid = fabric.nodes[node_called(fabric, "node1 mlx5_0")].guid;
  // A card of two machines joins nobody.
  FabricNode& shared = fabric.nodes[node_called(fabric, "node2 mlx5_1")];
  shared.description = "MT4129 ConnectX7   Mellanox Technologies";
  for (const char* name : {"node2 mlx5_0", "node3 mlx5_0"}) {
    fabric.nodes[node_called(fabric, name)].system_guid = shared.system_guid;
  }
  const FabricRoles roles = find_roles(fabric);
  EXPECT_EQ(roles.hosts[roles.find_host("node1")].ports.size(), 4u);
  EXPECT_EQ(roles.hosts[roles.find_host("node2")].ports.size(), 3u);
}

TEST(FabricRoles, AllAdaptersOfAHostOnOneLeaf) {
  FabricMaker maker;
  const uint32_t spine = maker.add(FabricKind::kSwitch, "MF0;spine:X", 9);
  for (uint32_t l = 0; l < 2; ++l) {
    const uint32_t leaf = maker.add(FabricKind::kSwitch, "MF0;leaf" + std::to_string(l) + ":X", 9);
    maker.link(leaf, 9, spine, l + 1, "HDR");
    for (uint32_t h = 0; h < 2; ++h) {
      for (uint32_t r = 0; r < 4; ++r) {
        const uint32_t adapter =
            maker.add(FabricKind::kAdapter,
                      "n" + std::to_string(l * 2 + h) + " mlx5_" + std::to_string(r + 4), 1);
        maker.link(adapter, 1, leaf, h * 4 + r + 1, "HDR");
      }
    }
  }
  const FabricRoles roles = find_roles(maker.made());
  ASSERT_EQ(roles.units.size(), 2u);
  EXPECT_EQ(roles.units[0].leaves.size(), 1u);
  EXPECT_EQ(roles.leaves[0].rail, kNoIndex);
  EXPECT_EQ(roles.hosts[3].ports[2].rail, 2u);
  EXPECT_EQ(roles.rails, 4u);
}

TEST(FabricRoles, RealPod) {
  const auto snapshot = read_fabric(shared_fabric("topograph-example.out"));
  if (!snapshot) GTEST_SKIP() << kNoSharedFabrics;
  const FabricRoles roles = find_roles(snapshot->fabric);
  auto count = [&roles](AdapterRole role) {
    return std::count(roles.adapters.begin(), roles.adapters.end(), role);
  };
  EXPECT_EQ(count(AdapterRole::kAggregation), 40);
  EXPECT_EQ(count(AdapterRole::kUnnamed), 69 + 3 + 2);  // nameless, localhost, ubuntu
  EXPECT_EQ(count(AdapterRole::kService), 2);
  EXPECT_EQ(count(AdapterRole::kHost), 582 - 40 - 74 - 2);
  EXPECT_EQ(roles.leaves.size(), 31u);
  EXPECT_EQ(roles.units.size(), 8u);
  EXPECT_EQ(roles.pods.size(), 1u);
  EXPECT_EQ(roles.rails, 4u);
  // Leaves are called IBLEAF-<rail>-<unit>, hosts <rack>-p1-dgx-<unit>-<tray>.
  for (const FabricLeaf& leaf : roles.leaves) {
    const std::string& name = snapshot->fabric.nodes[leaf.node].description;
    const size_t at = name.find("IBLEAF-");
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(leaf.rail + 1, std::stoul(name.substr(at + 7, 2))) << name;
    for (uint32_t host : roles.units[leaf.unit].hosts) {
      EXPECT_EQ(roles.hosts[host].name.substr(11, 2), name.substr(at + 10, 2)) << name;
    }
  }
}

}  // namespace
}  // namespace mfu
