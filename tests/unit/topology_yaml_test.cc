// topology.yaml: the example of Slurm's manual page, errors, and what the writer writes.
#include "topology/topology_yaml.hh"

#include <gtest/gtest.h>

namespace mfu {
namespace {

using Names = std::vector<std::string>;

constexpr char kThree[] = R"(# three topologies
---
- topology: topo1
  cluster_default: True
  tree:
    switches:
    - switch: sw_root
      children: s[1-2]
    - switch: s1
      nodes: node[01-02]
    - switch: s2
      nodes: node[03-04]
- topology: topo2
  cluster_default: False
  block:
    block_sizes:
      - 4
      - 16
    blocks:
    - block: b1
      nodes: node[01-04]
    - block: b2
      nodes: "node[05-08]"
- topology: topo3
  flat: True
)";

std::string error_of(const std::string& text) {
  const auto file = parse_topology_yaml(text, "f");
  return file ? "none" : file.error();
}

TEST(TopologyYaml, three_topologies) {
  const auto file = parse_topology_yaml(kThree, "f");
  ASSERT_TRUE(file) << file.error();
  ASSERT_EQ(file->topologies.size(), 3u);
  const Topology& tree = file->topologies[0];
  EXPECT_EQ(tree.name, "topo1");
  EXPECT_TRUE(tree.cluster_default);
  EXPECT_EQ(tree.kind, TopologyKind::kTree);
  ASSERT_EQ(tree.switches.size(), 3u);
  EXPECT_EQ(tree.switches[0].switches, (Names{"s1", "s2"}));
  EXPECT_EQ(tree.switches[2].nodes, (Names{"node03", "node04"}));
  EXPECT_EQ(tree.switches[2].line, 11u);
  const Topology& block = file->topologies[1];
  EXPECT_EQ(block.kind, TopologyKind::kBlock);
  EXPECT_FALSE(block.cluster_default);
  EXPECT_EQ(block.block_sizes, (std::vector<uint32_t>{4, 16}));
  ASSERT_EQ(block.blocks.size(), 2u);
  EXPECT_EQ(block.blocks[1].nodes.size(), 4u);
  EXPECT_EQ(file->topologies[2].kind, TopologyKind::kFlat);
  EXPECT_EQ(file->notes, Names());
}

TEST(TopologyYaml, comes_back_from_the_writer) {
  const auto file = parse_topology_yaml(kThree, "f");
  ASSERT_TRUE(file) << file.error();
  const std::string text = write_topology_yaml(file->topologies, {"for a test"});
  EXPECT_EQ(text.substr(0, 43), "# for a test\n---\n- topology: topo1\n  cluste");
  const auto again = parse_topology_yaml(text, "again");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(write_topology_yaml(again->topologies, {"for a test"}), text);
  EXPECT_EQ(again->topologies[1].block_sizes, file->topologies[1].block_sizes);
  EXPECT_EQ(again->topologies[0].switches[2].nodes, file->topologies[0].switches[2].nodes);
}

TEST(TopologyYaml, words_that_yaml_would_take_for_others_are_quoted) {
  Topology tree;
  tree.name = "on";
  tree.switches = {{"1e3", {}, {"n1"}, 0}, {"s1", {}, {"[7-8]", "007"}, 0}};
  const std::string text = write_topology_yaml({tree}, {});
  EXPECT_NE(text.find("topology: \"on\""), std::string::npos);
  EXPECT_NE(text.find("switch: \"1e3\""), std::string::npos);
  EXPECT_NE(text.find("nodes: \"007,"), std::string::npos);
  EXPECT_NE(text.find("switch: s1\n"), std::string::npos);
}

TEST(TopologyYaml, other_kinds_are_kept_by_name) {
  const auto file = parse_topology_yaml(
      "- topology: r\n  ring:\n    rings:\n    - ring: a\n      nodes: n[1-4]\n- topology: f\n  "
      "flat: true\n",
      "f");
  ASSERT_TRUE(file) << file.error();
  EXPECT_EQ(file->topologies[0].kind, TopologyKind::kOther);
  EXPECT_EQ(file->notes, (Names{"r: of a kind that is not known here"}));
}

// What 25.05 and later take, which alone read a topology.yaml.
TEST(TopologyYaml, small_and_empty_blocks_are_slurms) {
  const auto file = parse_topology_yaml(
      "- topology: a\n  block:\n    block_sizes: [4]\n    blocks:\n    - block: b1\n      nodes: "
      "n[1-4]\n    - block: b2\n      nodes: n[5-7]\n    - block: b3\n",
      "f");
  ASSERT_TRUE(file) << file.error();
  EXPECT_EQ(file->notes, Names());
  ASSERT_EQ(file->topologies[0].blocks.size(), 3u);
  EXPECT_TRUE(file->topologies[0].blocks[2].nodes.empty());
  const auto again = parse_topology_yaml(write_topology_yaml(file->topologies, {}), "again");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->topologies[0].blocks.size(), 3u);
}

