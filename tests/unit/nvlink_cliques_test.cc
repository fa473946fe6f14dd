// Steps over several NVLink fabrics.
#include "plugin/nvlink_cliques.hh"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/step_samples.hh"

namespace mfu {
namespace {

using namespace step_samples;

// Nodes with `gpus` each, one for each letter, which names its clique; '-': it has told none.
Nodes nodes_in(const std::string& cliques, uint32_t gpus = 4) {
  Nodes nodes;
  for (uint32_t id = 0; id < cliques.size(); ++id) {
    NodeSums sums = node();
    sums.node_id = id;
    sums.gpus = gpus;
    if (cliques[id] != '-') sums.clique[0] = cliques[id];
    nodes[id] = sums;
  }
  return nodes;
}

std::optional<Finding> crossed(const std::string& cliques, uint32_t gpus = 4) {
  StepPlan plan = plan_of(static_cast<uint32_t>(cliques.size()));
  plan.node_list = "gb[001-400]";
  return crossed_cliques(plan, nodes_in(cliques, gpus));
}

TEST(NvlinkCliques, MoreThanNeeded) {
  const auto found = crossed("aabb");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rule, "nvlink-clique-crossed");
  EXPECT_EQ(found->severity, Severity::kHigh);
  EXPECT_EQ(found->evidence,
            "4 nodes with 16 GPUs lie in 2 NVLink cliques, and fit into 1: 2 from gb001 on, 2 from "
            "gb003 on");
  EXPECT_EQ(found->remedy, "sbatch --switches=1, or topology/block with --segment=4");
}

std::string of(const char* clique, size_t nodes) {
  return std::string(nodes, clique[0]);
}

TEST(NvlinkCliques, AsManyAsNeededAreRight) {
  EXPECT_FALSE(crossed(""));
  EXPECT_FALSE(crossed("a"));
  EXPECT_FALSE(crossed("aaaa"));
  EXPECT_FALSE(crossed(of("a", 18)));
  EXPECT_FALSE(crossed(of("a", 18) + "b"));
  EXPECT_TRUE(crossed(of("a", 9) + of("b", 8) + "c")) << "two racks of 9 would do";
  EXPECT_TRUE(crossed(of("a", 18) + of("b", 9) + of("c", 9))) << "two racks of 18 would do";
}

// A rack may be a small one, a part of one, or have lost nodes.
TEST(NvlinkCliques, WhatACliqueHoldsIsOnlyKnownFromTheStepsOwn) {
  EXPECT_FALSE(crossed(of("a", 9) + of("b", 9))) << "two full NVL36";
  EXPECT_FALSE(crossed(of("a", 10) + of("b", 10)));
  EXPECT_FALSE(crossed(of("a", 16) + of("b", 16) + of("c", 16))) << "two spares in each rack";
  EXPECT_TRUE(crossed(of("a", 12) + of("b", 5) + of("c", 3)));
  // With fewer GPUs than its nodes have, a step may need more.
  EXPECT_FALSE(crossed(of("a", 18) + of("b", 18), 1));
}

TEST(NvlinkCliques, TheRemedyIsWhatSlurmTakes) {
  const auto found = crossed(of("a", 12) + of("b", 5) + of("c", 3));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->remedy, "sbatch --switches=2, or topology/block with --segment=10");
}

TEST(NvlinkCliques, NothingIsJudgedWhereANodeIsUnknown) {
  EXPECT_FALSE(crossed("a-b"));
  EXPECT_FALSE(crossed("---"));
  StepPlan plan = plan_of(3);
  EXPECT_FALSE(crossed_cliques(plan, nodes_in("ab")));  // the third has not been heard
}

TEST(NvlinkCliques, ManyAreCountedAndSomeAreNamed) {
  const auto found = crossed("abcdefgh");
  ASSERT_TRUE(found);
  EXPECT_NE(found->evidence.find("lie in 8 NVLink cliques, and fit into 1: 1 from gb001 on, "),
            std::string::npos);
  EXPECT_TRUE(found->evidence.ends_with("1 from gb004 on, ...")) << found->evidence;
  // A list of nodes that cannot be read costs the names only.
  StepPlan plan = plan_of(2);
  plan.node_list = "n[1-";
  EXPECT_NE(crossed_cliques(plan, nodes_in("ab"))->evidence.find("1 from node 0 on"),
            std::string::npos);
}

TEST(NvlinkCliques, CountInThePlace) {
  const StepPlan plan = plan_of(2);
  Nodes nodes = nodes_in("ab");
  for (auto& [id, sums] : nodes) sums.placement_audited = 1;
  EXPECT_EQ(place_text(reported(plan, nodes, kNow, true).place), "bad:1(nvlink-clique-crossed)");
  nodes[1].clique[0] = 'a';
  EXPECT_EQ(place_text(reported(plan, nodes, kNow, true).place), "ok");
  nodes[1].clique[0] = 'b';
  nodes[1].placement_high = 2;
  std::snprintf(nodes[1].placement_rules, sizeof(nodes[1].placement_rules), "nic-down");
  EXPECT_EQ(place_text(reported(plan, nodes, kNow, true).place),
            "bad:3(nvlink-clique-crossed,nic-down)");
}

}  // namespace
}  // namespace mfu
