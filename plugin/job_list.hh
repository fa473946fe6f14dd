// A job as the accounting database knows it, and how a user names jobs.
#ifndef MFU_PLUGIN_JOB_LIST_HH_
#define MFU_PLUGIN_JOB_LIST_HH_

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace mfu {

struct Job {
  std::string id;  // "12", array task "12_3", part of a heterogeneous job "12+0"
  std::string name;
  std::string user;
  std::string account;
  std::string partition;
  std::string state;
  std::string cluster;
  time_t start = 0;  // 0: not yet
  time_t end = 0;    // 0: not yet
  uint64_t elapsed_seconds = 0;
  uint32_t nodes = 0;
  uint64_t gpus = 0;    // allocated
  std::string comment;  // the whole field, anybody's text
};

// How many rows at the front are runs of one job. Rows are in the order of jobs and runs, and not
// empty.
size_t runs_at_front(std::span<const Job> rows);

struct JobId {
  uint32_t job = 0;
  std::optional<uint32_t> array_task;  // nothing: the job, or all tasks of the array
  bool operator==(const JobId&) const = default;
};

// "12", "12_3", "12_[1-3,7]", any of them with commas between.
tl::expected<std::vector<JobId>, std::string> parse_job_ids(std::string_view text);

}  // namespace mfu

#endif
