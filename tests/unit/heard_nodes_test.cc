// What the first node's collector has heard, and what of it lies in the step's folder.
#include "plugin/heard_nodes.hh"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/unit/collector_samples.hh"

namespace mfu {
namespace {

using collector_samples::plan_of;
using collector_samples::ScratchFolder;
using collector_samples::words_of;

class HeardNodesTest : public testing::Test {
 protected:
  void SetUp() override {
    plan_ = plan_of(4, "", folder_.path());
    std::filesystem::create_directories(plan_.folder);
  }
  bool take(uint32_t id, bool last) {
    const peer::Message words = words_of(plan_, id, last);
    return heard_.take(words.sums, words.spreads, words.findings);
  }
  std::string path() const { return plan_.folder + "/heard"; }
  std::string stored() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  ScratchFolder folder_;
  StepPlan plan_;
  HeardNodes heard_;
};

TEST_F(HeardNodesTest, ALastWordCountsOnce) {
  EXPECT_FALSE(take(1, false));
  EXPECT_EQ(heard_.ended(), 0u);
  EXPECT_TRUE(take(1, true));
  const CollectiveSpreads once = heard_.spreads();
  EXPECT_FALSE(take(1, true));
  EXPECT_EQ(heard_.ended(), 1u);
  EXPECT_EQ(heard_.spreads().kernel_ns, once.kernel_ns);
  EXPECT_EQ(once.kernel_ns, words_of(plan_, 1, true).spreads.kernel_ns);
  // An interim word on its way when the last one came.
  EXPECT_FALSE(take(1, false));
  EXPECT_EQ(heard_.sums().at(1).last, 1u);
}

// Who takes over counts its words by a clock that was set back.
TEST_F(HeardNodesTest, ALastWordCountsOnceAlsoBehindAnEarlierWord) {
  peer::Message words = words_of(plan_, 1, false);
  words.sums.sequence = 9;
  heard_.take(words.sums, words.spreads, words.findings);
  EXPECT_TRUE(take(1, true));
  EXPECT_FALSE(take(1, true));
  EXPECT_EQ(heard_.ended(), 1u);
  EXPECT_EQ(heard_.sums().at(1).last, 1u);
  EXPECT_EQ(heard_.spreads().kernel_ns, words_of(plan_, 1, true).spreads.kernel_ns);
}

TEST_F(HeardNodesTest, WhatANodeSaidOfItsPlaceStandsUntilItSaysOtherwise) {
  NodeSums sums = words_of(plan_, 1, false).sums;
  const auto place_after = [&](uint32_t audited, uint32_t high, const char* rules) {
    ++sums.sequence;
    sums.placement_audited = audited;
    sums.placement_high = high;
    std::strcpy(sums.placement_rules, rules);
    heard_.take(sums, {}, {});
    return std::to_string(heard_.sums().at(1).placement_high) + heard_.sums().at(1).placement_rules;
  };
  EXPECT_EQ(place_after(1, 1, "nic-down"), "1nic-down");
  EXPECT_EQ(place_after(0, 0, ""), "1nic-down");
  EXPECT_EQ(place_after(1, 2, "nic-down"), "2nic-down");
  EXPECT_EQ(place_after(1, 0, ""), "0");
}

TEST_F(HeardNodesTest, AllGpusAreKnownWhenAllNodesAreHeard) {
  const uint32_t of_node = words_of(plan_, 1, false).sums.gpus;
  plan_.gpus = of_node + 3;  // of the first one, which does not hear itself at once
  take(1, false);
  take(2, false);
  EXPECT_EQ(heard_.step_gpus(plan_), 0u);
  take(3, false);
  EXPECT_EQ(heard_.step_gpus(plan_), 4 * of_node + 3);
  take(0, false);
  EXPECT_EQ(heard_.step_gpus(plan_), 4 * of_node);
}

TEST_F(HeardNodesTest, OlderWordsDoNotReplaceNewerOnes) {
  peer::Message words = words_of(plan_, 2, false);
  words.sums.sequence = 9;
  words.sums.compute_ns = 77;
  heard_.take(words.sums, words.spreads, words.findings);
  words.sums.sequence = 8;
  words.sums.compute_ns = 1;
  heard_.take(words.sums, words.spreads, words.findings);
  EXPECT_EQ(heard_.sums().at(2).compute_ns, 77u);
}

TEST_F(HeardNodesTest, WhoTakesOverKnowsTheSame) {
  for (uint32_t id = 0; id < 3; ++id) take(id, id != 2);
  const Finding finding{"nic-down", Severity::kHigh, "n1 mlx5_0", "port 1 is DOWN",
                        "ibstat mlx5_0"};
  peer::Message words = words_of(plan_, 1, true);
  words.findings = top_findings({&finding, 1});
  heard_.take(words.sums, words.spreads, words.findings);
  EXPECT_EQ(heard_.store(plan_, 4711), "");

  struct stat status;
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);

  HeardNodes other;
  EXPECT_EQ(other.load(plan_), 4711u);
  EXPECT_EQ(other.ended(), 2u);
  ASSERT_EQ(other.sums().size(), 3u);
  for (uint32_t id = 0; id < 3; ++id) {
    EXPECT_EQ(std::memcmp(&other.sums().at(id), &heard_.sums().at(id), sizeof(NodeSums)), 0);
  }
  EXPECT_EQ(std::memcmp(&other.spreads(), &heard_.spreads(), sizeof(CollectiveSpreads)), 0);
  EXPECT_EQ(other.findings(), heard_.findings());
  ASSERT_EQ(other.findings().findings.size(), 1u);
  // A last word that comes again, to the new one: its collectives are counted already.
  words = words_of(plan_, 1, true);
  EXPECT_FALSE(other.take(words.sums, words.spreads, words.findings));
  EXPECT_EQ(other.spreads().kernel_ns, heard_.spreads().kernel_ns);
}

TEST_F(HeardNodesTest, ATornOrForeignFileLeavesNothing) {
  take(0, true);
  take(1, true);
  ASSERT_EQ(heard_.store(plan_, 1), "");
  const std::string whole = stored();
  const auto knows = [&](const StepPlan& plan) {
    HeardNodes other;
    take(3, true);  // what it knew before goes
    other.load(plan);
    return other.sums().size();
  };
  EXPECT_EQ(knows(plan_), 2u);
  for (const size_t size : {size_t{0}, size_t{7}, whole.size() / 2, whole.size() - 1}) {
    put(whole.substr(0, size));
    EXPECT_EQ(knows(plan_), 0u) << size;
  }
  put(whole + "x");
  EXPECT_EQ(knows(plan_), 0u);
  // Node 1's number becomes one that the step has not, and then node 0's.
  const size_t sums_at = whole.size() - sizeof(NodeSums);
  for (const char id : {'\x09', '\x00'}) {
    std::string odd = whole;
    odd[sums_at + offsetof(NodeSums, node_id)] = id;
    put(odd);
    EXPECT_EQ(knows(plan_), 0u) << int{id};
  }
  put(whole);
  StepPlan later = plan_;
  later.started_ns += 1;
  EXPECT_EQ(knows(later), 0u);
  StepPlan smaller = plan_;
  smaller.nodes = 1;
  EXPECT_EQ(knows(smaller), 0u);
  std::filesystem::remove(path());
  EXPECT_EQ(knows(plan_), 0u);
}

TEST_F(HeardNodesTest, WhatCannotBeStoredIsTold) {
  plan_.folder += "/nowhere";
  EXPECT_NE(heard_.store(plan_, 0).find("nowhere/heard"), std::string::npos);
}

}  // namespace
}  // namespace mfu
