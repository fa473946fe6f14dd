// Jobs added up by user, account, day, ...: the figures of a whole cluster's accounting.
//
// A figure is of the runs that it is known for, weighted by what they could have done in their GPU
// time, and has beside it the share of the group's allocated GPU time that it is of. What is not
// known is never taken for 0, nor for anything else.
#ifndef MFU_PLUGIN_REPORT_GROUPS_HH_
#define MFU_PLUGIN_REPORT_GROUPS_HH_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "plugin/comment.hh"
#include "plugin/job_list.hh"

namespace mfu {

// In the order of the columns. Times are those of a run's end, local time; weeks are ISO 8601's.
enum class GroupBy : uint8_t { kUser, kAccount, kPartition, kCluster, kGpu, kMonth, kWeek, kDay };
inline constexpr size_t kGroupBys = 8;
// "user", "account", ...
const char* group_name(GroupBy by);
constexpr bool is_period(GroupBy by) {
  return by >= GroupBy::kMonth;
}
// "user,month": names with commas between, none twice.
tl::expected<std::vector<GroupBy>, std::string> parse_groups(std::string_view text);

// Sums of runs. Times are GPU-nanoseconds. A run counts with its allocated time at most: where its
// job steps shared GPUs (--overlap) and tell of more, its sums are made smaller by as much.
struct GroupSums {
  uint64_t jobs = 0;
  uint64_t runs = 0;
  uint128 allocated_ns = 0;  // GPUs x elapsed time, by the accounting database

  // Of the runs that have an MFU: figures() of their lines.
  uint128 model_flops = 0;
  uint128 capacity_flop = 0;
  uint128 mfu_ns = 0;      // Sums::flops_ns: the time that their MFU is of
  double peak_ns = 0;      // of it, what the model FLOPs would have taken at the full peak
  uint32_t bases = 0;      // 1 << Basis, of all of them
  bool estimated = false;  // of some the peak is an upper bound, not a device's published rate

  // Of the runs that have an HFU.
  uint128 executed_flops = 0;
  uint128 executed_capacity_flop = 0;
  uint128 hfu_ns = 0;

  // Of the time that was observed: Sums::attributed_ns without lost_ns. Idle time is that without
  // the lost time, in which kernels ran unseen.
  uint128 observed_ns = 0;
  uint128 compute_ns = 0;
  uint128 exposed_communication_ns = 0;
  uint128 idle_ns = 0;

  // Of the runs whose goodput is known, time outside of job steps included.
  uint128 productive_ns = 0;
  uint128 goodput_ns = 0;

  uint128 energy_j = 0;
  uint128 energy_ms = 0;

  // Allocated, and no kernel and no copy ran: idle_ns and the time in which no job step ran. How
  // much of the unknown time is wasted nobody knows: runs without a line, job steps that were not
  // observed, all of a run whose job steps shared GPUs. wasted + used + unknown = allocated.
  uint128 wasted_ns = 0;
  uint128 unknown_ns = 0;

  GroupSums& operator+=(const GroupSums& other);

  // Negative: not known for any of the time.
  double mfu() const;
  double hfu() const;
  double compute() const;
  double exposed_communication() const;
  double idle() const;
  double goodput() const;
  // Share of the allocated time.
  double of_allocated(uint128 ns) const;
  // "gemm", "gemm+model(estimated-peak)"; empty without an MFU.
  std::string bases_text() const;
};

// What one run adds. `jobs` is 1 in the first run of a job.
struct RunShare {
  const Job& run;
  uint64_t job;     // a number for each job
  std::string gpu;  // short device name; empty: not known
  GroupSums sums;
};
// The runs of one job, those that had GPUs for a time. A line that Slurm handed on to a later run
// counts once. `job`: a number that no other job has.
void read_shares(std::span<const Job> runs, uint64_t job,
                 const std::function<void(const RunShare&)>& visit);

struct Group {
  std::vector<std::string> key;  // texts of others as they are; "running": has not ended
  GroupSums sums;
  uint64_t last_job = UINT64_MAX;
};

class Groups {
 public:
  explicit Groups(std::vector<GroupBy> by) : by_(std::move(by)) {}

  void add(const RunShare& share);
  const std::vector<GroupBy>& by() const { return by_; }
  // By time where that is part of the key, else by GPU time, the largest first.
  std::vector<const Group*> ordered() const;

 private:
  std::vector<GroupBy> by_;
  std::vector<Group> groups_;
  std::unordered_map<std::string, size_t> places_;  // key's texts with a 0 byte behind each
  std::string key_;
};

// The same jobs grouped in several ways at once, and all of them together.
class Groupings {
 public:
  explicit Groupings(const std::vector<std::vector<GroupBy>>& ways);

  // All runs of a job. `visit`: sees what each of them adds.
  void add(std::span<const Job> runs, const std::function<void(const RunShare&)>& visit = {});
  const Groups& operator[](size_t way) const { return ways_[way]; }
  const GroupSums& total() const { return total_; }
  // Jobs that had no GPUs, or these for no time.
  uint64_t left_out() const { return jobs_ - total_.jobs; }

 private:
  std::vector<Groups> ways_;
  GroupSums total_;
  uint64_t jobs_ = 0;
};

}  // namespace mfu

#endif
