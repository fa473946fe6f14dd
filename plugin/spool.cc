#include "plugin/spool.hh"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

#include "plugin/node_sums.hh"
#include "topology/whole_file.hh"

namespace mfu {
namespace {

// A user may fill the folder with files of any kind: reading stops here, and removing after this
// time.
constexpr int kMostEntries = 4 * kMostRecords;
constexpr auto kRemovalTime = std::chrono::minutes(5);

constexpr char kPlanName[] = "plan";
constexpr char kUsersPlanName[] = "plan.user";
constexpr size_t kMostPlan = 16384;
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Creates a folder that only root can write to, or accepts one that is so already.
bool root_folder(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) == 0) return chmod(path.c_str(), mode) == 0;
  if (errno != EEXIST) return false;
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return false;
  if (!S_ISDIR(status.st_mode)) {
    errno = ENOTDIR;
    return false;
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    errno = EPERM;
    return false;
  }
  return true;
}

bool create_board(const std::string& folder, uint32_t uid, uint32_t gid) {
  std::string path = folder + "/" + kBoardName;
  Descriptor board(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!board) return false;
  if (int error = posix_fallocate(board.get(), 0, kBoardSize); error != 0) {
    errno = error;
    return false;
  }
  // posix_fallocate may be emulated or lazy: what counts is that a byte can be written.
  unsigned char zeros[kBoardSize] = {};
  if (pwrite(board.get(), zeros, sizeof(zeros), 0) != static_cast<ssize_t>(sizeof(zeros))) {
    if (errno == 0) errno = ENOSPC;
    return false;
  }
  return fchown(board.get(), uid, gid) == 0;
}

// Reads exactly `size` bytes of a regular file of exactly that size and owner.
bool read_exact(int folder, const char* name, uint32_t uid, unsigned char* out, size_t size) {
  // O_NONBLOCK: a FIFO must not hang us.
  Descriptor file(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  return file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_uid == uid && status.st_nlink == 1 &&
         status.st_size == static_cast<off_t>(size) &&
         pread(file.get(), out, size, 0) == static_cast<ssize_t>(size);
}

// Calls `visit` with every name in `folder`.
template <typename Visit>
void each_name(int folder, Visit&& visit) {
  int copy = openat(folder, ".", kFolder);
  std::unique_ptr<DIR, int (*)(DIR*)> listing(copy < 0 ? nullptr : fdopendir(copy), closedir);
  if (listing == nullptr) {
    if (copy >= 0) close(copy);
    return;
  }
  while (const dirent* entry = readdir(listing.get())) {
    std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !visit(entry->d_name)) return;
  }
}

// Removes all but the plan from a step's folder. Below it a hostile user may have nested folders
// deeper than there are descriptors, and may be adding to them right now: so nothing is entered by
// its path or recursively. A folder is taken from its user, and the folders in it are moved up
// here.
void empty_folder(int top, std::chrono::steady_clock::time_point deadline) {
  uint64_t moved = 0;
  auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  for (bool again = true; again;) {
    again = false;
    each_name(top, [&](const char* name) {
      if (name == std::string_view(kPlanName) || unlinkat(top, name, 0) == 0) return in_time();
      Descriptor folder(openat(top, name, kFolder));
      // His processes may still write to it, others' too if he let them.
      if (!folder || fchown(folder.get(), 0, 0) != 0 || fchmod(folder.get(), 0700) != 0) {
        return in_time();
      }
      each_name(folder.get(), [&](const char* inner) {
        if (unlinkat(folder.get(), inner, 0) == 0) return in_time();
        std::string here = "moved." + std::to_string(++moved);
        if (renameat(folder.get(), inner, top, here.c_str()) == 0) again = true;
        return in_time();
      });
      unlinkat(top, name, AT_REMOVEDIR);
      return in_time();
    });
    again = again && in_time();
  }
}

// Of a regular file of this owner, who can have changed his own.
std::optional<StepPlan> read_plan_of(const std::string& path, uint32_t owner) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != owner) {
    return std::nullopt;
  }
  char text[kMostPlan];
  const ssize_t size = read(file.get(), text, sizeof(text));
  if (size <= 0) return std::nullopt;
  auto plan = parse_plan({text, static_cast<size_t>(size)});
  return plan ? std::optional<StepPlan>(*plan) : std::nullopt;
}

}  // namespace

std::string step_folder(const StepPlan& plan) {
  return plan.site.spool + "/" + plan.node + "/" + std::to_string(plan.job) + "." +
         std::to_string(plan.restart) + "." + std::to_string(plan.step);
}

std::string records_folder(std::string_view step_folder) {
  return std::string(step_folder) + "/records";
}

tl::expected<void, std::string> create_spool(const StepPlan& plan, uint32_t gid) {
  auto failed = [] { return tl::make_unexpected("spool:" + errno_name(errno)); };
  std::string node_folder = plan.site.spool + "/" + plan.node;
  std::string records = records_folder(plan.folder);
  if (!root_folder(plan.site.spool, 0755) || !root_folder(node_folder, 0755) ||
      !root_folder(plan.folder, 0711)) {
    return failed();
  }
  if (mkdir(records.c_str(), 0700) != 0) {
    // What a step of the same number left in an earlier run of the job. Only put aside: its user
    // may have filled it with millions of files, and slurmstepd waits for us. The collector removes
    // it.
    if (errno != EEXIST) return failed();
    std::string aside = plan.folder + "/earlier." + std::to_string(plan.started_ns);
    if (rename(records.c_str(), aside.c_str()) != 0) return failed();
    if (mkdir(records.c_str(), 0700) != 0) return failed();
  }
  if (!create_board(records, plan.uid, gid)) return failed();
  if (lchown(records.c_str(), plan.uid, gid) != 0) return failed();
  return {};
}

