// Topologies from generated fabrics whose truth is known, and from the real pod of the shared data.
#include "topology/topology_generate.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>

#include "topology/fabric_text.hh"
#include "topology/host_list.hh"
#include "topology/topology_diff.hh"
#include "topology/topology_yaml.hh"

namespace mfu {
namespace {

using Names = std::vector<std::string>;

// Rail-optimised: every host of a unit has one adapter on each of the unit's leaves.
class FabricPlan {
 public:
  struct Shape {
    int pods = 1;
    int units = 2;  // of a pod
    int hosts = 8;  // of a unit
    int rails = 4;
    int spines = 2;  // of a pod
    int cores = 0;   // above the spines of all pods
    const char* leaf_name = "MF0;P%p-LEAF-%r-%u:MQM9790/U1";
  };

  // Numbers of pods, units and hosts go on over several calls: each is an island.
  void add_island(const Shape& shape) {
    std::vector<uint32_t> cores;
    for (int c = 0; c < shape.cores; ++c)
      cores.push_back(add_switch("MF0;CORE-" + two(c + 1) + ":X/U1"));
    std::vector<uint32_t> spines;
    for (int p = 0; p < shape.pods; ++p) {
      ++pod_;
      if (shape.cores > 0 || p == 0) spines.clear();
      for (int s = 0; s < shape.spines && (shape.cores > 0 || p == 0); ++s) {
        spines.push_back(
            add_switch("MF0;P" + std::to_string(pod_) + "-SPINE-" + two(s + 1) + ":X/U1"));
        for (uint32_t core : cores) link(spines.back(), core);
      }
      pods.emplace_back();
      for (int u = 0; u < shape.units; ++u) add_unit(shape, spines);
    }
  }

  // Takes the cable of a host's rail away.
  void unplug(const std::string& host, int rail) {
    const uint32_t adapter = adapter_of(host, rail);
    for (const FabricPort& port : fabric.nodes[adapter].ports) {
      auto& ports = fabric.nodes[port.peer].ports;
      std::erase_if(ports, [adapter](const FabricPort& one) { return one.peer == adapter; });
    }
    fabric.nodes[adapter].ports.clear();
  }

  // Plugs it into another host's leaf of the rail.
  void replug(const std::string& host, int rail, const std::string& other, int other_rail) {
    const uint32_t leaf = fabric.nodes[adapter_of(other, other_rail)].ports.at(0).peer;
    unplug(host, rail);
    link(adapter_of(host, rail), leaf);
  }

  uint32_t adapter_of(const std::string& host, int rail) const {
    for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
      if (fabric.nodes[i].description == host + " mlx5_" + std::to_string(rail)) return i;
    }
    ADD_FAILURE() << host << " has no rail " << rail;
    return 0;
  }

  // The same fabric, its nodes in another order.
  Fabric shuffled(std::mt19937* random) const {
    std::vector<uint32_t> order(fabric.nodes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), *random);
    Fabric result;
    result.nodes.resize(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      FabricNode& node = result.nodes[order[i]] = fabric.nodes[i];
      for (FabricPort& port : node.ports) port.peer = order[port.peer];
      result.by_guid[node.guid] = order[i];
    }
    return result;
  }

  Fabric fabric;
  std::vector<Names> units;               // hosts
  std::vector<std::vector<size_t>> pods;  // units
  Names hosts;

 private:
  static std::string two(int number) { return (number < 10 ? "0" : "") + std::to_string(number); }

  uint32_t add(FabricKind kind, std::string description) {
    FabricNode node;
    node.kind = kind;
    node.guid = next_guid_++;
    node.system_guid = node.guid;
    node.vendor = 0x2c9;
    node.device = kind == FabricKind::kSwitch ? 0xd2f2 : 0x1021;
    node.lid = static_cast<uint32_t>(next_guid_ & 0xffff);
    node.port_count = kind == FabricKind::kSwitch ? 254 : 1;
    node.description = std::move(description);
    fabric.by_guid[node.guid] = static_cast<uint32_t>(fabric.nodes.size());
    fabric.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(fabric.nodes.size() - 1);
  }
  uint32_t add_switch(const std::string& description) {
    return add(FabricKind::kSwitch, description);
  }

