// The collector of a step's first node: many nodes, and daemons of Slurm that are slow, refuse or
// forget. Accounting is in memory (fake_accounting.hh); munged, the network and the spool are real.
// MFU_SCALE_NODES=4096 for a step of that many nodes; 512 without.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <munge.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "plugin/collector.hh"
#include "tests/unit/collector_fixture.hh"

namespace mfu {
namespace {

using namespace std::chrono_literals;
using namespace collector_samples;
using accounting::Outcome;

using CollectorScale = CollectorTest;

// Of the first node's collector with all nodes. A sanitizer keeps much beside, freed memory too.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostGrownMib = 1024;
#else
constexpr double kMostGrownMib = 64;
#endif

uint32_t scale() {
  const char* nodes = getenv("MFU_SCALE_NODES");
  return nodes != nullptr ? static_cast<uint32_t>(std::clamp(atoi(nodes), 16, 8192)) : 512;
}

// As a collector sends them.
std::string sealed_words(const peer::Message& words) {
  munge_ctx_t context = munge_ctx_create();
  munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, uid_t{0});
  munge_ctx_set(context, MUNGE_OPT_SOCKET, mungeds->others->socket().c_str());
  char* credential = nullptr;
  munge_encode(&credential, context, &words, sizeof(words));
  const std::string text = credential != nullptr ? credential : "";
  std::free(credential);
  munge_ctx_destroy(context);
  const uint32_t size = htonl(static_cast<uint32_t>(text.size()));
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

// --- many nodes

TEST_F(CollectorScale, EveryNodeCountsOnceAndIsAnswered) {
  StepPlan plan = plan_of_nodes(scale());
  plan.user.flops = 1'234'567'890'123'456'789;
  const StepLink link;
  Nodes nodes(plan, {.late = {7, 11, plan.nodes - 1}}, link, mungeds->others->socket());
  // The collector stays for its line to stand: here, until the last node has had its answer. One
  // that did not wait for it asks again.
  fake_accounting.refuses = [&] {
    return fake_accounting.count(Outcome::kWritten) > 0 && nodes.seen->answered < plan.nodes - 1;
  };
  forget_peak_memory();
  const double before = memory_mib("VmRSS");
  Collector(plan, link.collector()).follow();
  const double grown = memory_mib("VmHWM") - before;
  nodes.join();

  EXPECT_EQ(nodes.seen->answered, plan.nodes - 1);
  EXPECT_EQ(nodes.seen->stale, 0u);
  EXPECT_TRUE(link.is_released());
  const Comment job = line();
  EXPECT_EQ(job.gpus, plan.nodes * kGpus);
  EXPECT_EQ(job.gpu, "H100-SXM");
  EXPECT_EQ(job.partial, "");
  EXPECT_EQ(job.no_time, "");
  EXPECT_TRUE(job.merged.contains(plan.step));
  EXPECT_TRUE(job.sums.model_flops == plan.user.flops);
  EXPECT_TRUE(job.sums.time_whole());
  EXPECT_TRUE(job.sums.elapsed_ns % (uint128{plan.nodes} * kGpus) == 0);
  EXPECT_TRUE(job.sums.attributed_ns == job.sums.elapsed_ns && job.sums.lost_ns == 0);
  expect_sums(job, sums_of_nodes(plan));
  // Not by node: the line, and once or twice to see that it stands.
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 1);
  EXPECT_LE(fake_accounting.count(Outcome::kUnchanged), 3);
  EXPECT_EQ(fake_accounting.most_at_once, 1);
  EXPECT_LE(grown, kMostGrownMib);
  // Strangers' noise: the first one, and how many at the end.
  EXPECT_EQ(log_lines("refused a message from "), 1);
  EXPECT_LE(log_lines("refused "), 2);
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

TEST_F(CollectorScale, NodesThatNeverEndMakeTheLinePartial) {
  const StepPlan plan = plan_of_nodes(64);
  const StepLink link;
  const std::vector<uint32_t> missing = {1, 20, 63};
  Nodes nodes(plan, {.missing = missing, .late = {5}, .late_by = milliseconds(1300)}, link,
              mungeds->others->socket());
  // Slurm ends the step when those that live have ended.
  fake_accounting.runs = [&] { return nodes.seen->answered < plan.nodes - 1 - missing.size(); };
  Collector(plan, link.collector()).follow();
  nodes.join();

  EXPECT_EQ(nodes.seen->answered, plan.nodes - 1 - missing.size());
  const Comment job = line();
  EXPECT_EQ(job.partial, "nodes:61-of-64");
  EXPECT_EQ(job.gpus, plan.nodes * kGpus);
  expect_sums(job, sums_of_nodes(plan, missing));
  EXPECT_TRUE(job.merged.contains(plan.step));
  EXPECT_GE(fake_accounting.asked, 2);  // a node came later than it was first asked
}

// Slurm says that the step is over while a node has yet to try again.
TEST_F(CollectorScale, ANodeThatLivesIsWaitedFor) {
  const StepPlan plan = plan_of_nodes(8);
  const StepLink link;
  Nodes nodes(plan, {.late = {5}, .late_by = milliseconds(4000)}, link, mungeds->others->socket());
  fake_accounting.runs = [&] { return nodes.seen->answered < plan.nodes - 2; };
  Collector(plan, link.collector()).follow();
  nodes.join();
  EXPECT_EQ(nodes.seen->answered, plan.nodes - 1);
  EXPECT_EQ(line().partial, "");
  expect_sums(line(), sums_of_nodes(plan));
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

// A step's nodes end, and connect, at the same moment: who has a place keeps it until he has
// spoken.
TEST_F(CollectorScale, ConnectionsThatAreAboutToSpeakAreNotLetGoForOthers) {
  StepPlan plan = plan_of_nodes(900);
  peer::Listener listener;
  ASSERT_TRUE(listener.open(plan));
  int heard = 0;
  const auto turn = [&] {
    listener.turn([&](const peer::Message&) {
      ++heard;
      return true;
    });
  };
  std::vector<int> connections;
  for (uint32_t id = 1; id < plan.nodes; ++id) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(peer::ports(plan)[0]);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    connections.push_back(fd);
    if (id == 512) turn();  // all places are taken, nobody has spoken
  }
  for (uint32_t id = 1; id < plan.nodes; ++id) {
    const std::string words = sealed_words(words_of(plan, id, true));
    ASSERT_EQ(::send(connections[id - 1], words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
  }
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(heard, 899);
  for (const int fd : connections) close(fd);
}

// --- accounting fails

TEST_F(CollectorScale, ASlowControllerGetsTheLineOnce) {
  fake_accounting.answer_after = 1s;
  const StepPlan plan = plan_of_nodes(1);
  follow_alone(plan);
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 1);
  EXPECT_LE(fake_accounting.edits.size(), 4u);
  expect_sums(line(), sums_of_nodes(plan));
}

TEST_F(CollectorScale, ARefusingControllerIsAskedWithGrowingPauses) {
  fake_accounting.refusals = 3;
  const StepPlan plan = plan_of_nodes(1);
  follow_alone(plan);
  EXPECT_EQ(fake_accounting.count(Outcome::kFailed), 3);
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 1);
  expect_sums(line(), sums_of_nodes(plan));
  const auto pause = [](size_t i) {
    return fake_accounting.edits[i + 1].begin - fake_accounting.edits[i].end;
  };
  // What the collector sleeps at least: however slow the machine is, it is not less.
  EXPECT_GE(pause(0), 150ms);
  EXPECT_GE(pause(1), 300ms);
  EXPECT_GE(pause(2), 600ms);
  EXPECT_NE(log().find("refused"), std::string::npos);
}

// Thousands that were refused at the same moment do not come back at the same moment.
TEST_F(CollectorScale, RetriesAreSpread) {
  auto least = FakeAccounting::Clock::duration::max(), most = -least;
  for (uint32_t step = 0; step < 8; ++step) {
    fake_accounting = {};
    fake_accounting.refusals = 1;
    follow_alone(plan_of_nodes(1, step));
    const auto pause = fake_accounting.edits[1].begin - fake_accounting.edits[0].end;
    least = std::min(least, pause);
    most = std::max(most, pause);
  }
  EXPECT_GE(most - least, 15ms);  // of 100 ms
}

TEST_F(CollectorScale, AWriteThatAnotherWriterOverwritesIsRepeated) {
  fake_accounting.field = "ticket 4711";
  fake_accounting.lost_writes = 3;
  const StepPlan plan = plan_of_nodes(1);
  follow_alone(plan);
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 4);
  EXPECT_TRUE(fake_accounting.field.starts_with("ticket 4711 mfu/1 ")) << fake_accounting.field;
  expect_sums(line(), sums_of_nodes(plan));
}

// The controller forgets the job before it has taken the line; the database has no ended row yet.
TEST_F(CollectorScale, AJobThatEndsFirstGetsItsLineInTheDatabase) {
  fake_accounting.refusals = 1;
  fake_accounting.edits_before_end = 1;
  fake_accounting.rowless = 3;
  const StepPlan plan = plan_of_nodes(1);
  follow_alone(plan);
  EXPECT_EQ(fake_accounting.count(Outcome::kFinished), 1);
  EXPECT_EQ(fake_accounting.count(Outcome::kNotYet), 3);
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 1);
  EXPECT_TRUE(fake_accounting.edits.back().in_database);
  expect_sums(line(), sums_of_nodes(plan));
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

// Nobody waits for a row that will never be.
TEST_F(CollectorScale, WithoutADatabaseTheLineEndsWithItsJob) {
  fake_accounting.edits_before_end = 1;
  fake_accounting.has_database = false;
  const StepPlan plan = plan_of_nodes(1);
  follow_alone(plan);
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 1);
  for (const auto& edit : fake_accounting.edits) EXPECT_FALSE(edit.in_database);
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
}

