// The audit of a step's tasks on one node, as its collector does it: once at the step's begin, and
// at its end what only the end tells.
#ifndef MFU_PLUGIN_TASK_AUDIT_HH_
#define MFU_PLUGIN_TASK_AUDIT_HH_

#include <span>

#include "plugin/node_findings.hh"
#include "plugin/node_sums.hh"
#include "plugin/placement.hh"
#include "plugin/step_log.hh"
#include "plugin/step_plan.hh"
#include "profiler/record.hh"

namespace mfu {

class TaskAudit {
 public:
  // Both must outlive this. `holds_step_errors`: kStepErrorFd is the step's standard error.
  TaskAudit(const StepPlan& plan, StepLog* log, bool holds_step_errors);

  // Waits a moment for the tasks' notes, audits them, leaves the verdict for tasks that wait, and
  // tells the step's standard error. `link`: readable when the step has ended; -1: none.
  void run(int link);
  // Into the sums of the node. `records`: its processes', for what the end tells; `last`: it has
  // come.
  void add_to(NodeSums* sums, std::span<const Record> records, bool last);
  NodeFindings findings() const { return top_findings(audit_.findings); }

 private:
  bool is_wanted() const;
  void close_step_errors();

  const StepPlan& plan_;
  StepLog& log_;
  bool holds_step_errors_;
  PlacementAudit audit_;
  bool known_ = false;  // the audit was whole
};

}  // namespace mfu

#endif