  void link(uint32_t a, uint32_t b) {
    auto free_port = [&](uint32_t node) {
      uint32_t number = 0;
      for (const FabricPort& port : fabric.nodes[node].ports)
        number = std::max(number, port.number);
      return number + 1;
    };
    const uint32_t port_a = free_port(a);
    const uint32_t port_b = free_port(b);
    fabric.nodes[a].ports.push_back({port_a, b, port_b, 4, 106250});
    fabric.nodes[b].ports.push_back({port_b, a, port_a, 4, 106250});
  }

  void add_unit(const Shape& shape, const std::vector<uint32_t>& spines) {
    ++unit_;
    std::vector<uint32_t> leaves;
    for (int r = 0; r < shape.rails; ++r) {
      std::string name;
      for (const char* at = shape.leaf_name; *at != '\0'; ++at) {
        if (*at != '%') {
          name += *at;
          continue;
        }
        ++at;
        name += *at == 'p' ? std::to_string(pod_) : *at == 'r' ? two(r + 1) : two(unit_);
      }
      leaves.push_back(add_switch(name));
      for (uint32_t spine : spines) link(leaves.back(), spine);
    }
    Names unit;
    for (int h = 0; h < shape.hosts; ++h) {
      const std::string number = std::to_string(++host_);
      const std::string name = "dgx" + std::string(4 - number.size(), '0') + number;
      for (int r = 0; r < shape.rails; ++r) {
        link(add(FabricKind::kAdapter, name + " mlx5_" + std::to_string(r)),
             leaves[static_cast<size_t>(r)]);
      }
      unit.push_back(name);
      hosts.push_back(name);
    }
    pods.back().push_back(units.size());
    units.push_back(std::move(unit));
  }

  uint64_t next_guid_ = 0xe09d730300000001;
  int pod_ = 0;
  int unit_ = 0;
  int host_ = 0;
};

struct Made {
  Topology topology;
  Names notes;
};

Made made(const Fabric& fabric, TopologyKind kind = TopologyKind::kTree,
          const GenerateOptions& options = {}, const NameMap& names = {},
          const Names* listed = nullptr) {
  const FabricRoles roles = find_roles(fabric, adapter_names(fabric, names));
  const SlurmNodes nodes = place_nodes(roles, names, listed);
  auto result = kind == TopologyKind::kTree ? generate_tree(fabric, roles, nodes, options)
                                            : generate_blocks(fabric, roles, nodes, options);
  EXPECT_TRUE(result) << result.error();
  return result ? Made{result->topology, result->notes} : Made();
}

std::string text(const Made& made) {
  return write_topology_conf(made.topology, {});
}

// The truth as a tree, its names our own.
Topology truth_of(const FabricPlan& plan, bool several_pods) {
  Topology tree;
  TopologySwitch top{"top", {}, {}, 0};
  for (size_t p = 0; p < plan.pods.size(); ++p) {
    TopologySwitch pod{"p" + std::to_string(p), {}, {}, 0};
    for (size_t unit : plan.pods[p]) {
      const std::string name = "u" + std::to_string(unit);
      tree.switches.push_back({name, {}, plan.units[unit], 0});
      (several_pods ? pod : top).switches.push_back(name);
    }
    if (several_pods) {
      top.switches.push_back(pod.name);
      tree.switches.push_back(std::move(pod));
    }
  }
  if (top.switches.size() > 1) tree.switches.push_back(std::move(top));
  return tree;
}

std::string difference(const Topology& first, const Topology& second) {
  return write_changes(diff_topologies(first, second));
}

TEST(TopologyGenerate, rails_of_a_unit_are_one_leaf) {
  FabricPlan plan;
  plan.add_island({});
  const Made tree = made(plan.fabric);
  EXPECT_EQ(text(tree),
            "SwitchName=P1-LEAF-01 Nodes=dgx[0001-0008]\n"
            "SwitchName=P1-LEAF-02 Nodes=dgx[0009-0016]\n"
            "SwitchName=P1-SPINE Switches=P1-LEAF-[01-02]\n");
  EXPECT_EQ(tree.notes, Names());
}

TEST(TopologyGenerate, missing_rails_do_not_split_a_unit) {
  FabricPlan plan;
  plan.add_island({});
  plan.unplug("dgx0001", 0);
  plan.unplug("dgx0002", 1);
  plan.unplug("dgx0003", 2);
  plan.unplug("dgx0003", 3);
  for (const char* host : {"dgx0009", "dgx0010", "dgx0011"}) plan.unplug(host, 3);
  EXPECT_EQ(difference(truth_of(plan, false), made(plan.fabric).topology), "");
}

