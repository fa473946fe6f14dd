// The steps that run on a node, found in its spool (spool.hh): read from outside, by root or by the
// steps' own users, and never changed.
//
// A step runs while its collector holds the lock of its folder. The folders of steps whose line
// could not be written stay behind without one, and are left out.
#ifndef MFU_PLUGIN_LIVE_SPOOL_HH_
#define MFU_PLUGIN_LIVE_SPOOL_HH_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/job_list.hh"
#include "plugin/step_plan.hh"

namespace mfu {

struct RunningStep {
  // Root's, or for its user users_view() of it. Where there is none: job, step, restart, node,
  // folder, uid, and when it started, by its records' board. Then `gpus` is 0.
  StepPlan plan;
  bool planned = false;
};

struct RunningSteps {
  std::vector<RunningStep> steps;  // by job and step
  uint32_t closed = 0;  // others, whose records this user may not read; batch scripts left out
  std::string missing;  // the folder that the first profiled step would make; empty: it is there
  std::string fault;    // why the spool cannot be read at all; empty: it can, or is missing
};

// `node`: its NodeName; empty: all nodes that have a folder in the spool. `jobs`: of these alone;
// empty: of all.
RunningSteps running_steps(const std::string& spool, const std::string& node,
                           std::span<const JobId> jobs);

// A step's folder is called JOB.RESTART.STEP. False for another name.
bool parse_step_folder(std::string_view name, StepPlan* plan);

}  // namespace mfu

#endif
