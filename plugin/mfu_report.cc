// mfu-report: the GPU efficiency of jobs, out of Slurm's accounting.
#include <unistd.h>

#include <boost/program_options.hpp>
#include <iostream>

#include "plugin/job_history.hh"
#include "plugin/job_report.hh"

namespace {

namespace options = boost::program_options;
using Words = std::vector<std::string>;

constexpr int kNothing = 1;
constexpr int kUsage = 2;

options::options_description described_options() {
  options::options_description which("Which jobs (lists with commas, or the option several times)");
  which.add_options()                                                                       //
      ("jobs,j", options::value<Words>(), "job ids: 12, array tasks 12_3 or 12_[1-3,7]")    //
      ("user,u", options::value<Words>(), "of these users (default: your own; root: all)")  //
      ("all-users,a", "of all users, as far as Slurm's PrivateData allows")                 //
      ("account,A", options::value<Words>(), "of these accounts")                           //
      ("partition,r", options::value<Words>(), "in these partitions")                       //
      ("state,s", options::value<Words>(), "in these states, e.g. COMPLETED or CD")         //
      ("starttime,S", options::value<std::string>(),
       "running after this time: YYYY-MM-DD[THH:MM[:SS]], HH:MM, now-2hours, ... (default: 00:00 "
       "today; with --jobs: ever)")                                                            //
      ("endtime,E", options::value<std::string>(), "running before this time (default: now)")  //
      ("duplicates,D", "also the earlier runs of requeued jobs")                               //
      ("cluster,M", options::value<std::string>(), "of this cluster (default: slurm.conf's)");
  options::options_description how("Output");
  how.add_options()  //
      ("field", options::value<std::string>()->default_value("admin_comment"),
       "where the lines are: admin_comment or comment")  //
      ("goodput",
       "a job a line over all its runs: what its allocated GPU time went into (implies "
       "--duplicates)")  //
      ("placement",
       "what audits of placement found in each job and what mends it, instead of the table")  //
      ("format,o", options::value<Words>(),
       "these columns, e.g. jobid,mfu,hfu,power or name%30 (cut off beyond 30 bytes)")  //
      ("helpformat,e", "the columns that there are")                                    //
      ("json", "one JSON object, a job a line")                                         //
      ("parsable,P", "cells with '|' between, nothing cut off")                         //
      ("no-header,n", "neither header nor totals")                                      //
      ("help,h", "this text")                                                           //
      ("version,V", "the version");
  which.add(how);
  return which;
}

// Options that take a list: given several times, or with commas.
Words words(const options::variables_map& given, const char* name) {
  Words result;
  if (given.count(name) == 0) return result;
  for (const std::string& text : given[name].as<Words>()) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      if (end > at) result.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return result;
}

std::string word(const options::variables_map& given, const char* name) {
  return given.count(name) == 0 ? "" : given[name].as<std::string>();
}

mfu::Subject subject_of(const options::variables_map& given) {
  if (given.count("placement") != 0) return mfu::Subject::kPlacement;
  return given.count("goodput") != 0 ? mfu::Subject::kGoodput : mfu::Subject::kRows;
}

int usage_error(const std::string& what) {
  std::cerr << "mfu-report: " << what << "\nTry mfu-report --help.\n";
  return kUsage;
}

tl::expected<mfu::JobFilter, std::string> filter_of(const options::variables_map& given) {
  mfu::JobFilter filter;
  if (given.count("jobs") != 0) {
    for (const std::string& text : given["jobs"].as<Words>()) {
      auto ids = mfu::parse_job_ids(text);
      if (!ids) return tl::make_unexpected("--jobs: " + ids.error());
      filter.jobs.insert(filter.jobs.end(), ids->begin(), ids->end());
    }
  }
  filter.users = words(given, "user");
  filter.accounts = words(given, "account");
  filter.partitions = words(given, "partition");
  filter.states = words(given, "state");
  filter.from = word(given, "starttime");
  filter.until = word(given, "endtime");
  filter.cluster = word(given, "cluster");
  filter.duplicates = given.count("duplicates") != 0;
  filter.whole_jobs = subject_of(given) == mfu::Subject::kGoodput;
  const bool all = given.count("all-users") != 0 || !filter.jobs.empty() ||
                   !filter.accounts.empty() || geteuid() == 0;
  if (filter.users.empty() && !all) filter.users = {std::to_string(geteuid())};
  const std::string field = word(given, "field");
  if (field != "admin_comment" && field != "comment") {
    return tl::make_unexpected("--field: '" + field + "' is neither admin_comment nor comment");
  }
  filter.field = field == "comment" ? mfu::Field::kComment : mfu::Field::kAdminComment;
  return filter;
}

tl::expected<mfu::TableStyle, std::string> style_of(const options::variables_map& given) {
  mfu::TableStyle style;
  style.subject = subject_of(given);
  style.bars = given.count("parsable") != 0;
  style.bare = given.count("no-header") != 0;
  const bool chosen = given.count("format") != 0 || given.count("helpformat") != 0;
  if (style.subject == mfu::Subject::kPlacement && (chosen || given.count("goodput") != 0)) {
    return tl::make_unexpected("--placement goes with neither --goodput nor columns");
  }
  if (given.count("format") == 0) return style;
  if (given.count("json") != 0)
    return tl::make_unexpected("--format is for tables, not for --json");
  for (const std::string& text : given["format"].as<Words>()) {
    const auto columns = mfu::parse_columns(text, style.subject);
    if (!columns) return tl::make_unexpected("--format: " + columns.error());
    style.columns.insert(style.columns.end(), columns->begin(), columns->end());
  }
  return style;
}

int report(const options::variables_map& given, const mfu::JobFilter& filter,
           const mfu::TableStyle& style) {
  const auto jobs = mfu::read_jobs(filter);
  if (!jobs) {
    if (jobs.error().in_filter) return usage_error(jobs.error().what);
    std::cerr << "mfu-report: " << jobs.error().what << '\n';
    return kNothing;
  }
  if (given.count("json") != 0) {
    mfu::write_json(std::cout, *jobs, word(given, "field"), style.subject);
  } else if (!jobs->empty()) {
    mfu::write_table(std::cout, *jobs, style);
  }
  std::cout.flush();
  if (!std::cout) {
    std::cerr << "mfu-report: the output could not be written\n";
    return kNothing;
  }
  if (jobs->empty()) {
    std::cerr << "mfu-report: no job fits (jobs since 00:00 today unless --starttime or --jobs "
                 "says otherwise; your own unless --all-users does)\n";
    return kNothing;
  }
  return 0;
}

int run(int argc, char** argv) {
  const options::options_description described = described_options();
  const options::positional_options_description none;
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(described).positional(none).run(),
                 given);
  options::notify(given);
  if (given.count("help") != 0) {
    std::cout << "usage: mfu-report [options]\n"
                 "The GPU efficiency of jobs, out of Slurm's accounting. See mfu-report(1).\n\n"
              << described;
    return 0;
  }
  if (given.count("version") != 0) {
    std::cout << "mfu-report " MFU_VERSION "\n";
    return 0;
  }
  const auto style = style_of(given);
  if (!style) return usage_error(style.error());
  if (given.count("helpformat") != 0) {
    mfu::write_columns(std::cout, style->subject);
    return 0;
  }
  const auto filter = filter_of(given);
  if (!filter) return usage_error(filter.error());
  return report(given, *filter, *style);
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    return run(argc, argv);
  } catch (const options::error& error) {
    return usage_error(error.what());
  } catch (const std::exception& error) {  // out of memory, with millions of jobs
    std::cerr << "mfu-report: " << error.what() << '\n';
    return kNothing;
  }
}
