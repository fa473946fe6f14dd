#include "topology/child_output.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mfu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kReapLimit{200};

// posix_spawn does not copy our memory, and runs nothing of ours in the child: no lock that another
// thread holds can stop it.
int spawn(const std::vector<std::string>& command, int output, pid_t* child) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char locale[] = "LC_ALL=C";
  char* environment[] = {path, locale, nullptr};

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
#endif
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error =
      posix_spawn(child, command[0].c_str(), &files, &attributes, arguments.data(), environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

enum class End { kClosed, kLate, kTooMuch, kFailed };

End read_until(int file, Clock::time_point deadline, size_t most, std::string* text) {
  char block[65536];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return End::kLate;
    pollfd ready = {file, POLLIN, 0};
    const int answer = poll(&ready, 1, static_cast<int>(left));
    if (answer < 0 && errno != EINTR) return End::kFailed;
    if (answer <= 0) continue;
    const ssize_t bytes = read(file, block, sizeof block);
    if (bytes == 0) return End::kClosed;
    if (bytes < 0 && errno != EINTR) return End::kFailed;
    if (bytes > 0) text->append(block, static_cast<size_t>(bytes));
    if (text->size() > most) return End::kTooMuch;
  }
}

// Its status; -1 when somebody else reaped it, -2 when it is still there at the deadline.
int reap(pid_t child, Clock::time_point deadline) {
  for (;;) {
    int status = 0;
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child) return status;
    if (done < 0 && errno != EINTR) return -1;
    if (Clock::now() >= deadline) return -2;
    usleep(1000);
  }
}

}  // namespace

tl::expected<std::string, std::string> child_output(const std::vector<std::string>& command,
                                                    std::chrono::milliseconds limit, size_t most) {
  auto failed = [&command](const std::string& reason) {
    return tl::make_unexpected((command.empty() ? "no command" : command[0]) + ": " + reason);
  };
  if (command.empty()) return failed("nothing to run");
  const Clock::time_point deadline = Clock::now() + limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed(std::strerror(errno));
  pid_t child = -1;
  const int error = spawn(command, ends[1], &child);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return failed(std::strerror(error));
  }
  std::string text;
  const End end = read_until(ends[0], deadline, most, &text);
  close(ends[0]);
  int status = end == End::kClosed ? reap(child, deadline) : -2;
  if (status == -2) {
    // Not reaped, so its number is still its own.
    kill(-child, SIGKILL);
    status = reap(child, Clock::now() + kReapLimit);
    if (end == End::kTooMuch) return failed("prints more than " + std::to_string(most) + " bytes");
    if (end == End::kFailed) return failed("its output cannot be read");
    return failed("not done after " + std::to_string(limit.count()) + " ms");
  }
  if (status == -1 || status == 0) return text;  // a stranger reaped it: judge it by what it said
  if (WIFSIGNALED(status)) return failed("ended by signal " + std::to_string(WTERMSIG(status)));
  return failed("ended with exit code " + std::to_string(WEXITSTATUS(status)));
}

}  // namespace mfu