TEST(TopologyGenerate, swapped_cables_do_not_join_units) {
  FabricPlan plan;
  plan.add_island({});
  plan.replug("dgx0001", 0, "dgx0009", 0);  // into the other unit
  plan.replug("dgx0010", 2, "dgx0002", 2);
  plan.replug("dgx0005", 1, "dgx0005", 2);  // within its own
  EXPECT_EQ(difference(truth_of(plan, false), made(plan.fabric).topology), "");
}

TEST(TopologyGenerate, a_host_with_one_rail_is_where_that_is) {
  FabricPlan plan;
  plan.add_island({});
  for (int rail = 1; rail < 4; ++rail) plan.unplug("dgx0001", rail);
  EXPECT_EQ(difference(truth_of(plan, false), made(plan.fabric).topology), "");
}

TEST(TopologyGenerate, islands_stay_apart_unless_a_root_is_asked_for) {
  FabricPlan plan;
  plan.add_island({});
  plan.add_island({});
  const Made forest = made(plan.fabric);
  EXPECT_EQ(text(forest),
            "SwitchName=P1-LEAF-01 Nodes=dgx[0001-0008]\n"
            "SwitchName=P1-LEAF-02 Nodes=dgx[0009-0016]\n"
            "SwitchName=P2-LEAF-03 Nodes=dgx[0017-0024]\n"
            "SwitchName=P2-LEAF-04 Nodes=dgx[0025-0032]\n"
            "SwitchName=P1-SPINE Switches=P1-LEAF-[01-02]\n"
            "SwitchName=P2-SPINE Switches=P2-LEAF-[03-04]\n");
  EXPECT_EQ(forest.notes, Names{"2 switches are roots: no job spans two of them"});
  GenerateOptions options;
  options.root = true;
  const Made joined = made(plan.fabric, TopologyKind::kTree, options);
  EXPECT_EQ(text(joined), text(forest) + "SwitchName=root Switches=P1-SPINE,P2-SPINE\n");
  EXPECT_EQ(joined.notes, Names());
}

TEST(TopologyGenerate, pods_below_core_switches_are_a_level) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.pods = 3;
  shape.cores = 2;
  plan.add_island(shape);
  const Made tree = made(plan.fabric);
  EXPECT_EQ(difference(truth_of(plan, true), tree.topology), "");
  EXPECT_EQ(text(tree).substr(text(tree).find("SwitchName=P1-SPINE")),
            "SwitchName=P1-SPINE Switches=P1-LEAF-[01-02]\n"
            "SwitchName=P2-SPINE Switches=P2-LEAF-[03-04]\n"
            "SwitchName=P3-SPINE Switches=P3-LEAF-[05-06]\n"
            "SwitchName=CORE Switches=P1-SPINE,P2-SPINE,P3-SPINE\n");
}

TEST(TopologyGenerate, a_single_unit_needs_nothing_above) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.units = 1;
  plan.add_island(shape);
  EXPECT_EQ(text(made(plan.fabric)), "SwitchName=P1-LEAF-01 Nodes=dgx[0001-0008]\n");
}

TEST(TopologyGenerate, one_adapter_a_host_is_a_plain_fat_tree) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.rails = 1;
  shape.units = 5;
  plan.add_island(shape);
  EXPECT_EQ(difference(truth_of(plan, false), made(plan.fabric).topology), "");
}

TEST(TopologyGenerate, names_that_say_nothing_become_numbers) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.leaf_name = "Quantum Mellanox Technologies";
  plan.add_island(shape);
  EXPECT_EQ(text(made(plan.fabric)),
            "SwitchName=su1 Nodes=dgx[0001-0008]\n"
            "SwitchName=su2 Nodes=dgx[0009-0016]\n"
            "SwitchName=P1-SPINE Switches=su[1-2]\n");
}

TEST(TopologyGenerate, names_hold_what_slurms_files_can_hold) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.leaf_name = "row %u, \"rail\"=#[%r]";
  plan.add_island(shape);
  EXPECT_EQ(text(made(plan.fabric)).substr(0, 32), "SwitchName=row-01-rail Nodes=dgx");
}

// ---- Slurm's names and nodes ----

