// Jobs out of Slurm's accounting database (slurmdbd). The only place of mfu-report that talks to
// Slurm.
#ifndef MFU_PLUGIN_JOB_HISTORY_HH_
#define MFU_PLUGIN_JOB_HISTORY_HH_

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "plugin/job_list.hh"
#include "plugin/options.hh"

namespace mfu {

// Which jobs, with all runs that fit. An empty list does not restrict.
struct JobFilter {
  std::vector<std::string> clusters;  // empty: slurm.conf's
  std::vector<JobId> jobs;
  std::vector<std::string> users;  // names or uids
  std::vector<std::string> accounts;
  std::vector<std::string> partitions;
  std::vector<std::string> states;  // as sacct writes them, long or short; with whole_jobs those of
                                    // a job's last run
  std::string from;         // sacct's forms; empty: 00:00 today, or ever when jobs are named
  std::string until;        // empty: now
  bool whole_jobs = false;  // a job that fits with all its runs in that time
  Field field = Field::kAdminComment;
};

struct HistoryError {
  bool in_filter = false;  // the user asked for what does not exist; else Slurm did not answer
  std::string what;
};

// `runs`: all runs of a job that fit; they go when it returns. `rows`: how many runs there are of
// all jobs.
using VisitJob = std::function<void(std::span<const Job> runs, size_t rows)>;

// Visits jobs in the order of clusters, job ids, array tasks and runs; each is released by then, so
// that the memory is that of Slurm's own records. The field of a job that still runs is the
// controller's, as far as that can be asked; the database gets it when the job ends. Slurm's
// configuration is read on the first call; where it finds none, libslurm ends the process with a
// message and exit code 1. Errors say what does not exist or cannot be reached; then nothing has
// been visited.
tl::expected<void, HistoryError> read_jobs(const JobFilter& filter, const VisitJob& visit);

}  // namespace mfu

#endif
