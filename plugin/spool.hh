// The spool: one folder per job step and node.
//
//   SPOOL/NODE/JOB.RESTART.STEP/          root 0711: nobody but root changes what is in it
//     plan                            root 0600: StepPlan, for a collector that has to take over
//     plan.user                       the job's user, 0400: users_view() of it, for his mfu-live;
//                                     root writes it anew, and never reads it
//     heard                           root 0600: what the first node has heard (heard_nodes.hh)
//     records/                        the job's user, 0700: the only place the user writes to
//       board, PID.N.mfu              see profiler/record.hh
//   SPOOL/NODE/lock                   a byte per job, see JobLock
//
// Everything below records/ is hostile input: opened without following links, checked to be a
// regular file of exactly the right size and owner, copied, then validated.
#ifndef MFU_PLUGIN_SPOOL_HH_
#define MFU_PLUGIN_SPOOL_HH_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "plugin/step_plan.hh"
#include "profiler/record.hh"

namespace mfu {

// Where the step's folder would be. Pure: the task computes the same path as slurmstepd.
std::string step_folder(const StepPlan& plan);
std::string records_folder(std::string_view step_folder);

// Creates plan.folder's records/ and board for plan.uid and gid, with their blocks allocated. An
// error is a reason as it stands in the line: "spool:" and the errno's name, e.g. "spool:enospc".
tl::expected<void, std::string> create_spool(const StepPlan& plan, uint32_t gid);

// Keeps the plan for a takeover and for mfu-live, or replaces an earlier one. Failing is not fatal.
void store_plan(const StepPlan& plan);
// What lies in a step's folder; nothing where it is missing, torn or closed to the caller. The
// second one's is his own step's: for others, root among them, there is none.
std::optional<StepPlan> read_plan(const std::string& step_folder);
std::optional<StepPlan> read_users_plan(const std::string& step_folder);
// The plans of steps on this node that nobody has removed yet: of running steps, and of those whose
// line could not be written.
std::vector<StepPlan> left_plans(const std::string& spool, const std::string& node);

// How many there are, of steps that run and of those that have ended.
size_t count_steps(const StepPlan& plan);

struct SpoolRecords {
  std::vector<Record> records;
  uint32_t broken = 0;        // files that are no sound record
  uint32_t record_errno = 0;  // the board's first entry; 0: none
};
SpoolRecords read_records(const StepPlan& plan);

// Removes the step's folder, unless a later run of the job has taken it over.
void remove_spool(const StepPlan& plan);

// A collector's claim to a step's folder, for its life: who finds it taken leaves the step alone.
class FolderClaim {
 public:
  // Waits at most so long for whoever only looks whether it is taken.
  explicit FolderClaim(const StepPlan& plan, int milliseconds = 0);
  ~FolderClaim();
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Serialises the collectors of one job on one node; released by the destructor. Waits at most
// `milliseconds`; going on without the lock is safe, only slower (lost updates are repeated).
class JobLock {
 public:
  JobLock(const StepPlan& plan, int milliseconds);
  ~JobLock();
  JobLock(const JobLock&) = delete;
  JobLock& operator=(const JobLock&) = delete;

 private:
  int fd_ = -1;
};

// "enospc" for ENOSPC: lower case, for reasons in the line. "errno-N" for what has no short name.
std::string errno_name(int error);

}  // namespace mfu

#endif