TEST(TopologyGenerate, only_the_nodes_of_slurm) {
  FabricPlan plan;
  plan.add_island({});
  const Names listed = {"dgx0002", "dgx0003", "dgx0010", "login1"};
  const Made tree = made(plan.fabric, TopologyKind::kTree, {}, {}, &listed);
  EXPECT_EQ(text(tree),
            "SwitchName=P1-LEAF-01 Nodes=dgx[0002-0003]\n"
            "SwitchName=P1-LEAF-02 Nodes=dgx0010\n"
            "SwitchName=P1-SPINE Switches=P1-LEAF-[01-02]\n");
  EXPECT_EQ(tree.notes, (Names{"13 hosts of the fabric are no nodes of Slurm, left out: "
                               "dgx[0001,0004-0009,0011-0016]",
                               "1 nodes of Slurm are not in the fabric: login1"}));
  GenerateOptions options;
  options.rest = "ethernet";
  const Made rest = made(plan.fabric, TopologyKind::kTree, options, {}, &listed);
  EXPECT_EQ(text(rest), text(tree) + "SwitchName=ethernet Nodes=login1\n");
  options.root = true;
  EXPECT_EQ(text(made(plan.fabric, TopologyKind::kTree, options, {}, &listed)),
            text(rest) + "SwitchName=root Switches=P1-SPINE,ethernet\n");
}

TEST(TopologyGenerate, a_unit_without_listed_nodes_is_left_out) {
  FabricPlan plan;
  plan.add_island({});
  const Names listed = {"dgx0002"};
  EXPECT_EQ(text(made(plan.fabric, TopologyKind::kTree, {}, {}, &listed)),
            "SwitchName=P1-LEAF-01 Nodes=dgx0002\n");
}

TEST(TopologyGenerate, nodes_by_guid_description_and_host_name) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.hosts = 3;
  plan.add_island(shape);
  std::string file = "# our names\n";
  for (int rail = 0; rail < 4; ++rail) {
    const FabricNode& node = plan.fabric.nodes[plan.adapter_of("dgx0001", rail)];
    char hex[20];
    std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(node.guid));
    file += std::string(hex) + " gpu-a   # by GUID\n";
    file += "dgx0002 mlx5_" + std::to_string(rail) + "\tgpu-b\n";
  }
  file += "dgx0003 gpu-c\n";
  const auto names = parse_name_map(file, "f");
  ASSERT_TRUE(names) << names.error();
  const std::string tree = text(made(plan.fabric, TopologyKind::kTree, {}, *names));
  EXPECT_NE(tree.find("SwitchName=P1-LEAF-01 Nodes=gpu-a,gpu-b,gpu-c\n"), std::string::npos)
      << tree;
}

TEST(TopologyGenerate, a_domain_and_capitals_do_not_hide_a_node) {
  FabricPlan plan;
  plan.add_island({});
  const Names listed = {"DGX0001.cluster.example", "dgx0002"};
  EXPECT_EQ(text(made(plan.fabric, TopologyKind::kTree, {}, {}, &listed)),
            "SwitchName=P1-LEAF-01 Nodes=DGX0001.cluster.example,dgx0002\n");
}

TEST(TopologyGenerate, name_maps) {
  auto error_of = [](const char* file) {
    const auto map = parse_name_map(file, "f");
    return map ? "none" : map.error();
  };
  EXPECT_EQ(error_of("\n  # nothing\n"), "none");
  EXPECT_EQ(error_of("a b\nalone\n"), "f: line 2: a line is KEY NAME");
  EXPECT_EQ(error_of("a n[1]\n"), "f: line 1: 'n[1]' is no name for Slurm");
  EXPECT_EQ(error_of("a b\na c\n"), "f: line 2: 'a' has another name before");
  EXPECT_EQ(error_of("0x1 b\n0x01 c\n"), "f: line 2: '0x01' has another name before");
  const auto map =
      parse_name_map("MT4129 ConnectX7   Mellanox  n1\n0xE09d n2\n0xzz n3\na#b n4", "f");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->by_text.at("MT4129 ConnectX7   Mellanox"), "n1");
  EXPECT_EQ(map->by_guid.at(0xe09d), "n2");
  EXPECT_EQ(map->by_text.at("0xzz"), "n3");
  EXPECT_EQ(map->by_text.at("a#b"), "n4");
}

