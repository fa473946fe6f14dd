// Where a job step's tasks sit: told by each task, audited once on each node by `mfu-topo step`
// (topology/step_command.hh), a child of the collector, as discovery may hang or crash.
//
// A task leaves a note in the records folder (its user's: hostile input), before the program
// starts. The collector has the notes of its node audited, and leaves the verdict in the step's
// folder, which only root writes to. Under `strict` the tasks wait for it.
#ifndef MFU_PLUGIN_PLACEMENT_HH_
#define MFU_PLUGIN_PLACEMENT_HH_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "plugin/node_sums.hh"
#include "plugin/step_plan.hh"
#include "topology/finding.hh"

namespace mfu {

struct TaskNote {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  std::string cpus;  // as the kernel lists them
  // Those of kNotedVariables that it has.
  std::map<std::string, std::string> environment;
  std::string devices;  // openable_gpus()
};
inline constexpr const char* kNotedVariables[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                                  "NCCL_IB_HCA", "NCCL_IB_DISABLE"};

// In the task, as its user. `note.cpus` is filled in by what the process may run on, `note.devices`
// by what of `device_folder` it may open. False when it cannot be written: the task is not audited.
bool leave_note(const StepPlan& plan, TaskNote note, const std::string& device_folder = "/dev");
// As root. At most one for each local task; what is no sound note is left out.
std::vector<TaskNote> read_notes(const StepPlan& plan);

struct PlacementAudit {
  std::vector<Finding> findings;
  std::string fault;   // why there are none; empty: the audit is done
  std::string clique;  // the NVLink fabric of the tasks' GPUs; empty: unknown, none, or several
  // All tasks' GPUs were found, and the fabric if there is one: without findings all is well.
  bool whole() const;
  uint32_t count(Severity severity) const;
  // Names of rules, the most severe first, each once, with commas; as many as `most` bytes hold. Of
  // findings of low severity none.
  std::string rules(size_t most) const;
};
// Of what `mfu-topo step` prints (topology/step_command.hh): findings, and facts, of which those
// that this version does not know are passed over. Rules have at most kMostRule bytes; other texts
// become printable ASCII, at most 1024 bytes each. Nothing when a line is neither: a half is no
// audit.
std::optional<PlacementAudit> parse_step_audit(std::string_view output);
// Runs the site's mfu-topo, for so long at most. With the fabric on the step's first node. Where a
// task has left no note nothing is judged: which GPU is whose follows from all of them.
PlacementAudit audit_placement(const StepPlan& plan, const std::vector<TaskNote>& notes,
                               std::chrono::milliseconds limit);

// Fills the fields of placement in `sums`. `whole`: it was audited, wholly.
void add_placement(const PlacementAudit& audit, bool whole, NodeSums* sums);

// For people: a headline, then a line or two for each finding that is no information, at most
// `most_findings`.
std::string placement_text(const StepPlan& plan, const PlacementAudit& audit, size_t most_findings);

// Whether strict refuses: a finding of high severity, or a binding that an option of srun mends.
bool refuses(const PlacementAudit& audit);
// For tasks that wait; the job's group may read it.
void leave_verdict(const StepPlan& plan, const PlacementAudit& audit);
struct Verdict {
  bool refused = false;
  std::string text;  // placement_text
};
// An earlier step's of the same folder.
void remove_verdict(const StepPlan& plan);
// Nothing: there is none (yet).
std::optional<Verdict> read_verdict(const StepPlan& plan);

// Whether tasks can open the step's GPUs only: ConstrainDevices=yes in the cgroup.conf beside
// slurm.conf, and task/cgroup in that. Nothing where these do not say.
std::optional<bool> devices_are_confined();

}  // namespace mfu

#endif
