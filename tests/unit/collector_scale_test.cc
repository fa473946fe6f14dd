// The collector of a step's first node: many nodes, and daemons of Slurm that are slow, refuse or
// forget. Accounting is in memory (fake_accounting.hh); munged, the network and the spool are real.
// MFU_SCALE_NODES=4096 for a step of that many nodes; 512 without.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <munge.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/collector.hh"
#include "tests/unit/collector_samples.hh"
#include "tests/unit/fake_accounting.hh"

namespace mfu {
namespace {

using namespace std::chrono_literals;
using namespace collector_samples;
using accounting::Outcome;

// One for the first node, one for all others: with the same key.
class Mungeds : public testing::Environment {
 public:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);  // as mfu_collector.cc
    alarm(500);                // a collector that does not end by itself
    first = std::make_unique<PrivateMunged>();
    others = std::make_unique<PrivateMunged>();
  }
  void TearDown() override {
    first.reset();
    others.reset();
  }
  std::unique_ptr<PrivateMunged> first, others;
};
auto* const mungeds = static_cast<Mungeds*>(testing::AddGlobalTestEnvironment(new Mungeds));

uint32_t scale() {
  const char* nodes = getenv("MFU_SCALE_NODES");
  return nodes != nullptr ? static_cast<uint32_t>(std::clamp(atoi(nodes), 16, 8192)) : 512;
}

class CollectorScale : public testing::Test {
 protected:
  void SetUp() override {
    fake_accounting = {};
    if (!mungeds->first->runs() || !mungeds->others->runs()) {
      GTEST_SKIP() << "no private munged: needs root and the user munge";
    }
  }

  StepPlan plan_of_nodes(uint32_t nodes, uint32_t step = 0) {
    StepPlan plan = plan_of(nodes, mungeds->first->socket(), folder_.path(), step);
    EXPECT_TRUE(leave_records(plan));
    return plan;
  }
  // A step of one node, which has ended.
  void follow_alone(const StepPlan& plan) {
    const StepLink link;
    link.say_end();
    Collector(plan, link.collector()).follow();
    EXPECT_TRUE(link.is_released());
  }
  static Comment line() {
    const auto parsed = parse_comment(find_comment(fake_accounting.field));
    EXPECT_TRUE(parsed) << fake_accounting.field;
    return parsed ? *parsed : Comment();
  }
  std::string log() const {
    std::ifstream file(folder_.path() + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  int log_lines(const std::string& text) const {
    std::istringstream all(log());
    int found = 0;
    for (std::string line; std::getline(all, line);) found += line.find(text) != line.npos;
    return found;
  }

  ScratchFolder folder_;
};

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

void expect_sums(const Comment& job, const Sums& expected) {
  const auto same = [](const char* name, uint128 got, uint128 wanted) {
    EXPECT_TRUE(got == wanted) << name << ": " << static_cast<uint64_t>(got) << " instead of "
                               << static_cast<uint64_t>(wanted);
  };
  same("span_ns", job.sums.span_ns, expected.span_ns);
  same("compute_ns", job.sums.compute_ns, expected.compute_ns);
  same("exposed", job.sums.exposed_communication_ns, expected.exposed_communication_ns);
  same("overlapped", job.sums.overlapped_communication_ns, expected.overlapped_communication_ns);
  same("memory", job.sums.exposed_memory_ns, expected.exposed_memory_ns);
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
  EXPECT_LE(grown, 64) << "MiB";
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

TEST_F(CollectorScale, ATakeoverThatFindsNoDaemonLeavesTheRecords) {
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
TEST_F(CollectorScale, AnOutageThatOutlivesTheCollectorLosesNoNode) {
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
TEST_F(CollectorScale, AStepsAgeCountsFromItsEnd) {
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
TEST_F(CollectorScale, ATakeoverWaitsForTheOthersTakeovers) {
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
TEST_F(CollectorScale, ANodesLastWordIsForgottenAfterAWeek) {
  StepPlan plan = plan_of_nodes(2);
  plan.node_id = 1;
  plan.started_ns -= 8ull * 24 * 3600 * kSecond;
  std::filesystem::remove_all(plan.folder);
  ASSERT_TRUE(leave_records(plan));
  Collector(plan, -1).take_over(100ms);
  EXPECT_FALSE(std::filesystem::exists(plan.folder));
  EXPECT_EQ(log_lines("gave up for good"), 1);
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
