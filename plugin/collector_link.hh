// slurmstepd's end of the collector: starts it, and tells it when the step ends.
//
// The collector is a process of its own so that reading hostile records, the network and waiting
// for other nodes happen outside of slurmstepd. The link is a socket pair: the collector sees it
// end when slurmstepd dies.
#ifndef MFU_PLUGIN_COLLECTOR_LINK_HH_
#define MFU_PLUGIN_COLLECTOR_LINK_HH_

#include <cstdint>
#include <string>

#include "plugin/step_plan.hh"

namespace mfu {

// The collector's side of the socket pair is this descriptor.
inline constexpr int kCollectorFd = 3;
// The step's standard error, if the collector may write to it at the step's begin; else /dev/null.
inline constexpr int kStepErrorFd = 4;
// Messages, one datagram each: the plan's text; then kStepEnd and the number of failed tasks; the
// collector answers with any datagram when slurmstepd may go on.
inline constexpr char kStepEnd[] = "end ";

class CollectorLink {
 public:
  // Starts plan.site.collector detached from slurmstepd. False with errno: the step goes on
  // without.
  bool start(const StepPlan& plan);
  // The step's last task on this node has ended. Returns when the collector has done what must be
  // done while the job lives, or after `milliseconds`.
  void step_ended(uint32_t failed_tasks, int milliseconds);
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Starts a collector for the plans that a job's ended steps have left on this node (job epilog).
bool start_takeover(const std::string& collector, const std::string& spool, const std::string& node,
                    uint32_t job);

}  // namespace mfu

#endif