void store_plan(const StepPlan& plan) {
  if (plan.folder.empty()) return;
  // An earlier run's must not stay: its line would be written once more. What this run has stored
  // before is better than nothing.
  const auto drop_earlier = [&](const std::string& path, uint32_t owner) {
    const auto stored = read_plan_of(path, owner);
    if (!stored || stored->started_ns != plan.started_ns) unlink(path.c_str());
  };
  const std::string path = plan.folder + "/" + kPlanName;
  if (!write_whole_file(path, format_plan(plan), Kept::kInMemory, 0600).empty()) {
    drop_earlier(path, 0);
  }
  // Not the group's: users of one group are strangers to each other.
  const std::string users = plan.folder + "/" + kUsersPlanName;
  const std::string view = format_plan(users_view(plan));
  if (!write_whole_file(users, view, Kept::kInMemory, 0400, {plan.uid, plan.gid}).empty()) {
    drop_earlier(users, plan.uid);
  }
}

std::optional<StepPlan> read_plan(const std::string& step_folder) {
  return read_plan_of(step_folder + "/" + kPlanName, 0);
}

std::optional<StepPlan> read_users_plan(const std::string& step_folder) {
  auto plan = read_plan_of(step_folder + "/" + kUsersPlanName, geteuid());
  return plan && plan->uid == geteuid() ? plan : std::nullopt;
}

std::vector<StepPlan> left_plans(const std::string& spool, const std::string& node) {
  std::vector<StepPlan> plans;
  std::string folder = spool + "/" + node;
  std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (listing == nullptr) return plans;
  while (const dirent* entry = readdir(listing.get())) {
    if (auto plan = read_plan(folder + "/" + entry->d_name)) plans.push_back(*plan);
  }
  return plans;
}

size_t count_steps(const StepPlan& plan) {
  Descriptor folder(open((plan.site.spool + "/" + plan.node).c_str(), kFolder));
  size_t count = 0;
  if (!folder) return count;
  each_name(folder.get(), [&](const char* name) {
    struct stat status;
    count +=
        fstatat(folder.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
    return true;
  });
  return count;
}

SpoolRecords read_records(const StepPlan& plan) {
  SpoolRecords result;
  if (plan.folder.empty()) return result;
  std::string path = records_folder(plan.folder);
  int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return result;
  std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(folder), closedir);
  if (listing == nullptr) {
    close(folder);
    return result;
  }
  for (int i = 0; i < kMostEntries && result.records.size() < kMostRecords; ++i) {
    const dirent* entry = readdir(listing.get());
    if (entry == nullptr) break;
    std::string_view name = entry->d_name;
    if (name == kBoardName) {
      unsigned char board[kBoardSize];
      if (!read_exact(folder, kBoardName, plan.uid, board, sizeof(board))) continue;
      for (uint32_t error = 1; error < kBoardSize && result.record_errno == 0; ++error) {
        if (board[error] == 1) result.record_errno = error;
      }
    }
    if (!name.ends_with(kRecordSuffix)) continue;
    unsigned char file[kRecordFileSize];
    Record record;
    if (read_exact(folder, entry->d_name, plan.uid, file, sizeof(file)) &&
        newest_record(file, &record)) {
      result.records.push_back(record);
    } else {
      ++result.broken;
    }
  }
  return result;
}

void remove_spool(const StepPlan& plan) {
  if (plan.folder.empty()) return;
  // A step of the same number in a later run of the job may have taken the folder over.
  auto stored = read_plan(plan.folder);
  if (stored && stored->started_ns != plan.started_ns) return;
  Descriptor folder(open(plan.folder.c_str(), kFolder));
  if (!folder) return;
  empty_folder(folder.get(), std::chrono::steady_clock::now() + kRemovalTime);
  // The plan goes last, so that the job epilog finds once more what could not be removed.
  bool empty = true;
  each_name(folder.get(),
            [&](const char* name) { return empty = name == std::string_view(kPlanName); });
  if (!empty) return;
  unlinkat(folder.get(), kPlanName, 0);
  rmdir(plan.folder.c_str());
}

FolderClaim::FolderClaim(const StepPlan& plan, int milliseconds) {
  if (plan.folder.empty()) return;
  fd_ = open(plan.folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  for (int waited = 0; fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0; waited += 5) {
    if (waited >= milliseconds) {
      close(fd_);
      fd_ = -1;
      break;
    }
    usleep(5000);
  }
}

FolderClaim::~FolderClaim() {
  if (fd_ >= 0) close(fd_);
}

JobLock::JobLock(const StepPlan& plan, int milliseconds) {
  // One file for all jobs of the node, one byte of it per job: nothing to clean up. Locks of the
  // open file description, not of the process, so that they end with the descriptor alone.
  std::string path = plan.site.spool + "/" + plan.node + "/lock";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd_ < 0) return;
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = plan.job;
  range.l_len = 1;
  for (int waited = 0; fcntl(fd_, F_OFD_SETLK, &range) != 0 && waited < milliseconds; waited += 5) {
    usleep(5000);
  }
}

JobLock::~JobLock() {
  if (fd_ >= 0) close(fd_);
}

std::string errno_name(int error) {
  const char* name = strerrorname_np(error);
  if (name == nullptr) return "errno-" + std::to_string(error);
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(c | 0x20); });
  return lower;
}

}  // namespace mfu
