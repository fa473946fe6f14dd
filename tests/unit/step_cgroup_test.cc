#include "plugin/step_cgroup.hh"

#include <gtest/gtest.h>

namespace mfu {
namespace {

using Files = std::vector<std::string>;

TEST(StepCgroup, Version2GoesToSlurmsWaitingRoom) {
  EXPECT_EQ(groups_outside("0::/system.slice/slurmstepd.scope/job_7/step_0/slurm\n"),
            Files{"/sys/fs/cgroup/system.slice/slurmstepd.scope/system/cgroup.procs"});
  EXPECT_EQ(groups_outside("0::/system.slice/n1_slurmstepd.scope/job_7/step_batch/slurm"),
            Files{"/sys/fs/cgroup/system.slice/n1_slurmstepd.scope/system/cgroup.procs"});
}

TEST(StepCgroup, Version1LeavesEveryHierarchyOfTheJob) {
  EXPECT_EQ(
      groups_outside("12:memory:/slurm/uid_1000/job_7/step_0\n"
                     "11:cpu,cpuacct:/slurm_n1/uid_1000/job_7\n"
                     "4:blkio:/system.slice/slurmd.service\n"
                     "1:name=systemd:/system.slice/slurmd.service\n"
                     "0::/system.slice/slurmd.service\n"),
      (Files{"/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cpu,cpuacct/cgroup.procs"}));
}

TEST(StepCgroup, WithoutAJobNothingIsMoved) {
  EXPECT_EQ(groups_outside(""), Files{});
  EXPECT_EQ(groups_outside("\n\n:\n::\n0::/\nrubbish"), Files{});
  EXPECT_EQ(groups_outside("0::/system.slice/slurmd.service\n"), Files{});
}

}  // namespace
}  // namespace mfu
