// A munged with a key of its own, and free ports: for programs in which collectors talk.
#ifndef MFU_TESTS_UNIT_PRIVATE_MUNGED_HH_
#define MFU_TESTS_UNIT_PRIVATE_MUNGED_HH_

#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ranges>
#include <string>

namespace mfu {

// Runs for the object's life, in a folder of its own.
class PrivateMunged {
 public:
  // Needs root and the user munge; runs() tells.
  PrivateMunged() {
    const passwd* user = getpwnam("munge");
    if (geteuid() != 0 || user == nullptr || mkdtemp(folder_) == nullptr) return;
    const std::string key = file("key");
    // The same for all of a program, and nobody else's.
    std::ofstream(key) << std::string(128, 'k') << getpid();
    for (const std::string& path : {std::string(folder_), key}) {
      if (chown(path.c_str(), user->pw_uid, user->pw_gid) != 0) return;
    }
    chmod(folder_, 0711);
    chmod(key.c_str(), 0600);
    pid_ = fork();
    if (pid_ == 0) {
      const std::string options[] = {"--key-file=" + key, "--socket=" + socket(),
                                     "--pid-file=" + file("pid"), "--seed-file=" + file("seed")};
      if (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0) _exit(1);
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // which setuid would undo
      const int log = open(file("log").c_str(), O_CREAT | O_WRONLY, 0600);
      dup2(log, 1);
      dup2(log, 2);
      execlp("munged", "munged", "--foreground", "--num-threads=2", options[0].c_str(),
             options[1].c_str(), options[2].c_str(), options[3].c_str(), nullptr);
      _exit(127);
    }
    // The socket's file is there before anybody listens on it.
    for (int i = 0; i < 3000 && !is_ended() && !listens(); ++i) usleep(20'000);
  }
  ~PrivateMunged() {
    if (pid_ > 0) {
      kill(pid_, SIGTERM);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  PrivateMunged(const PrivateMunged&) = delete;
  PrivateMunged& operator=(const PrivateMunged&) = delete;
  bool runs() const { return pid_ > 0 && listens(); }
  std::string socket() const { return file("socket"); }

 private:
  bool is_ended() const {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           ended.si_pid != 0;
  }
  bool listens() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    return connected;
  }
  std::string file(const std::string& name) const { return std::string(folder_) + "/" + name; }
  char folder_[64] = "/tmp/mfu-munge.XXXXXX";
  pid_t pid_ = -1;
};

inline bool is_free(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return bound;
}

// The first of 16 ports that nobody uses right now. Below the range from which the kernel takes the
// ports of outgoing connections: one of those, even one that has ended, would keep a test from its
// own.
inline uint16_t free_ports() {
  static uint16_t next = static_cast<uint16_t>(10'000 + getpid() % 500 * 32);
  for (;;) {
    next = static_cast<uint16_t>(next + 32);
    if (std::ranges::all_of(std::views::iota(0, 16),
                            [](int i) { return is_free(static_cast<uint16_t>(next + i)); })) {
      return next;
    }
  }
}

}  // namespace mfu

#endif
