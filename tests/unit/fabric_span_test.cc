// Hops against a plain breadth-first search, and a job's span against plans where it is known.
#include "topology/fabric_span.hh"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tests/unit/fabric_samples.hh"
#include "topology/fabric_text.hh"

namespace mfu {
namespace {

std::vector<uint32_t> hops_from(const Fabric& fabric, uint32_t start) {
  std::vector<uint32_t> hops(fabric.nodes.size(), UINT32_MAX);
  std::deque<uint32_t> next{start};
  hops[start] = 0;
  for (; !next.empty(); next.pop_front()) {
    for (const FabricPort& port : fabric.nodes[next.front()].ports) {
      if (fabric.nodes[port.peer].kind != FabricKind::kSwitch || hops[port.peer] != UINT32_MAX)
        continue;
      hops[port.peer] = hops[next.front()] + 1;
      next.push_back(port.peer);
    }
  }
  return hops;
}

void expect_plain_hops(const Fabric& fabric) {
  const FabricRoles roles = find_roles(fabric);
  const LeafHops hops(fabric, roles);
  for (uint32_t a = 0; a < roles.leaves.size(); ++a) {
    const std::vector<uint32_t> plain = hops_from(fabric, roles.leaves[a].node);
    for (uint32_t b = 0; b < roles.leaves.size(); ++b) {
      const uint32_t expected = plain[roles.leaves[b].node];
      ASSERT_EQ(hops.between(a, b), expected == UINT32_MAX ? kNoWay : expected) << a << " " << b;
    }
  }
}

TEST(FabricSpan, HopsAreThoseOfAPlainSearch) {
  FabricPlan plan;
  expect_plain_hops(make_fabric(plan));
  plan.pods = 3;
  expect_plain_hops(make_fabric(plan));
  plan.cores = 2;
  expect_plain_hops(make_fabric(plan));
}

TEST(FabricSpan, HopsOfRandomGraphsOfManyLeaves) {
  // More leaves than are searched from at once, some without a way.
  std::mt19937 random(7);
  FabricMaker maker;
  const uint32_t leaves = 1100;
  for (uint32_t i = 0; i < leaves; ++i) {
    const uint32_t leaf = maker.add(FabricKind::kSwitch, "leaf", 254);
    const uint32_t adapter =
        maker.add(FabricKind::kAdapter, "n" + std::to_string(i) + " mlx5_0", 1);
    maker.link(leaf, 254, adapter, 1, "HDR");
  }
  std::vector<uint32_t> used(leaves, 0);
  for (uint32_t i = 0; i < 1300; ++i) {
    const uint32_t a = random() % leaves;
    const uint32_t b = random() % leaves;
    if (a != b) maker.link(2 * a, ++used[a], 2 * b, ++used[b], "HDR");
  }
  expect_plain_hops(maker.made());
}

class Spans {
 public:
  explicit Spans(Fabric made)
      : fabric(std::move(made)), roles(find_roles(fabric)), spans(fabric, roles) {}
  JobSpan of(std::initializer_list<uint32_t> nodes) const {
    std::vector<uint32_t> hosts;
    for (uint32_t node : nodes) hosts.push_back(roles.find_host("node" + std::to_string(node)));
    return spans.span(hosts);
  }
  Fabric fabric;
  FabricRoles roles;
  FabricSpans spans;
};

// Pods of two units of four hosts with four rails: nodes 1-4, 5-8 | 9-12, 13-16 | ...
FabricPlan three_pods() {
  FabricPlan plan;
  plan.pods = 3;
  plan.cores = 2;
  return plan;
}

TEST(FabricSpan, JobWithinAUnit) {
  const JobSpan span = Spans(make_fabric(three_pods())).of({2, 4, 1, 3, 2});
  EXPECT_EQ(span.hosts, 4u);
  EXPECT_EQ(span.leaves, 4u);
  EXPECT_EQ(span.least_leaves, 4u);
  EXPECT_EQ(span.units, 1u);
  EXPECT_EQ(span.pods, 1u);
  EXPECT_EQ(span.islands, 1u);
  EXPECT_EQ(span.largest_hops, 0u);
  EXPECT_EQ(span.mean_hops, 0);
  EXPECT_EQ(span.pairs_without_way, 0u);
}

TEST(FabricSpan, JobAcrossUnitsAndPods) {
  const Spans spans(make_fabric(three_pods()));
  const JobSpan two_units = spans.of({1, 2, 5, 6});
  EXPECT_EQ(two_units.leaves, 8u);
  EXPECT_EQ(two_units.least_leaves, 4u);
  EXPECT_EQ(two_units.units, 2u);
  EXPECT_EQ(two_units.least_units, 1u);
  EXPECT_EQ(two_units.pods, 1u);
  EXPECT_EQ(two_units.largest_hops, 2u);
  EXPECT_DOUBLE_EQ(two_units.mean_hops, 2 * 4.0 / 6);  // of 6 pairs a rail 4 are across

  const JobSpan three = spans.of({1, 9, 10, 17, 18, 19});
  EXPECT_EQ(three.leaves, 12u);
  EXPECT_EQ(three.least_leaves, 8u);
  EXPECT_EQ(three.pods, 3u);
  EXPECT_EQ(three.least_pods, 1u);
  EXPECT_EQ(three.least_units, 2u);
  EXPECT_EQ(three.largest_hops, 4u);
  EXPECT_DOUBLE_EQ(three.mean_hops, 4 * (2.0 + 3 + 6) / 15);

  const JobSpan nine = spans.of({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(nine.pods, 2u);
  EXPECT_EQ(nine.least_pods, 2u);
  EXPECT_EQ(nine.least_units, 3u);
  EXPECT_EQ(nine.least_leaves, 12u);
  EXPECT_EQ(spans.of({}).least_leaves, 0u);
}

TEST(FabricSpan, LeastLeavesOfUnequalUnits) {
  // Unit 1 of four hosts has three leaves; the others have four.
  Fabric fabric = make_fabric(three_pods());
  for (uint32_t h = 1; h <= 4; ++h) {
    cut_link(&fabric, node_called(fabric, "node" + std::to_string(h) + " mlx5_1"), 1);
  }
  const Spans spans(std::move(fabric));
  EXPECT_EQ(spans.of({5, 6, 7}).least_leaves, 3u);
  EXPECT_EQ(spans.of({5, 6, 7, 8, 9}).least_leaves, 7u);
  EXPECT_EQ(spans.of({1, 2, 3, 4, 5, 6, 7, 8, 9}).least_leaves, 11u);
}

TEST(FabricSpan, JobOnSeparateFabrics) {
  FabricPlan plan = three_pods();
  plan.cores = 0;
  const JobSpan span = Spans(make_fabric(plan)).of({1, 2, 9});
  EXPECT_EQ(span.islands, 2u);
  EXPECT_EQ(span.pairs_without_way, 2u * 4);
  EXPECT_EQ(span.mean_hops, 0);
}

TEST(FabricSpan, RealPod) {
  auto snapshot = read_fabric(shared_fabric("topograph-example.out"));
  if (!snapshot) GTEST_SKIP() << kNoSharedFabrics;
  const Spans spans(std::move(snapshot->fabric));
  expect_plain_hops(spans.fabric);
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < spans.roles.hosts.size(); ++i) all.push_back(i);
  const JobSpan span = spans.spans.span(all);
  EXPECT_EQ(span.hosts, 119u);
  EXPECT_EQ(span.leaves, 31u);
  EXPECT_EQ(span.least_leaves, 31u);
  EXPECT_EQ(span.largest_hops, 2u);
}

}  // namespace
}  // namespace mfu
