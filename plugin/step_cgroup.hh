// Out of the job step's cgroup.
//
// The collector is a descendant of slurmstepd, and slurmstepd lives in a cgroup of its step. With
// cgroup v2 Slurm counts that group's processes among the step's: at the step's end, and on
// scancel, it sends SIGKILL to all of them but slurmstepd, and waits for them. The collector has to
// finish the line after that, so it moves to where Slurm keeps its own ending slurmstepds.
#ifndef MFU_PLUGIN_STEP_CGROUP_HH_
#define MFU_PLUGIN_STEP_CGROUP_HH_

#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// The cgroup.procs files to write to, from the text of /proc/self/cgroup. cgroup v2: the leaf
// "system" of slurmstepd's scope. v1: the root of every hierarchy that has us in a job's group.
std::vector<std::string> groups_outside(std::string_view own_groups);

// Nothing happens where no job's cgroup is; an error is not worth a word: the line is then written
// by the job epilog.
void leave_step_cgroup();

}  // namespace mfu

#endif
