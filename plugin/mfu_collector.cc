// mfu-collector: collects one job step on one node, and on the step's first node writes its line.
//
//   mfu-collector --step                      started by slurmstepd, which holds the other end of
//                                             descriptor 3 (collector_link.hh)
//   mfu-collector --takeover SPOOL NODE JOB   started by the job epilog for what others left
#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "plugin/accounting.hh"
#include "plugin/collector.hh"
#include "plugin/collector_link.hh"
#include "plugin/spool.hh"
#include "plugin/step_cgroup.hh"
#include "plugin/step_plan.hh"

namespace mfu {
namespace {

int follow_step() {
  leave_step_cgroup();
  // slurmstepd waits for the ends of both: no child of ours may hold them.
  for (const int fd : {kCollectorFd, kStepErrorFd}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  char text[16384];
  ssize_t size = recv(kCollectorFd, text, sizeof(text), 0);
  if (size <= 0) return 1;
  auto plan = parse_plan({text, static_cast<size_t>(size)});
  if (!plan) {
    syslog(LOG_ERR, "%s", plan.error().c_str());
    return 1;
  }
  FolderClaim claim(*plan, 500);
  slurm_init(nullptr);
  Collector(*plan, kCollectorFd).follow();
  return 0;
}

// Whether a collector has the step's folder. Looks, and lets go at once.
bool is_followed(const StepPlan& plan) {
  return !FolderClaim(plan).held();
}

// What this job has left, and what earlier jobs have left because accounting was down at their end.
int take_over_job(const std::string& spool, const std::string& node, uint32_t job) {
  slurm_init(nullptr);
  bool accounting_is_away = false;
  for (const StepPlan& plan : left_plans(spool, node)) {
    const bool own = plan.job == job;
    // Slurm is not asked with the claim in hand: a step may begin just now, and want it.
    if (!own && (accounting_is_away || is_followed(plan) || accounting::step_runs(plan))) {
      continue;
    }
    FolderClaim claim(plan);
    // Somebody follows the step still.
    if (!claim.held()) continue;
    if (own) {
      Collector(plan, -1).take_over(kPatience);
    } else {
      // Of many that an outage has left, the first tells whether it is over.
      const bool first = plan.node_id == 0;
      if (!Collector(plan, -1).take_over(std::chrono::seconds(5))) accounting_is_away = first;
    }
  }
  return 0;
}

}  // namespace
}  // namespace mfu

int main(int argc, char* argv[]) {
  std::string mode = argc > 1 ? argv[1] : "";
  signal(SIGPIPE, SIG_IGN);  // a daemon that goes away in the middle of a message
  openlog("mfu-collector", LOG_PID, LOG_DAEMON);
  umask(077);
  try {
    if (mode == "--version") {
      std::printf("mfu-collector %s\n", MFU_VERSION);
      return 0;
    }
    if (mode == "--step" && argc == 2) return mfu::follow_step();
    if (mode == "--takeover" && argc == 5) {
      return mfu::take_over_job(argv[2], argv[3],
                                static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)));
    }
  } catch (const std::exception& error) {
    syslog(LOG_ERR, "%s", error.what());
    return 1;
  }
  std::fprintf(stderr,
               "usage: mfu-collector --version\n"
               "Started by spank_mfu.so, not by hand; see spank_mfu(8).\n");
  return 2;
}