TEST(TopologyGenerate, node_lists) {
  EXPECT_FALSE(parse_node_list("n[3-1]"));
  EXPECT_EQ(*parse_node_list("n[2-3],n1\nx\n"), (Names{"n1", "n2", "n3", "x"}));
  EXPECT_EQ(
      *parse_node_list(
          "NodeName=n2 Arch=x86_64 CoresPerSocket=4\n   CPUAlloc=0\nNodeName=n1 State=IDLE\n"),
      (Names{"n1", "n2"}));
  EXPECT_FALSE(parse_node_list(" \n"));
}

// ---- blocks ----

TEST(TopologyGenerate, blocks_are_units_without_a_map_of_cliques) {
  FabricPlan plan;
  plan.add_island({});
  const Made blocks = made(plan.fabric, TopologyKind::kBlock);
  EXPECT_EQ(text(blocks),
            "BlockName=P1-LEAF-01 Nodes=dgx[0001-0008]\n"
            "BlockName=P1-LEAF-02 Nodes=dgx[0009-0016]\n"
            "BlockSizes=8\n");
}

TEST(TopologyGenerate, blocks_are_the_cliques_of_the_map) {
  FabricPlan plan;
  plan.add_island({});
  GenerateOptions options;
  for (size_t i = 0; i < 15; ++i) options.cliques[plan.hosts[i]] = i % 8 < 4 ? "a/1" : "b/2";
  for (size_t i = 8; i < 12; ++i) options.cliques[plan.hosts[i]] = "c";
  const Made blocks = made(plan.fabric, TopologyKind::kBlock, options);
  EXPECT_EQ(text(blocks),
            "BlockName=a-1 Nodes=dgx[0001-0004]\n"
            "BlockName=b-2 Nodes=dgx[0005-0008,0013-0015]\n"
            "BlockName=c Nodes=dgx[0009-0012]\n"
            "BlockSizes=4\n");
  EXPECT_EQ(blocks.notes, Names{"1 nodes have no NVLink clique in the map, left out: dgx0016"});
}

TEST(TopologyGenerate, blocks_below_the_base_size_are_left_out) {
  FabricPlan plan;
  FabricPlan::Shape shape;
  shape.units = 3;
  plan.add_island(shape);
  Names listed(plan.hosts.begin(), plan.hosts.begin() + 18);  // two of the last unit
  EXPECT_EQ(made(plan.fabric, TopologyKind::kBlock, {}, {}, &listed).notes.back(),
            "block P1-LEAF-03 has only 2 nodes and makes that the base block size: choose block "
            "sizes that leave it out, or mend the fabric");
  GenerateOptions options;
  options.block_sizes = {8, 16};
  const Made blocks = made(plan.fabric, TopologyKind::kBlock, options, {}, &listed);
  EXPECT_EQ(text(blocks),
            "BlockName=P1-LEAF-01 Nodes=dgx[0001-0008]\n"
            "BlockName=P1-LEAF-02 Nodes=dgx[0009-0016]\n"
            "BlockSizes=8,16\n");
  EXPECT_EQ(blocks.notes.back(),
            "2 nodes are in blocks of fewer than 8 nodes, left out: dgx[0017-0018]");
  options.keeps_small = [](const TopologyBlock& block) { return block.nodes.front() == "dgx0017"; };
  const Made kept = made(plan.fabric, TopologyKind::kBlock, options, {}, &listed);
  EXPECT_EQ(text(kept),
            "BlockName=P1-LEAF-01 Nodes=dgx[0001-0008]\n"
            "BlockName=P1-LEAF-02 Nodes=dgx[0009-0016]\n"
            "BlockName=P1-LEAF-03 Nodes=dgx[0017-0018]\n"
            "BlockSizes=8,16\n");
  EXPECT_EQ(kept.notes.back(),
            "2 nodes are in blocks of fewer than 8 nodes, which Slurm takes since 25.05: "
            "dgx[0017-0018]");
}

TEST(TopologyGenerate, nothing_to_make_it_of_is_an_error) {
  const FabricRoles none = find_roles(Fabric());
  const SlurmNodes nodes = place_nodes(none, {}, nullptr);
  EXPECT_FALSE(generate_tree(Fabric(), none, nodes, {}));
  EXPECT_FALSE(generate_blocks(Fabric(), none, nodes, {}));
}

// ---- any fabric ----