TEST(TopologyYaml, flat_has_options) {
  for (const char* flat : {"true", "{alpha_step_rank: true}", "{alpha_step_rank: false}", "{}"}) {
    const auto file =
        parse_topology_yaml("- topology: a\n  flat: " + std::string(flat) + "\n", "f");
    ASSERT_TRUE(file) << file.error();
    EXPECT_EQ(file->topologies[0].kind, TopologyKind::kFlat) << flat;
  }
  EXPECT_EQ(error_of("- topology: a\n  flat: {alpha_step_rank: perhaps}\n"),
            "f: line 2: alpha_step_rank is true or false");
  EXPECT_EQ(error_of("- topology: a\n  flat: {beta: true}\n"), "f: line 2: unknown key 'beta'");
}

TEST(TopologyYaml, errors_have_their_line) {
  EXPECT_EQ(error_of(""), "f: empty: no '- topology: NAME'");
  EXPECT_EQ(error_of("switches:\n  a: b\n"),
            "f: line 1: a topology.yaml is a list of '- topology: NAME'");
  EXPECT_EQ(error_of("- tree: {switches: []}\n"), "f: line 1: no 'topology:'");
  EXPECT_EQ(error_of("- topology: a\n  tree:\n    switches:\n    - nodes: n1\n"),
            "f: line 4: no 'switch:'");
  EXPECT_EQ(error_of("- topology: a\n  tree:\n    switches:\n    - switch: s\n      nodes: [n1]\n"),
            "f: line 5: nodes is one word");
  EXPECT_EQ(error_of("- topology: a\n  tree:\n    switches:\n    - switch: s\n      node: n1\n"),
            "f: line 5: unknown key 'node'");
  EXPECT_EQ(error_of("- topology: a\n  tree:\n    switches:\n    - switch: s\n      nodes: n[1\n"),
            "f: line 5: hostlist 'n[1': a '[' without ']'");
  EXPECT_EQ(error_of("- topology: a\n  tree:\n    switches:\n    - switch: s\n      children: t\n"),
            "f: line 4: switch 's': there is no switch 't'");
  EXPECT_EQ(error_of("- topology: a\n  flat: perhaps\n"), "f: line 2: flat is true or false");
  EXPECT_EQ(error_of("- topology: a\n  flat: true\n  tree:\n    switches: []\n"),
            "f: line 1: one of tree, block and flat");
  EXPECT_EQ(error_of("- topology: a\n  flat: true\n- topology: a\n  flat: true\n"),
            "f: line 3: topology 'a' is defined before");
  EXPECT_EQ(error_of("- topology: a\n  block:\n    block_sizes: [x]\n    blocks: []\n"),
            "f: line 3: a block size is a number above 0");
  EXPECT_EQ(error_of("- topology: a\n  block:\n    blocks: []\n"), "f: no block");
  EXPECT_EQ(error_of("- topology: [a\n").substr(0, 8), "f: line ");
}

TEST(TopologyYaml, a_few_bytes_cannot_stand_for_a_thousand_switches) {
  std::string text = "- topology: a\n  tree: {switches: &list [";
  for (int i = 0; i < 3000; ++i)
    text += (i > 0 ? ",{switch: s" : "{switch: s") + std::to_string(i) + "}";
  text += "]}\n";
  for (int i = 0; i < 60; ++i) {
    text += "- topology: t" + std::to_string(i) + "\n  tree: {switches: *list}\n";
  }
  EXPECT_EQ(error_of(text).substr(0, 29), "f: line 2: too many entries");
}

}  // namespace
}  // namespace mfu
