// What a step's collector tells the administrator: into the site's log file, or to syslog.
#ifndef MFU_PLUGIN_STEP_LOG_HH_
#define MFU_PLUGIN_STEP_LOG_HH_

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "plugin/step_plan.hh"

namespace mfu {

class StepLog {
 public:
  // Of one format so many different texts are told: trouble is told once, not once a second, and
  // not as often as a user makes it look different.
  static constexpr size_t kMostTexts = 3;

  // `plan` must outlive this.
  explicit StepLog(const StepPlan& plan) : plan_(plan) {}
  // `format` must be a literal.
  void report(const char* format, ...) __attribute__((format(printf, 2, 3)));

 private:
  const StepPlan& plan_;
  std::map<const char*, std::set<std::string>> told_;  // by format
};

}  // namespace mfu

#endif
