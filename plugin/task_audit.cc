#include "plugin/task_audit.hh"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "plugin/collector_link.hh"
#include "plugin/node_sensors.hh"

namespace mfu {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long tasks may take to tell their place; those that start later are not audited.
constexpr auto kNotesWait = std::chrono::seconds(2);
constexpr int kNotesPauseMs = 10;
constexpr auto kAuditLimit = milliseconds(2000);
constexpr auto kEndedAuditLimit = milliseconds(500);  // slurmstepd waits

}  // namespace

TaskAudit::TaskAudit(const StepPlan& plan, StepLog* log, bool holds_step_errors)
    : plan_(plan), log_(*log), holds_step_errors_(holds_step_errors) {}

bool TaskAudit::is_wanted() const {
  return !plan_.batch && wanted_placement(plan_.site, plan_.user) != Placement::kOff;
}

// The step's standard error ends for its reader when the last one closes it.
void TaskAudit::close_step_errors() {
  if (holds_step_errors_) close(kStepErrorFd);
  holds_step_errors_ = false;
}

// Before anything that asks Slurm: tasks may wait for the verdict, and the step's standard error is
// held open until it is told. Over when the step is.
void TaskAudit::run(int link) {
  if (!is_wanted() || plan_.folder.empty() || plan_.tasks == 0) return close_step_errors();
  const auto deadline = Clock::now() + kNotesWait;
  std::vector<TaskNote> notes;
  bool ended = false;
  while (!ended && Clock::now() < deadline) {
    notes = read_notes(plan_);
    if (notes.size() == plan_.tasks) break;
    pollfd end{link, POLLIN, 0};
    ended = poll(&end, 1, kNotesPauseMs) > 0;
  }
  if (ended) notes = read_notes(plan_);
  audit_ = audit_placement(plan_, notes, ended ? kEndedAuditLimit : kAuditLimit);
  known_ = audit_.whole();
  if (wanted_placement(plan_.site, plan_.user) == Placement::kStrict) leave_verdict(plan_, audit_);
  const std::string text = placement_text(plan_, audit_, 6).substr(0, PIPE_BUF);
  pollfd errors{kStepErrorFd, POLLOUT, 0};
  if (holds_step_errors_ && !text.empty() && poll(&errors, 1, 0) > 0 &&
      write(kStepErrorFd, text.data(), text.size()) < 0) {
    log_.report("placement: cannot tell the step: %m");
  }
  close_step_errors();
  // A line, whatever was found: users can make many findings.
  const uint32_t high = audit_.count(Severity::kHigh);
  if (!audit_.fault.empty()) {
    log_.report("placement: %s", audit_.fault.c_str());
    audit_.findings.push_back({"not-audited", Severity::kInformation, plan_.node, audit_.fault,
                               "the collector's log, on the node"});
  }
  if (high != 0) {
    log_.report("placement: %u of high severity: %s", high, audit_.rules(200).c_str());
  }
}

void TaskAudit::add_to(NodeSums* sums, std::span<const Record> records, bool last) {
  if (last && is_wanted()) {
    for (Finding& finding : link_findings(records, plan_.node)) {
      audit_.findings.push_back(std::move(finding));
    }
  }
  add_placement(audit_, known_, sums);
}

}  // namespace mfu
