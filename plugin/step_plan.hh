// What slurmstepd tells the collector of a job step on its node, once, when the step starts. The
// text form goes through the collector's socket and lies in the step's folder for the job epilog.
#ifndef MFU_PLUGIN_STEP_PLAN_HH_
#define MFU_PLUGIN_STEP_PLAN_HH_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "plugin/options.hh"

namespace mfu {

// CLOCK_REALTIME: the clock of plans, records and sums.
uint64_t wall_clock_ns();

struct StepPlan {
  uint32_t job = 0;
  uint32_t step = 0;     // Slurm's step id; batch and interactive steps have special ones
  bool batch = false;    // the batch step: it usually starts other steps and runs no CUDA itself
  uint32_t restart = 0;  // SLURM_RESTART_COUNT of the step: 0 as well where srun did not pass it on
  uint32_t run = 0;      // the job's restart count, as the controller says where it can be asked
  uint32_t array_job = 0;  // 0: not an array task
  uint32_t array_task = 0;
  uint32_t node_id = 0;  // in the step
  uint32_t nodes = 1;    // of the step
  uint32_t uid = 0;
  uint32_t gpus = 0;        // of the step on this node
  uint32_t step_gpus = 0;   // on all its nodes; 0: not known (yet), see whole_gpus()
  uint32_t tasks = 0;       // of the step on this node
  uint64_t started_ns = 0;  // CLOCK_REALTIME
  std::string node;         // this node's NodeName
  std::string node_list;    // the step's nodes as a hostlist; the first collects
  std::string folder;       // the step's folder in the spool; empty: none
  std::string allocated;    // its GPUs' numbers as Slurm writes them, e.g. "0-1,3"; root's word
  // Its tasks can open these GPUs only, and count them from 0; nothing: unknown.
  std::optional<bool> confined;
  uint32_t gid = 0;
  std::string no_records;  // why no record can come ("spool:enospc", "slot-taken"); empty: they can
  SiteOptions site;
  UserOptions user;
};

// GPUs of the step on all its nodes; 0: not known. Slurm does not tell a node what the others have,
// and need not have dealt GPUs out evenly: with several nodes the first one's collector knows when
// it has heard all.
uint32_t whole_gpus(const StepPlan& plan);

// What the step's own user may know of it: what he has asked for, and how it is judged. Nothing of
// the site but the spool and where peaks are stated.
StepPlan users_view(const StepPlan& plan);

// One "key=value" a line. A byte of a value that is not printable ASCII becomes '?'.
std::string format_plan(const StepPlan& plan);
// Errors name the line. The text comes from root, yet a torn file must not be believed. Plans of
// versions that had no step_gpus are read: jobs outlive an installation.
tl::expected<StepPlan, std::string> parse_plan(std::string_view text);

}  // namespace mfu

#endif
