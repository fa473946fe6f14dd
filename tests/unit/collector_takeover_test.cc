// Collectors that take over what a step has left: its own one, a node or Slurm's daemons were away.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <thread>

#include "plugin/collector.hh"
#include "plugin/heard_nodes.hh"
#include "tests/unit/collector_fixture.hh"

namespace mfu {
namespace {

using namespace std::chrono_literals;
using namespace collector_samples;

using CollectorTakeover = CollectorTest;

TEST_F(CollectorTakeover, ATakeoverThatFindsNoDaemonLeavesTheRecords) {
  fake_accounting.refusals = 1'000;
  const StepPlan plan = plan_of_nodes(1);
  Collector(plan, -1).take_over(2s);
  EXPECT_LE(fake_accounting.edits.size(), 6u);
  EXPECT_EQ(fake_accounting.field, "");
  EXPECT_TRUE(std::filesystem::exists(plan.folder));
  // Later it answers, and the next takeover finds all there was.
  fake_accounting.refusals = 0;
  Collector(plan, -1).take_over(60s);
  expect_sums(line(), sums_of_nodes(plan));
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

// The first node's collector dies while slurmctld is away: what others told it, who have removed
// their records since, is in the line of the one that takes over.
TEST_F(CollectorTakeover, AnOutageThatOutlivesTheCollectorLosesNoNode) {
  const StepPlan plan = plan_of_nodes(16);
  const StepLink link;
  Nodes nodes(plan, {}, link, mungeds->others->socket());
  const pid_t collector = fork();
  if (collector == 0) {
    fake_accounting.refusals = 1'000;
    Collector(plan, link.collector()).follow();
    _exit(0);
  }
  const std::string heard = plan.folder + "/heard";
  while (nodes.seen->answered < plan.nodes - 1 || !std::filesystem::exists(heard)) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(link.is_released());
  kill(collector, SIGKILL);
  EXPECT_EQ(waitpid(collector, nullptr, 0), collector);
  nodes.join();

  // The daemons are still away, and then they are not.
  fake_accounting.refusals = 1'000;
  Collector(plan, -1).take_over(500ms);
  EXPECT_TRUE(std::filesystem::exists(heard));
  fake_accounting.refusals = 0;
  Collector(plan, -1).take_over(60s);
  EXPECT_EQ(line().partial, "");
  expect_sums(line(), sums_of_nodes(plan));
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

// In the takeover that finds nobody: a step that ran for long is not yet an old one.
TEST_F(CollectorTakeover, AStepsAgeCountsFromItsEnd) {
  fake_accounting.refusals = 1'000;
  StepPlan plan = plan_of_nodes(2);
  plan.started_ns -= 30ull * 24 * 3600 * kSecond;
  store_plan(plan);
  HeardNodes heard;
  for (uint32_t id = 0; id < 2; ++id) {
    const peer::Message words = words_of(plan, id, true);
    heard.take(words.sums, words.spreads, words.findings);
  }
  EXPECT_EQ(heard.store(plan, wall_clock_ns()), "");
  EXPECT_FALSE(Collector(plan, -1).take_over(100ms));
  EXPECT_TRUE(std::filesystem::exists(plan.folder));
  EXPECT_EQ(heard.store(plan, plan.started_ns + kSecond), "");
  EXPECT_TRUE(Collector(plan, -1).take_over(100ms));
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

// All nodes lost their power: their epilogs take over, at about the same time.
TEST_F(CollectorTakeover, ATakeoverWaitsForTheOthersTakeovers) {
  const StepPlan plan = plan_of_nodes(2);
  StepPlan other = plan;
  other.node_id = 1;
  other.node = "n1";
  other.folder = step_folder(other);
  other.site.munge = mungeds->others->socket();
  ASSERT_TRUE(leave_records(other));
  // Alone it finds nobody, and keeps its records.
  fake_accounting.runs = [] { return false; };
  Collector(other, -1).take_over(100ms);
  EXPECT_TRUE(std::filesystem::exists(other.folder));
  EXPECT_TRUE(fake_accounting.edits.empty());  // only the first node's collector writes

  std::thread late([&] {
    std::this_thread::sleep_for(200ms);
    Collector(other, -1).take_over(20s);
  });
  Collector(plan, -1).take_over(20s);
  late.join();
  EXPECT_EQ(line().partial, "");
  EXPECT_TRUE(line().sums.compute_ns == 2 * sums_of_nodes(plan_of(1, "", "")).compute_ns);
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
  EXPECT_FALSE(std::filesystem::exists(other.folder));
}

// Its first node never came back.
TEST_F(CollectorTakeover, ANodesLastWordIsForgottenAfterAWeek) {
  StepPlan plan = plan_of_nodes(2);
  plan.node_id = 1;
  plan.started_ns -= 8ull * 24 * 3600 * kSecond;
  std::filesystem::remove_all(plan.folder);
  ASSERT_TRUE(leave_records(plan));
  Collector(plan, -1).take_over(100ms);
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
  EXPECT_EQ(log_lines("gave up for good"), 1);
}

// What two nodes have told of a step that ended hours ago, and nobody saw it end.
class CollectorLateTakeover : public CollectorTest {
 protected:
  void SetUp() override {
    CollectorTest::SetUp();
    if (IsSkipped()) return;
    plan_ = plan_of(2, mungeds->first->socket(), folder_.path());
    plan_.started_ns -= 5 * 3600 * kSecond;
    ASSERT_TRUE(leave_records(plan_));
    fake_accounting.runs = [] { return false; };
  }
  void store_heard(std::initializer_list<peer::Message> all) {
    HeardNodes heard;
    for (const peer::Message& words : all) heard.take(words.sums, words.spreads, words.findings);
    EXPECT_EQ(heard.store(plan_, 0), "");
  }
  void take_over() { EXPECT_TRUE(Collector(plan_, -1).take_over(20s)); }

  StepPlan plan_;
};

TEST_F(CollectorLateTakeover, AStepEndsWhereItsNodesSumsEnd) {
  store_heard({words_of(plan_, 0, true), words_of(plan_, 1, true)});
  take_over();
  EXPECT_TRUE(line().sums.elapsed_ns == uint128{2 * kGpus} * kWall);
  EXPECT_EQ(line().partial, "");
}

TEST_F(CollectorLateTakeover, AStepEndsWithTheNodeThatEndedLast) {
  peer::Message longer = words_of(plan_, 1, true);
  longer.sums.until_ns += kWall;
  longer.sums.span_ns *= 2;
  store_heard({longer});
  take_over();
  EXPECT_TRUE(line().sums.elapsed_ns == uint128{2 * kGpus} * 2 * kWall);
  EXPECT_EQ(line().no_time, "");
  EXPECT_EQ(line().partial, "");
}

TEST_F(CollectorLateTakeover, AStepWithoutRecordsEndsWithItsJob) {
  plan_.nodes = 1;
  for (const auto& file : std::filesystem::directory_iterator(records_folder(plan_.folder))) {
    if (file.path().extension() == ".mfu") std::filesystem::remove(file);
  }
  fake_accounting.job_ended_ns = plan_.started_ns + 2 * kWall;
  take_over();
  EXPECT_TRUE(line().sums.elapsed_ns == uint128{kGpus} * 2 * kWall);
}

TEST_F(CollectorLateTakeover, WhatWasSaidOfPlacesStands) {
  plan_.site.placement = Placement::kQuiet;
  peer::Message words[] = {words_of(plan_, 0, false), words_of(plan_, 1, true)};
  for (peer::Message& one : words) one.sums.placement_audited = 1;
  words[0].sums.placement_high = 1;
  std::strcpy(words[0].sums.placement_rules, "nic-down");
  store_heard({words[0], words[1]});
  take_over();
  EXPECT_EQ(place_text(line().place), "bad:1(nic-down)");
}

// Says a node's words when the first node's line has been refused. True: they were answered.
bool comes_late(StepPlan plan, const peer::Message& words, const std::atomic<bool>& asked) {
  while (!asked) std::this_thread::sleep_for(10ms);
  plan.site.munge = mungeds->others->socket();
  uint16_t port = 0;
  for (int i = 0; i < 60; ++i) {
    if (peer::send(plan, "localhost", words, 1500, &port)) return true;
  }
  return false;
}

// A step of two nodes whose second one says `words` while the line is refused.
void follow_with_a_late_node(const StepPlan& plan, const peer::Message& words) {
  const StepLink link;
  link.say_end();
  std::atomic<bool> asked{false}, answered{false};
  fake_accounting.runs = [] { return false; };
  fake_accounting.refuses = [&] {
    asked = true;
    return !answered;
  };
  std::thread late([&] { answered = comes_late(plan, words, asked); });
  Collector(plan, link.collector()).follow();
  late.join();
  EXPECT_TRUE(answered);
}

// Of a second node whose tasks ran on for as long again.
peer::Message words_that_ran_on(const StepPlan& plan) {
  peer::Message words = words_of(plan, 1, true);
  words.sums.until_ns = plan.started_ns + 2 * kWall;
  words.sums.span_ns *= 2;
  return words;
}

// A node that was out of reach comes back while slurmctld is away: no line has gone without it yet.
TEST_F(CollectorTakeover, ALateNodeIsInALineThatIsNotStoredYet) {
  const StepPlan plan = plan_of_nodes(2);
  follow_with_a_late_node(plan, words_of(plan, 1, true));
  EXPECT_EQ(line().partial, "");
  expect_sums(line(), sums_of_nodes(plan));
}

// Its tasks ran on where Slurm could not reach them: that is no time of the step's.
TEST_F(CollectorTakeover, ANodeThatRanOnIsNotInTheLine) {
  const StepPlan plan = plan_of_nodes(2);
  const peer::Message words = words_that_ran_on(plan);
  follow_with_a_late_node(plan, words);
  EXPECT_EQ(line().partial, "nodes:1-of-2");
  EXPECT_EQ(line().no_time, "");
}

// Nor where another collector knows the end that the first one has seen.
TEST_F(CollectorTakeover, ANodeThatRanOnIsNotInATakeoversLine) {
  const StepPlan plan = plan_of_nodes(2);
  HeardNodes heard;
  const peer::Message first = words_of(plan, 0, true);
  heard.take(first.sums, first.spreads, first.findings);
  ASSERT_EQ(heard.store(plan, plan.started_ns + kWall), "");
  std::atomic<bool> asked{true}, answered{false};
  std::thread late([&] { answered = comes_late(plan, words_that_ran_on(plan), asked); });
  EXPECT_TRUE(Collector(plan, -1).take_over(20s));
  late.join();
  EXPECT_TRUE(answered);
  EXPECT_EQ(line().partial, "nodes:1-of-2");
  EXPECT_EQ(line().no_time, "");
}

// The clock was ahead when the step began.
TEST_F(CollectorTakeover, AStepOfTheFutureIsNotForgotten) {
  StepPlan plan = plan_of(1, mungeds->first->socket(), folder_.path());
  plan.started_ns = wall_clock_ns() + 3600 * kSecond;
  ASSERT_TRUE(leave_records(plan));
  fake_accounting.refusals = 1'000;
  EXPECT_FALSE(Collector(plan, -1).take_over(100ms));
  EXPECT_TRUE(std::filesystem::exists(plan.folder));
}

}  // namespace
}  // namespace mfu
