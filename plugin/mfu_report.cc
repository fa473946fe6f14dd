// mfu-report: the GPU efficiency of jobs, out of Slurm's accounting.
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>

#include "plugin/job_history.hh"
#include "plugin/job_report.hh"
#include "plugin/live_textfile.hh"
#include "plugin/report_progress.hh"

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
      ("cluster,M", options::value<Words>(), "of these clusters (default: slurm.conf's)");
  options::options_description how("Output");
  how.add_options()  //
      ("field", options::value<std::string>()->default_value("admin_comment"),
       "where the lines are: admin_comment or comment")  //
      ("goodput",
       "a job a line over all its runs: what its allocated GPU time went into (implies "
       "--duplicates)")  //
      ("placement",
       "what audits of placement found in each job and what mends it, instead of the table")  //
      ("by", options::value<Words>(),
       "jobs added up by user, account, partition, cluster, gpu, month, week or day, or several of "
       "them")  //
      ("sort", options::value<std::string>(),
       "with --by: by this column, the largest first; -COLUMN: the smallest first")  //
      ("format,o", options::value<Words>(),
       "these columns, e.g. jobid,mfu,hfu,power or name%30 (cut off beyond 30 bytes)")  //
      ("helpformat,e", "the columns that there are")                                    //
      ("json", "one JSON object, a job a line")                                         //
      ("csv", "the table as CSV (RFC 4180)")                                            //
      ("html", options::value<std::string>(),
       "a page with totals, trend and groups, to this file")  //
      ("prometheus", options::value<std::string>(),
       "metrics by user, account and partition, or as --by says, to this file (.prom)")  //
      ("parsable,P", "cells with '|' between, nothing cut off")                          //
      ("no-header,n", "neither header nor totals")                                       //
      ("help,h", "this text")                                                            //
      ("version,V", "the version");
  which.add(how);
  return which;
}

bool has(const options::variables_map& given, const char* name) {
  return given.count(name) != 0;
}

// Options that take a list: given several times, or with commas.
Words words(const options::variables_map& given, const char* name) {
  Words result;
  if (!has(given, name)) return result;
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
  return !has(given, name) ? "" : given[name].as<std::string>();
}

// Files take the place of what is printed.
bool to_files(const options::variables_map& given) {
  return has(given, "html") || has(given, "prometheus");
}

mfu::Subject subject_of(const options::variables_map& given) {
  if (has(given, "placement")) return mfu::Subject::kPlacement;
  if (has(given, "by")) return mfu::Subject::kGroups;
  return has(given, "goodput") ? mfu::Subject::kGoodput : mfu::Subject::kRows;
}

int usage_error(const std::string& what) {
  std::cerr << "mfu-report: " << what << "\nTry mfu-report --help.\n";
  return kUsage;
}

tl::expected<mfu::JobFilter, std::string> filter_of(const options::variables_map& given) {
  mfu::JobFilter filter;
  if (has(given, "jobs")) {
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
  filter.clusters = words(given, "cluster");
  filter.whole_jobs = subject_of(given) == mfu::Subject::kGoodput;
  const bool all =
      has(given, "all-users") || !filter.jobs.empty() || !filter.accounts.empty() || geteuid() == 0;
  if (filter.users.empty() && !all) filter.users = {std::to_string(geteuid())};
  const std::string field = word(given, "field");
  if (field != "admin_comment" && field != "comment") {
    return tl::make_unexpected("--field: '" + field + "' is neither admin_comment nor comment");
  }
  filter.field = field == "comment" ? mfu::Field::kComment : mfu::Field::kAdminComment;
  return filter;
}

// What the options say that do not go together; empty: they do.
std::string contradiction(const options::variables_map& given) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return has(given, name); });
  };
  if (has(given, "placement") && any({"format", "helpformat", "goodput", "by"})) {
    return "--placement goes with neither --goodput nor --by nor columns";
  }
  if (has(given, "by") && has(given, "goodput")) {
    return "--by goes without --goodput: its groups have a column GOODPUT";
  }
  if (has(given, "sort") && !has(given, "by")) return "--sort is for --by";
  if (has(given, "format") && has(given, "json")) return "--format is for tables, not for --json";
  if (has(given, "csv") && any({"json", "parsable", "placement"})) {
    return "--csv goes with neither --json nor --parsable nor --placement";
  }
  if (to_files(given) &&
      any({"json", "csv", "parsable", "no-header", "format", "goodput", "placement"})) {
    return "--html and --prometheus take the place of a table and its options";
  }
  return "";
}

// A column with a key that groups are not made by.
bool is_missing_key(size_t place, const std::vector<mfu::GroupBy>& by) {
  return place < mfu::kGroupBys &&
         std::find(by.begin(), by.end(), static_cast<mfu::GroupBy>(place)) == by.end();
}

