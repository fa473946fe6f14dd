#include "plugin/step_cgroup.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace mfu {

std::vector<std::string> groups_outside(std::string_view own_groups) {
  constexpr std::string_view kMount = "/sys/fs/cgroup";
  std::vector<std::string> files;
  while (!own_groups.empty()) {
    // "0::/system.slice/slurmstepd.scope/job_7/step_0/slurm", "4:cpu,cpuacct:/slurm/uid_0/job_7"
    std::string_view line = own_groups.substr(0, own_groups.find('\n'));
    own_groups.remove_prefix(std::min(own_groups.size(), line.size() + 1));
    size_t first = line.find(':');
    size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    size_t job = path.find("/job_");
    if (job == path.npos) continue;
    std::string file(kMount);
    if (controllers.empty()) {
      file.append(path.substr(0, job)).append("/system");
    } else {
      file.append("/").append(controllers);
    }
    files.push_back(file + "/cgroup.procs");
  }
  return files;
}

void leave_step_cgroup() {
  std::ifstream in("/proc/self/cgroup");
  std::string own_groups{std::istreambuf_iterator<char>(in), {}};
  for (const std::string& path : groups_outside(own_groups)) {
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) continue;
    // "0" is the writer itself. Nothing to do about a failure.
    [[maybe_unused]] ssize_t written = write(fd, "0", 1);
    close(fd);
  }
}

}  // namespace mfu
