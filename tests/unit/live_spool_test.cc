#include "plugin/live_spool.hh"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "plugin/live_reading.hh"
#include "plugin/spool.hh"
#include "plugin/step_set.hh"

namespace mfu {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;
constexpr uid_t kAnother = 65533;

// In a child that is an ordinary user. True when `act` returned true.
template <typename Act>
bool as_user(uid_t uid, Act&& act) {
  const pid_t child = fork();
  if (child == 0) {
    const bool done = setgid(uid) == 0 && setuid(uid) == 0 && act();
    _exit(done ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A spool with steps as slurmstepd makes them; a step whose claim is held runs.
class LiveSpool : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    char folder[] = "/tmp/mfu-live.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    spool_ = folder;
    ASSERT_EQ(chmod(folder, 0755), 0);
  }
  void TearDown() override {
    claims_.clear();
    if (!spool_.empty()) fs::remove_all(spool_);
  }

  StepPlan make(uint32_t job, uint32_t step, bool runs = true, uid_t uid = kNobody) {
    StepPlan plan;
    plan.job = job;
    plan.step = step;
    plan.uid = uid;
    plan.gpus = 4;
    plan.node = "n1";
    plan.node_list = "n1";
    plan.started_ns = wall_clock_ns();
    plan.site.spool = spool_;
    plan.folder = step_folder(plan);
    EXPECT_TRUE(create_spool(plan, uid));
    store_plan(plan);
    if (runs) {
      claims_.push_back(std::make_unique<FolderClaim>(plan));
      EXPECT_TRUE(claims_.back()->held());
    }
    return plan;
  }

  RunningSteps steps(std::vector<JobId> jobs = {}, const std::string& node = "") {
    return running_steps(spool_, node, jobs);
  }

  std::string spool_;
  std::vector<std::unique_ptr<FolderClaim>> claims_;
};

TEST_F(LiveSpool, RunningStepsComeInTheirOrder) {
  make(20, 0);
  make(3, 1);
  make(3, 0);
  const RunningSteps found = steps();
  EXPECT_EQ(found.fault, "");
  ASSERT_EQ(found.steps.size(), 3u);
  EXPECT_EQ(found.steps[0].plan.job, 3u);
  EXPECT_EQ(found.steps[0].plan.step, 0u);
  EXPECT_EQ(found.steps[2].plan.job, 20u);
  EXPECT_TRUE(found.steps[0].planned);
  EXPECT_EQ(found.steps[0].plan.gpus, 4u);
  EXPECT_EQ(found.steps[0].plan.folder, spool_ + "/n1/3.0.0");
}

TEST_F(LiveSpool, WhatWasLeftBehindDoesNotRun) {
  make(1, 0, false);
  make(2, 0);
  ASSERT_EQ(steps().steps.size(), 1u);
  claims_.clear();
  EXPECT_EQ(steps().steps.size(), 0u);
}

// A look that took the lock, if only for a moment, could keep a takeover from the step.
TEST_F(LiveSpool, LookingTakesNoLock) {
  const StepPlan plan = make(1, 0, false);
  steps();
  FolderClaim claim(plan);
  EXPECT_TRUE(claim.held());
}

// Their GPUs are those of the job's steps.
TEST_F(LiveSpool, ShellsThatLeaveTheWorkToStepsAreNoSteps) {
  make(1, kBatchStep);
  make(2, kInteractiveStep);
  make(2, 0);
  const LiveReading reading = read_live({.spool = spool_}, wall_clock_ns());
  ASSERT_EQ(reading.steps.size(), 1u);
  EXPECT_EQ(reading.steps[0].plan.step, 0u);
  // Nor do they count where the plan is closed to the caller.
  EXPECT_TRUE(as_user(kAnother, [&] { return steps().closed == 1; }));
}

TEST_F(LiveSpool, SomeJobsAlone) {
  make(1, 0);
  make(2, 0);
  StepPlan array = make(9, 0);
  array.array_job = 7;
  array.array_task = 3;
  store_plan(array);
  EXPECT_EQ(steps({{2, {}}}).steps.size(), 1u);
  EXPECT_EQ(steps({{2, {}}, {7, {}}}).steps.size(), 2u);
  EXPECT_EQ(steps({{7, 3}}).steps.size(), 1u);
  EXPECT_EQ(steps({{7, 4}}).steps.size(), 0u);
  EXPECT_EQ(steps({{9, {}}}).steps.size(), 1u);
}

TEST_F(LiveSpool, OneNodeOfSeveral) {
  make(1, 0);
  fs::create_directory(spool_ + "/n2");
  EXPECT_EQ(steps({}, "n1").steps.size(), 1u);
  EXPECT_EQ(steps({}, "n2").steps.size(), 0u);
}

// Which is no fault: the first step makes it.
TEST_F(LiveSpool, BeforeTheFirstStepThereIsNoSpool) {
  const RunningSteps none = running_steps(spool_ + "/none", "", {});
  EXPECT_EQ(none.missing, spool_ + "/none");
  EXPECT_EQ(none.fault, "");
  const RunningSteps no_node = running_steps(spool_, "n3", {});
  EXPECT_EQ(no_node.missing, spool_ + "/n3");
  std::ofstream(spool_ + "/file") << "x";
  const RunningSteps no_folder = running_steps(spool_ + "/file", "", {});
  EXPECT_EQ(no_folder.fault, spool_ + "/file: Not a directory");
  EXPECT_EQ(no_folder.missing, "");
}

TEST_F(LiveSpool, UsersSeeWhatTheyDeclared) {
  StepPlan own = make(1, 2);
  own.user.flops_per_step = 197;
  own.array_job = 7;
  own.array_task = 3;
  store_plan(own);
  make(2, 0, true, kAnother);
  EXPECT_TRUE(as_user(kNobody, [&] {
    const RunningSteps found = steps({{7, 3}});
    if (found.steps.size() != 1) return false;
    const StepPlan& plan = found.steps[0].plan;
    return found.steps[0].planned && plan.job == 1 && plan.gpus == 4 &&
           plan.user.flops_per_step == 197 && plan.started_ns == own.started_ns &&
           plan.folder == own.folder && steps().closed == 1;
  }));
}

// Not even those of his group do.
TEST_F(LiveSpool, NobodyElseReadsAUsersViewOfThePlan) {
  StepPlan own = make(1, 0);
  own.gid = kAnother;
  own.site.munge = "/run/closed";
  store_plan(own);
  const std::string view = own.folder + "/plan.user";
  struct stat status {};
  ASSERT_EQ(lstat(view.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0400u);
  EXPECT_TRUE(as_user(kNobody, [&] {
    const auto seen = read_users_plan(own.folder);
    return seen && seen->site.munge.empty() && !read_plan(own.folder);
  }));
  EXPECT_TRUE(as_user(kAnother, [&] { return open(view.c_str(), O_RDONLY) < 0; }));
  EXPECT_FALSE(read_users_plan(own.folder));  // nor does root
}

TEST_F(LiveSpool, WhatAUserMakesOfHisViewIsHisAlone) {
  StepPlan own = make(1, 0);
  const std::string view = own.folder + "/plan.user";
  EXPECT_FALSE(as_user(kNobody, [&] { return unlink(view.c_str()) == 0; }));
  EXPECT_FALSE(as_user(kNobody, [&] { return rename(view.c_str(), "/tmp/x") == 0; }));
  ASSERT_TRUE(as_user(kNobody, [&] {
    StepPlan forged = own;
    forged.gpus = 1000;
    chmod(view.c_str(), 0600);
    std::ofstream(view) << format_plan(forged);
    return steps().steps[0].plan.gpus == 1000;
  }));
  EXPECT_EQ(steps().steps[0].plan.gpus, 4u);
  ASSERT_TRUE(as_user(kNobody, [&] {
    std::ofstream(view) << std::string(1 << 20, 'x');
    return steps().steps.size() == 1 && !steps().steps[0].planned;
  }));
  own.step_gpus = 8;
  store_plan(own);
  EXPECT_TRUE(as_user(kNobody, [&] { return steps().steps[0].plan.step_gpus == 8; }));
  remove_spool(own);
  EXPECT_FALSE(fs::exists(own.folder));
}

TEST_F(LiveSpool, UsersSeeTheirOwnStepsWithoutThePlan) {
  const StepPlan own = make(1, 2);
  make(2, 0, true, kAnother);
  fs::remove(own.folder + "/plan.user");  // there was no room for it
  EXPECT_TRUE(as_user(kNobody, [&] {
    const RunningSteps found = steps();
    if (found.steps.size() != 1 || found.closed != 1) return false;
    const RunningStep& step = found.steps[0];
    const int64_t apart = static_cast<int64_t>(step.plan.started_ns - own.started_ns);
    return !step.planned && step.plan.job == 1 && step.plan.step == 2 && step.plan.uid == kNobody &&
           std::abs(apart) < 1'000'000'000 && read_records(step.plan).broken == 0;
  }));
}

TEST_F(LiveSpool, OtherNamesAreNoSteps) {
  make(1, 0);
  fs::create_directory(spool_ + "/n1/x");
  fs::create_directory(spool_ + "/n1/5.0.0.0");
  fs::create_symlink(spool_ + "/n1/1.0.0", spool_ + "/n1/6.0.0");
  EXPECT_EQ(steps().steps.size(), 1u);
}

TEST(StepFolder, IsThreeNumbers) {
  StepPlan plan;
  EXPECT_TRUE(parse_step_folder("12.1.4294967291", &plan));
  EXPECT_EQ(plan.job, 12u);
  EXPECT_EQ(plan.restart, 1u);
  EXPECT_EQ(plan.step, 4294967291u);
  for (const char* name : {"", "12", "12.1", "12.1.", ".1.2", "12.1.2x", "12.1.4294967296",
                           "-1.1.1", " 1.1.1", "1..1", "lock"}) {
    EXPECT_FALSE(parse_step_folder(name, &plan)) << name;
  }
}

}  // namespace
}  // namespace mfu