tl::expected<mfu::TableStyle, std::string> style_of(const options::variables_map& given) {
  mfu::TableStyle style;
  const std::string wrong = contradiction(given);
  if (!wrong.empty()) return tl::make_unexpected(wrong);
  style.subject = subject_of(given);
  if (has(given, "parsable")) style.form = mfu::Form::kBars;
  if (has(given, "csv")) style.form = mfu::Form::kCsv;
  style.bare = has(given, "no-header");
  style.last_runs = !has(given, "duplicates");
  std::vector<size_t> keys;
  if (has(given, "prometheus")) {
    const std::string fault = mfu::textfile_name_fault(word(given, "prometheus"));
    if (!fault.empty()) return tl::make_unexpected("--prometheus: " + fault);
  }
  if (has(given, "by")) {
    std::string names;
    for (const std::string& name : given["by"].as<Words>())
      names += (names.empty() ? "" : ",") + name;
    const auto by = mfu::parse_groups(names);
    if (!by) return tl::make_unexpected("--by: " + by.error());
    style.by = *by;
    const bool periods = std::any_of(by->begin(), by->end(), mfu::is_period);
    if (periods && has(given, "prometheus")) {
      return tl::make_unexpected(
          "--prometheus keeps no past: --by goes without day, week and month");
    }
  }
  if (has(given, "sort")) {
    const auto sort = mfu::parse_sort(word(given, "sort"));
    if (!sort) return tl::make_unexpected("--sort: " + sort.error());
    style.sort = *sort;
    keys.push_back(sort->place);
  }
  if (has(given, "format")) {
    for (const std::string& text : given["format"].as<Words>()) {
      const auto columns = mfu::parse_columns(text, style.subject);
      if (!columns) return tl::make_unexpected("--format: " + columns.error());
      style.columns.insert(style.columns.end(), columns->begin(), columns->end());
      for (const mfu::ChosenColumn& column : *columns) keys.push_back(column.place);
    }
  }
  for (const size_t place : keys) {
    if (style.subject != mfu::Subject::kGroups || !is_missing_key(place, style.by)) continue;
    const std::string name = mfu::group_name(static_cast<mfu::GroupBy>(place));
    return tl::make_unexpected("the column " + name + " needs " + name + " in --by");
  }
  return style;
}

// A report that goes into a file when it is complete.
struct FileReport {
  std::string path;
  std::ostringstream text;
  std::unique_ptr<mfu::Report> report;
};

std::vector<std::unique_ptr<FileReport>> file_reports(const options::variables_map& given,
                                                      const mfu::TableStyle& style) {
  std::vector<std::unique_ptr<FileReport>> files;
  const auto add = [&](const char* option) -> FileReport* {
    if (!has(given, option)) return nullptr;
    files.push_back(std::make_unique<FileReport>());
    files.back()->path = word(given, option);
    return files.back().get();
  };
  const time_t now = time(nullptr);
  if (FileReport* const page = add("html")) {
    page->report = mfu::make_page(page->text, {style.by, style.sort, now});
  }
  if (FileReport* const metrics = add("prometheus")) {
    using enum mfu::GroupBy;
    const bool chosen = !style.by.empty();
    metrics->report = mfu::make_metrics(
        metrics->text,
        {.by = chosen ? style.by : std::vector{kUser, kAccount, kPartition}, .now = now});
  }
  return files;
}

int report(const options::variables_map& given, const mfu::JobFilter& filter,
           const mfu::TableStyle& style) {
  std::vector<std::unique_ptr<FileReport>> files = file_reports(given, style);
  std::unique_ptr<mfu::Report> printed;
  const auto print = [&]() -> mfu::Report& {
    if (!printed) {
      printed = has(given, "json") ? mfu::make_json(std::cout, word(given, "field"), style)
                                   : mfu::make_table(std::cout, style);
    }
    return *printed;
  };
  // What is written while jobs are read must not meet the progress on one terminal.
  const bool kept = !files.empty() || style.subject == mfu::Subject::kGroups ||
                    (style.form == mfu::Form::kAligned && !has(given, "json") &&
                     style.subject != mfu::Subject::kPlacement);
  const bool silent = !kept && isatty(STDOUT_FILENO) == 1;
  size_t rows_seen = 0;
  mfu::Progress progress(STDERR_FILENO);
  progress.ask();
  const auto read = mfu::read_jobs(filter, [&](std::span<const mfu::Job> runs, size_t rows) {
    rows_seen += runs.size();
    silent ? progress.clear() : progress.show(rows_seen, rows);
    for (const auto& file : files) file->report->add(runs);
    if (files.empty()) print().add(runs);
  });
  progress.clear();
  if (!read) {
    if (read.error().in_filter) return usage_error(read.error().what);
    std::cerr << "mfu-report: " << read.error().what << '\n';
    return kNothing;
  }
  for (const auto& file : files) {
    file->report->finish();
    const std::string fault = mfu::replace_textfile(file->path, file->text.str());
    if (fault.empty()) continue;
    std::cerr << "mfu-report: " << fault << '\n';
    return kNothing;
  }
  if (files.empty() && (rows_seen > 0 || has(given, "json"))) print().finish();
  std::cout.flush();
  if (!std::cout) {
    std::cerr << "mfu-report: the output could not be written\n";
    return kNothing;
  }
  if (rows_seen == 0) {
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
  if (has(given, "help")) {
    std::cout << "usage: mfu-report [options]\n"
                 "The GPU efficiency of jobs, out of Slurm's accounting. See mfu-report(1).\n\n"
              << described;
    return 0;
  }
  if (has(given, "version")) {
    std::cout << "mfu-report " MFU_VERSION "\n";
    return 0;
  }
  const auto style = style_of(given);
  if (!style) return usage_error(style.error());
  if (has(given, "helpformat")) {
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
