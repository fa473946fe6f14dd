#include "topology/topology_diff.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "topology/host_list.hh"

namespace mfu {
namespace {

TopologyFile file_of(const std::string& text) {
  auto file = parse_topology_conf(text, "f");
  EXPECT_TRUE(file) << file.error();
  return file ? std::move(*file) : TopologyFile{{Topology()}, {}};
}

// The lines for people.
std::string difference(const std::string& first, const std::string& second) {
  const auto changes = diff_topology_files(file_of(first), file_of(second));
  const auto json = nlohmann::json::parse(write_changes_json(changes));
  EXPECT_EQ(json["same"], changes.empty());
  EXPECT_EQ(json["changes"].size(), changes.size());
  return write_changes(changes);
}

constexpr char kTwo[] =
    "SwitchName=a Nodes=n[1-8]\n"
    "SwitchName=b Nodes=n[9-16]\n"
    "SwitchName=top Switches=a,b\n";

TEST(TopologyDiff, names_and_order_do_not_matter) {
  EXPECT_EQ(difference(kTwo, kTwo), "");
  EXPECT_EQ(difference(kTwo,
                       "SwitchName=root Switches=x,y\n"
                       "SwitchName=y Nodes=n[1-8]\n"
                       "SwitchName=x Nodes=n[16,9-15]\n"),
            "");
}

TEST(TopologyDiff, escape_sequences_of_names_are_not_printed) {
  EXPECT_EQ(difference("SwitchName=a\x1b[31m Nodes=n1,n\x1b(2;x\x07\n", "SwitchName=a Nodes=n1\n"),
            "- 1 node n?(2;x? (was below a?[31m)\n");
}

TEST(TopologyDiff, a_node_under_another_leaf) {
  EXPECT_EQ(difference(kTwo,
                       "SwitchName=a Nodes=n[1-7]\n"
                       "SwitchName=c Nodes=n[8-16]\n"
                       "SwitchName=top Switches=a,c\n"),
            "~ moved: a -> c: 1 node n8\n");
}

TEST(TopologyDiff, two_nodes_that_changed_places) {
  EXPECT_EQ(difference(kTwo,
                       "SwitchName=a Nodes=n[1-7,9]\n"
                       "SwitchName=b Nodes=n[8,10-16]\n"
                       "SwitchName=top Switches=a,b\n"),
            "~ moved: a -> b: 1 node n8\n"
            "~ moved: b -> a: 1 node n9\n");
}

TEST(TopologyDiff, missing_and_extra_nodes) {
  EXPECT_EQ(difference(kTwo,
                       "SwitchName=a Nodes=n[3-8]\n"
                       "SwitchName=b Nodes=n[9-17]\n"
                       "SwitchName=top Switches=a,b\n"),
            "- 2 nodes n[1-2] (was below a)\n"
            "+ 1 node n17 (below b)\n");
}

TEST(TopologyDiff, a_new_leaf_and_a_lost_one) {
  EXPECT_EQ(difference(kTwo,
                       "SwitchName=b Nodes=n[9-16]\n"
                       "SwitchName=c Nodes=n[17-24]\n"
                       "SwitchName=top Switches=b,c\n"),
            "- 8 nodes n[1-8] (was below a)\n"
            "+ 8 nodes n[17-24] (below c)\n");
}

TEST(TopologyDiff, leaves_that_merged) {
  EXPECT_EQ(difference("SwitchName=a1 Nodes=n[1-5]\nSwitchName=a2 Nodes=n[6-8]\n"
                       "SwitchName=b Nodes=n[9-16]\nSwitchName=top Switches=a1,a2,b\n",
                       kTwo),
            "~ merged: a2 into a: 3 nodes n[6-8]\n");
}

TEST(TopologyDiff, a_leaf_that_was_split) {
  EXPECT_EQ(difference(kTwo,
                       "SwitchName=a1 Nodes=n[1-5]\nSwitchName=a2 Nodes=n[6-8]\n"
                       "SwitchName=b Nodes=n[9-16]\nSwitchName=top Switches=a1,a2,b\n"),
            "~ split: a2 off a: 3 nodes n[6-8]\n");
}

TEST(TopologyDiff, of_equal_halves_the_name_decides) {
  const std::string halves =
      "SwitchName=x Nodes=n[1-4]\nSwitchName=a Nodes=n[5-8]\n"
      "SwitchName=b Nodes=n[9-16]\nSwitchName=top Switches=x,a,b\n";
  EXPECT_EQ(difference(kTwo, halves), "~ split: x off a: 4 nodes n[1-4]\n");
}

TEST(TopologyDiff, levels) {
  const std::string forest = "SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\n";
  EXPECT_EQ(difference(kTwo, forest), "- switch top above 16 nodes n[1-16]\n");
  EXPECT_EQ(difference(forest, kTwo), "+ switch top above 16 nodes n[1-16]\n");
  const std::string pods =
      "SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\nSwitchName=c Nodes=n[17-24]\n";
  EXPECT_EQ(difference(pods + "SwitchName=p1 Switches=a,b\nSwitchName=top Switches=p1,c\n",
                       pods + "SwitchName=p1 Switches=b,c\nSwitchName=top Switches=a,p1\n"),
            "- switch p1 above 16 nodes n[1-16]\n"
            "+ switch p1 above 16 nodes n[9-24]\n");
  // A level that only repeats the one below is one too: Slurm counts levels.
  EXPECT_EQ(difference(kTwo, std::string(kTwo) + "SwitchName=roof Switches=top\n"),
            "+ switch roof above 16 nodes n[1-16]\n");
}

TEST(TopologyDiff, a_moved_node_does_not_change_the_levels_above) {
  const std::string upper =
      "SwitchName=p1 Switches=a,b\nSwitchName=p2 Switches=c\nSwitchName=top Switches=p1,p2\n";
  EXPECT_EQ(difference("SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\n"
                       "SwitchName=c Nodes=n[17-24]\n" +
                           upper,
                       "SwitchName=a Nodes=n[1-7]\nSwitchName=b Nodes=n[9-16]\n"
                       "SwitchName=c Nodes=n[8,17-24]\n" +
                           upper),
            "~ moved: a -> c: 1 node n8\n");
}

TEST(TopologyDiff, blocks_by_their_order_and_sizes) {
  const std::string blocks = "BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-8]\n";
  const std::string more = "BlockName=c Nodes=n[9-12]\nBlockName=d Nodes=n[13-16]\n";
  const std::string swapped =
      "BlockName=a Nodes=n[1-4]\nBlockName=c Nodes=n[9-12]\n"
      "BlockName=b Nodes=n[5-8]\nBlockName=d Nodes=n[13-16]\n";
  EXPECT_EQ(difference(blocks + more + "BlockSizes=4\n", swapped + "BlockSizes=4\n"), "");
  EXPECT_EQ(difference(blocks + more + "BlockSizes=4,8\n", swapped + "BlockSizes=4,8\n"),
            "- switch a..b above 8 nodes n[1-8]\n"
            "- switch c..d above 8 nodes n[9-16]\n"
            "+ switch a..c above 8 nodes n[1-4,9-12]\n"
            "+ switch b..d above 8 nodes n[5-8,13-16]\n");
  EXPECT_EQ(difference(blocks + "BlockSizes=4\n", blocks + "BlockSizes=2\n"),
            "~ block sizes: 4 -> 2\n");
}

TEST(TopologyDiff, another_kind_is_told_and_the_leaves_are_compared) {
  EXPECT_EQ(difference("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\n",
                       "BlockName=a Nodes=n[1-3]\nBlockName=b Nodes=n[4-8]\nBlockSizes=3\n"),
            "~ kind: tree -> block\n"
            "~ moved: a -> b: 1 node n4\n"
            "~ block sizes:  -> 3\n");
}

TEST(TopologyDiff, files_with_several_topologies_are_compared_by_kind) {
  TopologyFile one = file_of(kTwo);
  TopologyFile two = file_of(kTwo);
  one.topologies[0].name = "fast";
  two.topologies.push_back(file_of("BlockName=a Nodes=n[1-4]\nBlockSizes=4\n").topologies[0]);
  two.topologies[1].name = "nvl";
  EXPECT_EQ(write_changes(diff_topology_files(one, two)), "+ topology nvl\n");
  EXPECT_EQ(write_changes(diff_topology_files(two, one)), "- topology nvl\n");
  // The default one is compared with the default one.
  two.topologies[1] = file_of("SwitchName=x Nodes=n1\n").topologies[0];
  two.topologies[1].name = "small";
  two.topologies[0].cluster_default = true;
  std::swap(two.topologies[0], two.topologies[1]);
  EXPECT_EQ(write_changes(diff_topology_files(one, two)), "+ topology small\n");
}

TEST(TopologyDiff, json) {
  const auto json = nlohmann::json::parse(write_changes_json(diff_topology_files(
      file_of(kTwo),
      file_of("SwitchName=a Nodes=n[1-7]\n"
              "SwitchName=\"b\\\" Nodes=n[8-15]\nSwitchName=top Switches=\"a,b\\\"\n"))));
  EXPECT_EQ(json, nlohmann::json::parse(R"({"same": false, "changes": [
      {"change": "missing", "from": "b", "nodes": "n16", "count": 1},
      {"change": "moved", "from": "a", "to": "b\\", "nodes": "n8", "count": 1}]})"));
  EXPECT_EQ(write_changes_json({}), "{\"same\": true, \"changes\": []}\n");
}

// ---- against an independent answer: two trees are the same if their sets of nodes are ----

Topology random_tree(std::mt19937* random, int leaves, int per_leaf) {
  Topology tree;
  int node = 0;
  std::vector<std::string> open;
  for (int i = 0; i < leaves; ++i) {
    TopologySwitch leaf{"l" + std::to_string(i), {}, {}, 0};
    for (int n = 0; n < per_leaf; ++n) leaf.nodes.push_back("n" + std::to_string(node++));
    open.push_back(leaf.name);
    tree.switches.push_back(leaf);
  }
  for (int made = 0; open.size() > 1; ++made) {
    const size_t take = 2 + (*random)() % 3;
    TopologySwitch above{"s" + std::to_string(made), {}, {}, 0};
    while (above.switches.size() < take && !open.empty()) {
      const size_t pick = (*random)() % open.size();
      above.switches.push_back(open[pick]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    open.push_back(above.name);
    tree.switches.push_back(above);
  }
  return tree;
}

// All sets of nodes below a switch, with how often.
std::map<std::set<std::string>, int> node_sets(const Topology& tree) {
  std::map<std::string, std::set<std::string>> below;
  std::map<std::set<std::string>, int> sets;
  for (const TopologySwitch& one : tree.switches) {  // children come first
    auto& nodes = below[one.name];
    nodes.insert(one.nodes.begin(), one.nodes.end());
    for (const std::string& child : one.switches)
      nodes.insert(below[child].begin(), below[child].end());
    ++sets[nodes];
  }
  return sets;
}

TEST(TopologyDiff, agrees_with_the_sets_of_nodes_on_random_trees) {
  std::mt19937 random(5);
  int same = 0;
  for (int round = 0; round < 2000; ++round) {
    Topology first = random_tree(&random, 2 + random() % 6, 3);
    Topology second = first;
    for (TopologySwitch& one : second.switches) {
      one.name += "x";
      for (std::string& child : one.switches) child += "x";
      std::shuffle(one.nodes.begin(), one.nodes.end(), random);
    }
    auto& a = second.switches[random() % second.switches.size()];
    auto& b = second.switches[random() % second.switches.size()];
    switch (random() % 4) {
      case 0:
        break;
      case 1:  // a node moves
        if (!a.nodes.empty() && b.switches.empty()) {
          b.nodes.push_back(a.nodes.back());
          a.nodes.pop_back();
        }
        break;
      case 2:  // two nodes change places
        if (!a.nodes.empty() && !b.nodes.empty()) std::swap(a.nodes.back(), b.nodes.back());
        break;
      case 3:  // children of two switches change places
        if (!a.switches.empty() && !b.switches.empty() && a.switches.front().front() == 'l' &&
            b.switches.front().front() == 'l') {
          std::swap(a.switches.front(), b.switches.front());
        }
        break;
    }
    const bool equal = node_sets(first) == node_sets(second);
    same += equal ? 1 : 0;
    EXPECT_EQ(diff_topologies(first, second).empty(), equal)
        << write_topology_conf(first, {}) << write_topology_conf(second, {})
        << write_changes(diff_topologies(first, second));
    EXPECT_EQ(diff_topologies(second, first).empty(), equal);
    if (HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(same, 500);
  EXPECT_LT(same, 1800);
}

}  // namespace
}  // namespace mfu
