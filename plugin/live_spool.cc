#include "plugin/live_spool.hh"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "plugin/spool.hh"
#include "plugin/step_set.hh"

namespace mfu {
namespace {

constexpr size_t kMostSteps = 1024;  // of a node: far more than run at a time
constexpr uint64_t kNsPerSecond = 1'000'000'000;

// The names in a folder, hidden ones left out; nothing where it cannot be read, errno says why.
std::optional<std::vector<std::string>> names_in(const std::string& folder) {
  std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (listing == nullptr) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(listing.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Inodes that somebody holds a flock() on. Looking does not take part: trying a lock for a moment
// could make a collector believe that somebody follows the step. Nothing: this system does not
// tell.
std::optional<std::set<uint64_t>> locked_inodes() {
  std::ifstream locks("/proc/locks");
  if (!locks) return std::nullopt;
  std::set<uint64_t> inodes;
  for (std::string line; std::getline(locks, line);) {
    // 1: FLOCK  ADVISORY  WRITE 743 fe:01:131087 0 EOF
    if (line.find(" FLOCK ") == line.npos) continue;
    const size_t minor = line.rfind(':');
    if (minor == line.npos) continue;
    uint64_t inode = 0;
    std::from_chars(line.data() + minor + 1, line.data() + line.size(), inode);
    inodes.insert(inode);
  }
  return inodes;
}

std::optional<StepPlan> stored_plan(const std::string& folder) {
  auto plan = read_plan(folder);
  return plan ? plan : read_users_plan(folder);
}

bool chosen(const StepPlan& plan, std::span<const JobId> jobs) {
  return jobs.empty() || std::any_of(jobs.begin(), jobs.end(), [&](const JobId& id) {
           if (!id.array_task) return id.job == plan.job || id.job == plan.array_job;
           return plan.array_job == id.job && plan.array_task == *id.array_task;
         });
}

// What its user knows of a step without any plan (there was no room for it): the board is made with
// its folder, and nobody writes to it but to say that a record is missing.
bool complete_own(StepPlan* plan) {
  const std::string board = records_folder(plan->folder) + "/" + kBoardName;
  struct stat status;
  if (lstat(board.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  plan->uid = status.st_uid;
  plan->started_ns = static_cast<uint64_t>(status.st_mtim.tv_sec) * kNsPerSecond +
                     static_cast<uint64_t>(status.st_mtim.tv_nsec);
  return plan->uid == geteuid();
}

}  // namespace

bool parse_step_folder(std::string_view name, StepPlan* plan) {
  const char* at = name.data();
  const char* end = at + name.size();
  for (uint32_t* number : {&plan->job, &plan->restart, &plan->step}) {
    if (number != &plan->job && (at == end || *at++ != '.')) return false;
    const auto [rest, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || rest == at) return false;
    at = rest;
  }
  return at == end;
}

RunningSteps running_steps(const std::string& spool, const std::string& node,
                           std::span<const JobId> jobs) {
  RunningSteps found;
  auto nodes = node.empty() ? names_in(spool) : std::vector<std::string>{node};
  const auto unread = [&](const std::string& path) {
    if (errno == ENOENT) {
      found.missing = path;
    } else {
      found.fault = path + ": " + std::strerror(errno);
    }
  };
  if (!nodes) {
    unread(spool);
    return found;
  }
  const auto locked = locked_inodes();
  for (const std::string& name : *nodes) {
    const std::string folder = spool + "/" + name;
    const auto names = names_in(folder);
    if (!names) {
      if (!node.empty()) unread(folder);
      continue;
    }
    for (const std::string& step : *names) {
      RunningStep running;
      StepPlan& plan = running.plan;
      struct stat status;
      const std::string path = folder + "/" + step;
      if (!parse_step_folder(step, &plan) || lstat(path.c_str(), &status) != 0) continue;
      if (!S_ISDIR(status.st_mode) || (locked && !locked->contains(status.st_ino))) continue;
      plan.node = name;
      plan.folder = path;
      if (auto stored = stored_plan(path)) {
        // The spool may have been mounted elsewhere since.
        stored->node = name;
        stored->folder = path;
        plan = std::move(*stored);
        running.planned = true;
      } else {
        plan.site.spool = spool;
      }
      if (!chosen(plan, jobs) || found.steps.size() >= kMostSteps) continue;
      if (running.planned || complete_own(&plan)) {
        found.steps.push_back(std::move(running));
      } else if (!leaves_work_to_steps(plan.step)) {
        ++found.closed;
      }
    }
  }
  std::stable_sort(found.steps.begin(), found.steps.end(),
                   [](const RunningStep& a, const RunningStep& b) {
                     return std::tie(a.plan.job, a.plan.step) < std::tie(b.plan.job, b.plan.step);
                   });
  return found;
}

}  // namespace mfu
