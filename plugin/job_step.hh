// A job step as slurmstepd sees it through SPANK.
#ifndef MFU_PLUGIN_JOB_STEP_HH_
#define MFU_PLUGIN_JOB_STEP_HH_

#include <cstdint>
#include <optional>
#include <string>

#include "plugin/spank_gate.hh"
#include "plugin/step_plan.hh"

namespace mfu {

// What the step is on this node, with the site's and the user's options in it. Nothing when the
// step has no GPUs here, or SPANK does not tell which job it is.
std::optional<StepPlan> read_step(spank_t spank, const SiteOptions& site, const UserOptions& user);

// A variable of the step's environment; nothing when it is not set (or absurdly long).
std::optional<std::string> step_variable(spank_t spank, const char* name);

// Who came first: a value of CUDA_INJECTION64_PATH that is not ours is the user's.
bool injection_slot_taken(spank_t spank);

// Puts the injection into the environment of a task. In task_init, after the container's mounts.
void inject(spank_t spank, const StepPlan& plan);

// Takes an outer step's injection out of the environment of a task that is not to be profiled. A
// user's own is left alone.
void forget_injection(spank_t spank);

}  // namespace mfu

#endif
