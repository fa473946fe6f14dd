// What mfu-report says about jobs: as a table and as JSON (mfu-report(1) documents both).
#ifndef MFU_PLUGIN_JOB_REPORT_HH_
#define MFU_PLUGIN_JOB_REPORT_HH_

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugin/comment.hh"
#include "plugin/job_list.hh"

namespace mfu {

// What stands in a job's field.
struct FieldReading {
  std::optional<Comment> line;
  std::string_view text;  // our line, sound or not; empty: none
  std::string fault;      // why there is no sound line; empty: there is one
};
// `field` must outlive the result.
FieldReading read_field(std::string_view field);

// Of many jobs. Times are those of the allocations in the accounting database.
struct Totals {
  uint64_t jobs = 0;
  uint64_t jobs_with_mfu = 0;
  uint128 gpu_seconds = 0;
  uint128 gpu_seconds_without_mfu = 0;  // of the jobs whose MFU is n/a
  uint128 model_flops = 0;              // of the jobs with an MFU
  uint128 capacity_flop = 0;

  void add(const Job& job, const std::optional<Comment>& line);
  // Weighted by GPU time and peak; negative when no job has an MFU.
  double mfu() const;
};

struct TableStyle {
  bool bars = false;  // cells with '|' between, nothing cut off, no totals
  bool bare = false;  // neither header nor totals
};

// Everybody's text is shown without control bytes, cut to its column's width with a '+'.
void write_table(std::ostream& out, std::span<const Job> jobs, TableStyle style);

// One object; a job a line. `field` names the accounting field that was read.
void write_json(std::ostream& out, std::span<const Job> jobs, std::string_view field);

}  // namespace mfu

#endif
