// Jobs out of Slurm's accounting database (slurmdbd). The only place of mfu-report that talks to
// Slurm.
#ifndef MFU_PLUGIN_JOB_HISTORY_HH_
#define MFU_PLUGIN_JOB_HISTORY_HH_

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "plugin/job_list.hh"
#include "plugin/options.hh"

namespace mfu {

// Which jobs. An empty list does not restrict.
struct JobFilter {
  std::string cluster;  // empty: slurm.conf's
  std::vector<JobId> jobs;
  std::vector<std::string> users;  // names or uids
  std::vector<std::string> accounts;
  std::vector<std::string> partitions;
  std::vector<std::string> states;  // as sacct writes them, long or short; with whole_jobs those of
                                    // a job's last run
  std::string from;         // sacct's forms; empty: 00:00 today, or ever when jobs are named
  std::string until;        // empty: now
  bool duplicates = false;  // also the earlier runs of requeued jobs
  bool whole_jobs = false;  // the same, and a job that fits with all its runs in that time
  Field field = Field::kAdminComment;
};

struct HistoryError {
  bool in_filter = false;  // the user asked for what does not exist; else Slurm did not answer
  std::string what;
};

// In the order of job ids, array tasks and runs. The field of a job that still runs is the
// controller's, as far as that can be asked; the database gets it when the job ends. Slurm's
// configuration is read on the first call; where it finds none, libslurm ends the process with a
// message and exit code 1. Errors say what does not exist or cannot be reached.
tl::expected<std::vector<Job>, HistoryError> read_jobs(const JobFilter& filter);

}  // namespace mfu

#endif