// The controller has the line when it goes down, comes back with an older state, and forgets the
// job.
TEST_F(CollectorScale, ALineThatARestartForgotIsWrittenAgain) {
  fake_accounting.lost_writes = 1;
  fake_accounting.edits_before_end = 1;
  const StepPlan plan = plan_of_nodes(1);
  follow_alone(plan);
  EXPECT_EQ(fake_accounting.count(Outcome::kWritten), 2);
  expect_sums(line(), sums_of_nodes(plan));
}

// Steps of a job that end at the same time, on one node: one edit at a time, and none is lost.
TEST_F(CollectorScale, StepsOfANodeEditOneAfterTheOther) {
  fake_accounting.answer_after = 30ms;
  constexpr uint32_t kSteps = 6;
  std::vector<StepPlan> plans;
  for (uint32_t step = 0; step < kSteps; ++step) plans.push_back(plan_of_nodes(1, step));
  std::vector<std::thread> collectors;
  std::vector<FakeAccounting::Clock::time_point> ends(kSteps, FakeAccounting::Clock::now());
  for (const StepPlan& plan : plans) {
    collectors.emplace_back([&plan] { Collector(plan, -1).take_over(60s); });
  }
  for (std::thread& collector : collectors) collector.join();
  // Who has waited half a second for another's edit goes on all the same: then an edit may be lost,
  // and is repeated. Only a machine that stops a collector in its edit of 30 ms brings that about.
  auto edits = fake_accounting.edits;
  std::ranges::sort(edits, {}, &FakeAccounting::Seen::begin);
  bool overtaken = false;
  auto free = FakeAccounting::Clock::time_point::min();
  for (const FakeAccounting::Seen& edit : edits) {
    if (edit.begin < free) {
      overtaken = true;
      EXPECT_GE(edit.begin - ends[edit.step], 500ms) << "step " << edit.step << " has not waited";
    }
    free = std::max(free, edit.end);
    ends[edit.step] = edit.end;
  }
  if (overtaken) {
    EXPECT_GE(fake_accounting.count(Outcome::kWritten), static_cast<int>(kSteps));
  } else {
    EXPECT_EQ(fake_accounting.count(Outcome::kWritten), static_cast<int>(kSteps));
  }
  const Comment job = line();
  for (uint32_t step = 0; step < kSteps; ++step) EXPECT_TRUE(job.merged.contains(step));
  EXPECT_TRUE(job.sums.compute_ns == kSteps * sums_of_nodes(plans[0]).compute_ns);
}

}  // namespace
}  // namespace mfu