TEST(TopologyGenerate, random_fabrics_give_their_truth_and_come_back_from_both_formats) {
  std::mt19937 random(3);
  for (int round = 0; round < 120; ++round) {
    FabricPlan plan;
    FabricPlan::Shape shape;
    shape.cores = random() % 2 ? 2 : 0;
    shape.pods = shape.cores > 0 ? 1 + static_cast<int>(random() % 3) : 1;
    shape.units = 1 + static_cast<int>(random() % 4);
    shape.hosts = 6 + static_cast<int>(random() % 10);
    shape.rails = std::array<int, 3>{1, 4, 8}[random() % 3];
    shape.spines = 1 + static_cast<int>(random() % 4);
    if (random() % 3 == 0) shape.leaf_name = "Quantum Mellanox Technologies";
    plan.add_island(shape);
    // At most one rail of a host is missing or elsewhere, and of a unit a few.
    for (const Names& unit : plan.units) {
      for (size_t i = 0; shape.rails > 1 && i < unit.size() / 5; ++i) {
        const int rail = static_cast<int>(random() % static_cast<uint32_t>(shape.rails));
        const std::string& other = plan.hosts[random() % plan.hosts.size()];
        if (random() % 2 == 0 || plan.fabric.nodes[plan.adapter_of(other, rail)].ports.empty()) {
          plan.unplug(unit[i], rail);
        } else {
          plan.replug(unit[i], rail, other, rail);
        }
      }
    }
    const Made tree = made(plan.fabric);
    EXPECT_EQ(difference(truth_of(plan, plan.pods.size() > 1), tree.topology), "");

    const auto conf = parse_topology_conf(write_topology_conf(tree.topology, {"x"}), "conf");
    ASSERT_TRUE(conf) << conf.error();
    EXPECT_EQ(difference(tree.topology, conf->topologies[0]), "");
    Made blocks = made(plan.fabric, TopologyKind::kBlock);
    const auto again = parse_topology_conf(text(blocks), "blocks");
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(difference(blocks.topology, again->topologies[0]), "");
    Topology named = tree.topology;
    named.name = "tree";
    blocks.topology.name = "block";
    const auto yaml =
        parse_topology_yaml(write_topology_yaml({named, blocks.topology}, {"x"}), "yaml");
    ASSERT_TRUE(yaml) << yaml.error();
    EXPECT_EQ(difference(tree.topology, yaml->topologies.at(0)), "");
    EXPECT_EQ(difference(blocks.topology, yaml->topologies.at(1)), "");

    // The order in which the fabric was discovered does not show.
    EXPECT_EQ(text(made(plan.shuffled(&random))), text(tree));
    if (HasFailure()) FAIL() << "round " << round << "\n" << text(tree);
  }
}

// ---- the real pod ----

TEST(TopologyGenerate, the_real_pod_has_a_leaf_for_each_rack) {
  const char* root = std::getenv("MFU_SHARED");
  const auto path = std::filesystem::path(root == nullptr ? "../shared" : root) /
                    "data/topology/fabric/topograph-example.out";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
  const auto snapshot = read_fabric(path);
  ASSERT_TRUE(snapshot) << snapshot.error();
  const Made tree = made(snapshot->fabric);
  // 31 leaf switches, "A09-P1-IBLEAF-RAIL-RACK" and B09: racks 1 to 8 with four rails, but that
  // 03-01 is missing. Trays with a name, counted by another program: the racks' names are in the
  // hosts'.
  const std::vector<std::pair<std::string, size_t>> racks = {
      {"a05-p1-dgx-01-c", 10}, {"a06-p1-dgx-02-c", 11}, {"a07-p1-dgx-03-c", 18},
      {"a08-p1-dgx-04-c", 17}, {"b05-p1-dgx-05-c", 18}, {"b06-p1-dgx-06-c", 15},
      {"b07-p1-dgx-07-c", 16}, {"b08-p1-dgx-08-c", 14}};
  ASSERT_EQ(tree.topology.switches.size(), racks.size() + 1);
  for (size_t i = 0; i < racks.size(); ++i) {
    const TopologySwitch& leaf = tree.topology.switches[i];
    EXPECT_EQ(leaf.name, (i < 4 ? "A09-P1-IBLEAF-0" : "B09-P1-IBLEAF-0") + std::to_string(i + 1));
    EXPECT_EQ(leaf.nodes.size(), racks[i].second) << leaf.name;
    for (const std::string& node : leaf.nodes) {
      EXPECT_EQ(node.substr(0, racks[i].first.size()), racks[i].first);
    }
  }
  EXPECT_EQ(tree.topology.switches.back().switches.size(), racks.size());
}

}  // namespace
}  // namespace mfu
