// topology.conf: what the parser takes and refuses, in Slurm's words, and what the writer writes.
#include "topology/topology_conf.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "topology/host_list.hh"
#include "topology/topology_parse.hh"

namespace mfu {
namespace {

using Names = std::vector<std::string>;

TopologyFile parsed(const std::string& text) {
  auto file = parse_topology_conf(text, "f");
  EXPECT_TRUE(file) << file.error();
  return file ? std::move(*file) : TopologyFile{{Topology()}, {}};
}

std::string error_of(const std::string& text) {
  const auto file = parse_topology_conf(text, "f");
  return file ? "none" : file.error();
}

TEST(TopologyConf, a_tree) {
  const TopologyFile file = parsed(
      "# Slurm's own example\n"
      "SwitchName=s0 Nodes=dev[0-5]\n"
      "SwitchName=s1 Nodes=dev[6-11]\n"
      "SwitchName=s2 Switches=s[0-1]\n");
  ASSERT_EQ(file.topologies.size(), 1u);
  const Topology& tree = file.topologies[0];
  EXPECT_EQ(tree.kind, TopologyKind::kTree);
  ASSERT_EQ(tree.switches.size(), 3u);
  EXPECT_EQ(tree.switches[0].name, "s0");
  EXPECT_EQ(tree.switches[0].nodes.size(), 6u);
  EXPECT_EQ(tree.switches[1].nodes.back(), "dev11");
  EXPECT_EQ(tree.switches[2].switches, (Names{"s0", "s1"}));
  EXPECT_EQ(tree.switches[2].line, 4u);
  EXPECT_EQ(file.notes, Names());
}

TEST(TopologyConf, blocks) {
  const TopologyFile file = parsed(
      "BlockName=b1 Nodes=n[1-4]\n"
      "BlockName=b2 Nodes=n[5-9]\n"
      "BlockSizes=4,8,16\n");
  const Topology& blocks = file.topologies[0];
  EXPECT_EQ(blocks.kind, TopologyKind::kBlock);
  ASSERT_EQ(blocks.blocks.size(), 2u);
  EXPECT_EQ(blocks.blocks[1].name, "b2");
  EXPECT_EQ(blocks.blocks[1].nodes.size(), 5u);
  EXPECT_EQ(blocks.block_sizes, (std::vector<uint32_t>{4, 8, 16}));
}

TEST(TopologyConf, keys_in_any_case_blanks_quotes_comments_and_joined_lines) {
  const TopologyFile file = parsed(
      "\r\n"
      "   switchname = s0   NODES=\"n1, n2\"  LinkSpeed=100 # two nodes\r\n"
      "SWITCHNAME=s1 \\   # the rest is below\n"
      "\tNodes=n3,\\\n"
      "n4\n"
      "SwitchName=top Switches=s0,s1");
  const Topology& tree = file.topologies[0];
  ASSERT_EQ(tree.switches.size(), 3u);
  EXPECT_EQ(tree.switches[0].nodes, (Names{"n1", "n2"}));
  EXPECT_EQ(tree.switches[1].nodes, (Names{"n3", "n4"}));
  EXPECT_EQ(tree.switches[1].line, 3u);
  EXPECT_EQ(tree.switches[2].line, 6u);
}

// The blanks in front of a line that is joined part its words.
TEST(TopologyConf, a_joined_line_keeps_its_blanks) {
  const Topology tree =
      parsed("SwitchName=s1\\\n   Nodes=n[1-2]\nSwitchName=s2\\ \r\n\tNodes=n3\n").topologies[0];
  ASSERT_EQ(tree.switches.size(), 2u);
  EXPECT_EQ(tree.switches[0].name, "s1");
  EXPECT_EQ(tree.switches[0].nodes, (Names{"n1", "n2"}));
  EXPECT_EQ(tree.switches[1].name, "s2");
  EXPECT_EQ(tree.switches[1].nodes, (Names{"n3"}));
  EXPECT_EQ(error_of("SwitchName=s1 Nodes=n1,\\\n n2\n"), "f: line 1: 'n2' is not KEY=VALUE");
  // Of two backslashes none joins, nor hides a comment.
  EXPECT_EQ(parsed("SwitchName=a\\\\# no more\nSwitchName=b\n").topologies[0].switches.size(), 2u);
}

TEST(TopologyConf, a_chain_of_switches_has_an_end) {
  auto chain = [](int levels) {
    std::string text = "SwitchName=s1 Nodes=n1\n";
    for (int i = 2; i <= levels; ++i) {
      text += "SwitchName=s" + std::to_string(i) + " Switches=s" + std::to_string(i - 1) + "\n";
    }
    return error_of(text);
  };
  EXPECT_EQ(chain(64), "none");
  EXPECT_EQ(chain(65), "f: line 1: switch 's1' has more than 63 levels above it");
  EXPECT_EQ(chain(20000), "f: line 19936: switch 's19936' has more than 63 levels above it");
}

TEST(TopologyConf, an_empty_leaf_is_one) {
  const Topology tree = parsed("SwitchName=a\nSwitchName=b Switches=a\n").topologies[0];
  EXPECT_TRUE(tree.switches[0].nodes.empty());
}

TEST(TopologyConf, what_slurm_warns_of_is_a_note) {
  const TopologyFile file = parsed(
      "SwitchName=a Nodes=n[1-4]\n"
      "SwitchName=b Nodes=n[3-6]\n"
      "SwitchName=c Nodes=x\n"
      "SwitchName=d Switches=a,b\n"
      "SwitchName=e Switches=b\n");
  EXPECT_EQ(file.notes,
            (Names{"switch 'b' has 2 parents", "3 switches are roots: no job spans two of them",
                   "2 nodes are in more than one leaf switch: n[3-4]"}));
}

TEST(TopologyConf, what_makes_slurm_stop_is_an_error_with_its_line) {
  EXPECT_EQ(error_of(""),
            "f: neither SwitchName= nor BlockName=: no topology.conf, or an empty one");
  EXPECT_EQ(error_of("SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n"),
            "f: line 3: switch 'a' is defined before, in line 1");
  EXPECT_EQ(error_of("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\n"),
            "f: line 2: switch 'b': there is no switch 'c'");
  EXPECT_EQ(error_of("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b\n"),
            "f: line 1: switch 'a' has both switches and nodes");
  EXPECT_EQ(error_of("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
            "f: line 1: switch 'a' is above itself, or below such a one");
  EXPECT_EQ(error_of("SwitchName=a Switches=a\n"),
            "f: line 1: switch 'a' is above itself, or below such a one");
  EXPECT_EQ(error_of("SwitchName=" + std::string(65, 's') + " Nodes=n1\n"),
            "f: line 1: '" + std::string(64, 's') + "'...: a name of more than 64 characters");
}

TEST(TopologyConf, the_circle_is_found_below_a_root) {
  EXPECT_EQ(
      error_of("SwitchName=top Switches=a\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
      "f: line 2: switch 'a' is above itself, or below such a one");
}

TEST(TopologyConf, block_sizes_are_slurms) {
  const std::string blocks = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-7]\n";
  EXPECT_EQ(error_of(blocks + "BlockSizes=3,6\n"), "none");
  EXPECT_EQ(error_of("BlockName=b1\nBlockName=b2\n"),
            "f: no block has nodes, and no block sizes are given");
  EXPECT_EQ(error_of("BlockName=b1 Nodes=n1\nBlockLevels=0,1\n"),
            "f: line 2: BlockLevels is of Slurm 23.11: later ones have BlockSizes");
  EXPECT_EQ(error_of(blocks + "BlockSizes=3,9\n"), "f: block size 9 is not 3 times a power of two");
  EXPECT_EQ(error_of(blocks + "BlockSizes=3,7\n"), "f: block size 7 is not 3 times a power of two");
  EXPECT_EQ(error_of(blocks + "BlockSizes=3,2\n"), "f: block size 2 is not 3 times a power of two");
  EXPECT_EQ(error_of(blocks + "BlockSizes=3,x\n"),
            "f: line 3: BlockSizes is a list of numbers above 0");
  EXPECT_EQ(error_of(blocks + "BlockSizes=0\n"),
            "f: line 3: BlockSizes is a list of numbers above 0");
  EXPECT_EQ(error_of("BlockSizes=4\n"),
            "f: neither SwitchName= nor BlockName=: no topology.conf, or an empty one");
}

TEST(TopologyConf, blocks_below_the_base_size_are_a_note) {
  const std::string blocks = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-7]\n";
  const Names of_two = {
      "1 blocks have fewer than the 4 nodes of a base block, at which Slurm before 25.05 stops: "
      "b2"};
  EXPECT_EQ(parsed(blocks).notes, of_two);
  EXPECT_EQ(parsed(blocks + "BlockSizes=4,8\n").notes, of_two);
  EXPECT_EQ(parsed(blocks + "BlockSizes=3\n").notes, Names());
  // The base is the first block's that has nodes.
  EXPECT_EQ(
      parsed("BlockName=b0\n" + blocks).notes,
      Names{"2 blocks have fewer than the 4 nodes of a base block, at which Slurm before 25.05 "
            "stops: b[0,2]"});
  const TopologyFile empty = parsed("BlockName=b1\nBlockSizes=4\n");
  EXPECT_EQ(empty.notes.size(), 1u);
  EXPECT_EQ(write_topology_conf(empty.topologies[0], {}), "BlockName=b1\nBlockSizes=4\n");
}

TEST(TopologyConf, what_is_no_topology_conf) {
  EXPECT_EQ(
      error_of("Nodes=n1\n"),
      "f: line 1: a line begins with SwitchName=, BlockName= or BlockSizes=, not with 'nodes'");
  EXPECT_EQ(error_of("SwitchName=a Color=red\n"), "f: line 1: unknown key 'color'");
  EXPECT_EQ(error_of("BlockName=a Nodes=n1 LinkSpeed=1\n"), "f: line 1: unknown key 'linkspeed'");
  EXPECT_EQ(error_of("SwitchName=a Nodes=n1 Nodes=n2\n"), "f: line 1: 'nodes' twice in one line");
  EXPECT_EQ(error_of("SwitchName=a Nodes=n[1\n"), "f: line 1: hostlist 'n[1': a '[' without ']'");
  EXPECT_EQ(error_of("SwitchName=a Nodes=\n"), "f: line 1: Nodes has no value");
  EXPECT_EQ(error_of("SwitchName=a Nodes=\"n1\n"), "f: line 1: a quote is not closed");
  EXPECT_EQ(error_of("hello world\n"), "f: line 1: 'hello world' is not KEY=VALUE");
  EXPECT_EQ(error_of("include other.conf\n"),
            "f: line 1: Include is not followed: give that file by itself");
  EXPECT_EQ(error_of("RingName=r Nodes=n[1-4]\n"),
            "f: line 1: topology/ring is not known to this program: tree and block are");
  EXPECT_EQ(error_of("SwitchName=a Nodes=n1\nBlockName=b Nodes=n1\n"),
            "f: line 2: switches and blocks in one file");
}

TEST(TopologyConf, the_writer) {
  Topology tree;
  tree.switches = {
      {"s1", {}, {"n1", "n2", "n10"}, 0}, {"s2", {}, {}, 0}, {"top", {"s1", "s2"}, {}, 0}};
  EXPECT_EQ(write_topology_conf(tree, {"made by hand", "", "a b\nc\x01\\"}),
            "# made by hand\n#\n# a b?c?\n"
            "SwitchName=s1 Nodes=n[1-2,10]\nSwitchName=s2\nSwitchName=top Switches=s[1-2]\n");
  Topology blocks;
  blocks.kind = TopologyKind::kBlock;
  blocks.blocks = {{"b1", {"n1", "n2"}, 0}};
  blocks.block_sizes = {2, 4};
  EXPECT_EQ(write_topology_conf(blocks, {}), "BlockName=b1 Nodes=n[1-2]\nBlockSizes=2,4\n");
}

// ---- files that other programs wrote ----

std::filesystem::path shared() {
  const char* root = std::getenv("MFU_SHARED");
  return std::filesystem::path(root == nullptr ? "../shared" : root) / "data/topology/slurm";
}

TEST(TopologyConf, every_shared_topology_conf) {
  if (!std::filesystem::exists(shared()))
    GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared())) {
    if (entry.path().extension() != ".conf") continue;
    ++files;
    const auto file = read_topology_file(entry.path());
    ASSERT_TRUE(file) << file.error();
    const Topology& topology = file->topologies.at(0);
    EXPECT_EQ(file->notes, Names()) << entry.path();
    // 12 racks of 8 nodes, counted by hand.
    Names nodes;
    for (const auto& one : topology.switches)
      nodes.insert(nodes.end(), one.nodes.begin(), one.nodes.end());
    for (const auto& one : topology.blocks)
      nodes.insert(nodes.end(), one.nodes.begin(), one.nodes.end());
    EXPECT_EQ(nodes.size(), 96u);
    EXPECT_EQ(topology.switches.size() + topology.blocks.size(),
              topology.kind == TopologyKind::kTree ? 19u : 12u);
    // The same again through our writer.
    const auto again = parse_topology_conf(write_topology_conf(topology, {}), "again");
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(write_topology_conf(again->topologies[0], {}), write_topology_conf(topology, {}));
  }
  EXPECT_EQ(files, 2);
}

TEST(TopologyConf, a_file_that_is_not_there) {
  const auto file = read_topology_file("/nonexistent/topology.conf");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().find("/nonexistent/topology.conf"), std::string::npos);
}

}  // namespace
}  // namespace mfu
