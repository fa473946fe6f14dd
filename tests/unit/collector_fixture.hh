// What tests of a step's collectors have in common: munged is real, and so are the network and the
// spool; accounting is in memory.
#ifndef MFU_TESTS_UNIT_COLLECTOR_FIXTURE_HH_
#define MFU_TESTS_UNIT_COLLECTOR_FIXTURE_HH_

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "plugin/collector.hh"
#include "tests/unit/collector_samples.hh"
#include "tests/unit/fake_accounting.hh"

namespace mfu::collector_samples {

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
inline auto* const mungeds = static_cast<Mungeds*>(testing::AddGlobalTestEnvironment(new Mungeds));

class CollectorTest : public testing::Test {
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

inline void expect_sums(const Comment& job, const Sums& expected) {
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

}  // namespace mfu::collector_samples

#endif
