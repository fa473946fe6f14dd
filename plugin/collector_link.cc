#include "plugin/collector_link.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace mfu {
namespace {

constexpr int kDescriptorsToClose = 8192;

// Runs `arguments` as a daemon: a grandchild in a session of its own, `link` as kCollectorFd if it
// is not negative, `errors` as kStepErrorFd (or /dev/null), every other descriptor closed
// (slurmstepd waits for the ends of its pipes).
bool spawn_detached(char* const* arguments, int link, int errors) {
  // Between fork and exec only async-signal-safe calls: slurmstepd has threads.
  pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    // The collector outlives the step: it must not keep a user's file system busy.
    if (chdir("/") != 0) _exit(127);
    // A descriptor above both first, lest dup2 finds source and target the same and keeps
    // the close-on-exec flag.
    int source = link >= 0 ? fcntl(link, F_DUPFD, kStepErrorFd + 1) : -1;
    int null = open("/dev/null", O_RDWR);
    int kept_errors = fcntl(errors >= 0 ? errors : null, F_DUPFD, kStepErrorFd + 1);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    if (source >= 0) dup2(source, kCollectorFd);
    if (source >= 0) dup2(kept_errors, kStepErrorFd);
    int first = link >= 0 ? kStepErrorFd + 1 : kCollectorFd;
    if (syscall(SYS_close_range, first, ~0U, 0) != 0) {
      // Linux before 5.9. Descriptors are handed out from below: few lie above this.
      for (int fd = first; fd < kDescriptorsToClose; ++fd) close(fd);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv(arguments[0], arguments);
    _exit(127);
  }
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return true;
}

}  // namespace

bool CollectorLink::start(const StepPlan& plan) {
  if (access(plan.site.collector.c_str(), X_OK) != 0) return false;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  std::string path = plan.site.collector;
  char option[] = "--step";
  char* arguments[] = {path.data(), option, nullptr};
  std::string text = format_plan(plan);
  // Of the first node alone: what is wrong on one is wrong on many, and each would say so.
  const Placement placement = wanted_placement(plan.site, plan.user);
  const bool tells = plan.node_id == 0 && !plan.batch && placement == Placement::kWarn;
  const int errors = tells ? STDERR_FILENO : -1;
  bool started = spawn_detached(arguments, ends[1], errors) &&
                 send(ends[0], text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                     static_cast<ssize_t>(text.size());
  close(ends[1]);
  if (!started) {
    close(ends[0]);
    return false;
  }
  fd_ = ends[0];
  return true;
}

void CollectorLink::step_ended(uint32_t failed_tasks, int milliseconds) {
  if (fd_ < 0) return;
  std::string message = kStepEnd + std::to_string(failed_tasks);
  if (send(fd_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    pollfd answer{fd_, POLLIN, 0};
    poll(&answer, 1, milliseconds);
  }
  close(fd_);
  fd_ = -1;
}

bool start_takeover(const std::string& collector, const std::string& spool, const std::string& node,
                    uint32_t job) {
  if (access(collector.c_str(), X_OK) != 0) return false;
  std::string path = collector;
  std::string option = "--takeover";
  std::string spool_copy = spool;
  std::string node_copy = node;
  std::string job_text = std::to_string(job);
  char* arguments[] = {path.data(),      option.data(),   spool_copy.data(),
                       node_copy.data(), job_text.data(), nullptr};
  return spawn_detached(arguments, -1, -1);
}

}  // namespace mfu
