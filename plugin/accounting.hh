// Reading and writing a job's comment: in slurmctld while the job lives, in slurmdbd afterwards.
//
// Both edits are read-merge-write. There is no lock between nodes, so a write can be lost to
// another writer: callers come back after a while and edit again, which changes nothing when all is
// well.
#ifndef MFU_PLUGIN_ACCOUNTING_HH_
#define MFU_PLUGIN_ACCOUNTING_HH_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "plugin/step_plan.hh"

namespace mfu::accounting {

// From the field's text to the new one; nothing when it is right already; an error when the field
// must not be touched.
using Edit = std::function<tl::expected<std::optional<std::string>, std::string>(std::string_view)>;

enum class Outcome {
  kWritten,    // the new text is stored
  kUnchanged,  // the field was right already
  kFinished,   // the controller has no such running job any more: the database is next
  kNotYet,     // the database has no ended row of this run yet: try again later
  kFailed,     // slurmctld or slurmdbd did not answer, or refused: try again later
  kForbidden,  // the edit said that the field must not be touched
};

// `why` (not null) gets what went wrong for kFailed and kForbidden. Both calls may block for
// Slurm's message timeout.
Outcome edit_in_controller(const StepPlan& plan, const Edit& edit, std::string* why);
// Writes only to a row that has ended: before, the controller's own completion record overwrites
// it.
Outcome edit_in_database(const StepPlan& plan, const Edit& edit, std::string* why);

// Whether the cluster keeps its jobs in slurmdbd: without, a line ends with its job. True when
// slurmctld does not say.
bool has_database();

// How often the job has been requeued; nothing when slurmctld does not say.
std::optional<uint32_t> restart_count(uint32_t job);

// When the run of the job that the step was of ended; nothing when it lives, or nobody says.
std::optional<uint64_t> job_end_ns(const StepPlan& plan);

// Whether slurmctld still knows the step as running. True when it cannot be asked.
bool step_runs(const StepPlan& plan);

// The step's first node by name, and the address to reach it: NodeName if it resolves, else
// NodeAddr as the controller knows it. Empty when unknown.
std::string first_node(const std::string& node_list);
std::string node_address(const std::string& node);

}  // namespace mfu::accounting

#endif
