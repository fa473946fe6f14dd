// Jobs for tests of mfu-report, and what it says of them.
#ifndef MFU_TESTS_UNIT_REPORT_SAMPLES_HH_
#define MFU_TESTS_UNIT_REPORT_SAMPLES_HH_

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plugin/job_report.hh"

namespace mfu {

inline Job job_of(std::string id, uint64_t gpus, uint64_t seconds, std::string comment) {
  Job job;
  job.id = std::move(id);
  job.name = "train";
  job.user = "alice";
  job.account = "ml";
  job.partition = "gpu";
  job.state = "COMPLETED";
  job.cluster = "here";
  job.start = 1700000000;
  job.end = 1700000000 + static_cast<time_t>(seconds);
  job.elapsed_seconds = seconds;
  job.nodes = 1;
  job.gpus = gpus;
  job.comment = std::move(comment);
  return job;
}

inline std::string line_of_step(const Comment& step) {
  Comment job;
  merge_step(&job, step, 0);
  return format_comment(job);
}

// What the report that `make` makes on a stream says of jobs.
inline std::string text_of(std::span<const Job> jobs,
                           const std::function<std::unique_ptr<Report>(std::ostream&)>& make) {
  std::ostringstream out;
  const std::unique_ptr<Report> report = make(out);
  while (!jobs.empty()) {
    const size_t runs = runs_at_front(jobs);
    report->add(jobs.first(runs));
    jobs = jobs.subspan(runs);
  }
  report->finish();
  return out.str();
}

inline std::string table_of(const std::vector<Job>& jobs, const TableStyle& style = {}) {
  return text_of(jobs, [&](std::ostream& out) { return make_table(out, style); });
}

inline nlohmann::json json_of(const std::vector<Job>& jobs, const TableStyle& style = {}) {
  return nlohmann::json::parse(
      text_of(jobs, [&](std::ostream& out) { return make_json(out, "admin_comment", style); }));
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace mfu

#endif
