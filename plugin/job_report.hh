// What mfu-report says about jobs: as tables, CSV, JSON, a page and metrics (mfu-report(1)
// documents them).
#ifndef MFU_PLUGIN_JOB_REPORT_HH_
#define MFU_PLUGIN_JOB_REPORT_HH_

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "plugin/comment.hh"
#include "plugin/job_list.hh"
#include "plugin/place_note.hh"
#include "plugin/report_groups.hh"

namespace mfu {

// What stands in a job's field.
struct FieldReading {
  std::optional<Comment> line;
  std::string_view text;  // our line, sound or not; empty: none
  std::string fault;      // why there is no sound line; empty: there is one
};
// `field` must outlive the result.
FieldReading read_field(std::string_view field);

// Reads the fields of a job's runs, in their order. A line that is not of a later run than the line
// before it is that one, which Slurm hands on to a run that writes none: it counts as no line. So
// does the line of a run that has not begun. Where a job was resized, a run has several records,
// all but the last in the state RESIZING: the last one's line is that of the whole run, the others
// have none.
class RunReader {
 public:
  FieldReading read(const Job& run);
  // How many runs there were by the lines.
  uint32_t told_runs() const { return told_runs_; }

 private:
  std::optional<uint32_t> run_before_;
  uint32_t told_runs_ = 0;
};

// Visits the runs of a job that have rows of their own: all of them, or with `last_only` the last
// one, with all its records where it was resized. The others tell even so whether a line was handed
// on.
using VisitRow = std::function<void(const Job& run, const FieldReading& reading)>;
void read_rows(std::span<const Job> runs, bool last_only, const VisitRow& visit);

// What the audit of a run's placement found.
struct FindingsReading {
  std::optional<PlaceNote> note;  // without findings: there were none
  std::string why_not;            // why it is not known; empty: it is
};
// `reading`: of run.comment.
FindingsReading read_findings(const Job& run, const FieldReading& reading);

// The parts of a run's allocated GPU time. Without a line (null) all of it is unknown; where a job
// step's last word is missing, what the line does not cover.
GoodputSums goodput_of_run(const Job& run, const Comment* line);

// A job over all its runs.
struct JobGoodput {
  const Job* last = nullptr;  // its last run
  Runs runs;                  // those that had an allocation
  uint32_t told_runs = 0;     // how many there were by the lines: more than are here, if some lie
                              // outside of the time asked for
  uint32_t lines = 0;         // runs with a sound line of their own
  std::string fault;  // why the last run without a line has none; empty: there is no such run
  uint128 allocated_ns = 0;  // GPUs x elapsed time
  GoodputSums parts;
  Comment together;  // its sums are those of all lines

  Goodput goodput() const { return mfu::goodput(parts); }
};
// `runs`: rows of one job, in the order of the runs.
JobGoodput goodput_of_runs(std::span<const Job> runs);

// Of many jobs. Times are those of the allocations in the accounting database.
struct Totals {
  uint64_t jobs = 0;
  uint64_t runs = 0;
  uint64_t jobs_with_mfu = 0;  // in any of their runs
  uint128 gpu_seconds = 0;
  uint128 gpu_seconds_without_mfu = 0;  // of the runs whose MFU is n/a
  uint128 model_flops = 0;              // of the runs with an MFU
  uint128 capacity_flop = 0;
  uint128 energy_j = 0;
  uint128 energy_ms = 0;  // GPU time that energy_j is known for
  GoodputSums parts;

  // The runs that are added from now on are a new job's.
  void begin_job();
  // `shown`: figures() of the line.
  void add(const Job& run, const std::optional<Comment>& line, const Figures& shown);
  // Weighted by GPU time and peak; negative when no run has an MFU.
  double mfu() const;

 private:
  bool job_has_mfu_ = false;
};

struct GoodputTotals {
  uint64_t jobs = 0;
  uint64_t jobs_with_goodput = 0;
  uint64_t runs = 0;
  uint128 allocated_ns = 0;
  uint128 queued_ns = 0;  // between runs; wall time, not GPU time
  GoodputSums parts;

  void add(const JobGoodput& job);
};

enum class Subject : uint8_t {
  kRows,       // a row, as Slurm's accounting has them
  kGoodput,    // a job over all its runs
  kPlacement,  // a row's findings; as JSON the same as kRows
  kGroups,     // jobs added up
};

// What a row's columns are made of.
struct JobRow {
  const Job& job;
  const FieldReading& reading;
  const Comment& line;  // an empty one where there is none
  Figures shown;
  Sums total;
};

// What a group's columns are made of.
struct GroupRow {
  const std::vector<GroupBy>& by;
  const std::vector<std::string>& key;
  const GroupSums& sums;

  // Empty where groups are not made by it.
  std::string_view text(GroupBy of) const;
};

enum class Shown : uint8_t {
  kAlways,
  kFilled,  // left out where no row fills it: a terminal is narrow
  kAsked,   // by --format only
};
template <typename Row>
struct Column {
  std::string_view title;
  bool right;     // numbers
  size_t widest;  // text beyond is cut off; 0: never
  Shown shown;
  std::string_view meaning;
  std::string (*cell)(const Row&);
  // Of a number that programs read: its name there, and its value, negative when it is not known.
  const char* name = nullptr;
  double (*value)(const Row&) = nullptr;
};
// By Subject; kPlacement has none. What is not known is "-". The first kGroupBys ones of groups are
// in the order of GroupBy.
std::span<const Column<JobRow>> row_columns();
std::span<const Column<JobGoodput>> goodput_columns();
std::span<const Column<GroupRow>> group_columns();

// A column that was asked for: its place in the columns of the subject, and its width.
struct ChosenColumn {
  size_t place = 0;
  size_t widest = 0;
  bool operator==(const ChosenColumn&) const = default;
};
// "jobid,mfu,name%30": titles in either case; "%30": cut off beyond 30 bytes. The error names the
// column that there is not, and those that there are.
tl::expected<std::vector<ChosenColumn>, std::string> parse_columns(std::string_view text,
                                                                   Subject subject);
// Titles and meanings, a column a line.
void write_columns(std::ostream& out, Subject subject);

// Which of the columns a table shows where nobody chose any, by their places.
std::vector<ChosenColumn> usual_columns(Subject subject, std::span<const GroupBy> by, bool all);

enum class Form : uint8_t {
  kAligned,
  kBars,  // cells with '|' between, nothing cut off, no totals
  kCsv,   // RFC 4180, the same; what is not known is empty, numbers of groups are not rounded
};

// A column of groups that they are sorted by. Numbers: the largest first.
struct SortKey {
  size_t place = 0;
  bool reversed = false;
};
// "gpu-hours", "-mfu" (reversed): a column of groups.
tl::expected<SortKey, std::string> parse_sort(std::string_view text);

struct TableStyle {
  Subject subject = Subject::kRows;
  Form form = Form::kAligned;
  bool bare = false;                  // neither header nor totals
  std::vector<ChosenColumn> columns;  // these, filled or not; empty: the usual ones
  std::vector<GroupBy> by;            // of kGroups
  std::optional<SortKey> sort;        // of kGroups; nothing: Groups::ordered()
  bool last_runs = false;             // of kRows and kPlacement: only each job's last run
};

// A report that jobs are added to, one after the other, all runs of a job at once.
class Report {
 public:
  virtual ~Report() = default;
  virtual void add(std::span<const Job> runs) = 0;
  virtual void finish() = 0;
};

// Findings: a block for each job that has any, then how many have none or are not known.
// Everybody's text is shown without control bytes, cut to its column's width with a '+'. `out` and
// what it writes to must outlive the report.
std::unique_ptr<Report> make_table(std::ostream& out, const TableStyle& style);
// make_table() of Subject::kPlacement.
std::unique_ptr<Report> make_findings(std::ostream& out, const TableStyle& style);

// One object; a job, or a group, a line. `field` names the accounting field that was read.
std::unique_ptr<Report> make_json(std::ostream& out, std::string_view field,
                                  const TableStyle& style);

struct MetricsStyle {
  std::vector<GroupBy> by;    // labels; no periods, which would be series without end
  size_t most_groups = 1000;  // those with the most GPU time; the others are added up
  time_t now = 0;
};
// Prometheus's text format.
std::unique_ptr<Report> make_metrics(std::ostream& out, const MetricsStyle& style);

struct PageStyle {
  std::vector<GroupBy> by;      // empty: by user, account, partition and GPU, each by itself
  std::optional<SortKey> sort;  // of `by`
  time_t now = 0;
};
// A page of HTML that needs nothing else, no script either: totals, trend, groups, jobs that wasted
// most.
std::unique_ptr<Report> make_page(std::ostream& out, const PageStyle& style);

// The groups of a report in its order.
std::vector<const Group*> sorted_groups(const Groups& groups, const std::optional<SortKey>& sort);

// "3 groups; 5 jobs, 448.8 GPU-hours; MFU ...": what closes a table of groups.
std::string totals_text(const Groupings& groupings, size_t groups);

// A text of others as one column a byte, without the delimiter '|'; "-" when there is none.
std::string cell_text(std::string_view text);
// "12.3": one digit behind the point, of no locale.
std::string fixed_text(double number);
// As many digits as tell it from other doubles, those of whole numbers without an exponent.
std::string number_text(double number);
// "1 job", "2 jobs".
std::string counted(uint64_t count, const char* noun);
// " in 3 runs"; empty where each job has one.
std::string in_runs(uint64_t jobs, uint64_t runs);
// Every digit.
std::string decimal(uint128 number);
// "1-02:03:04", as sacct.
std::string duration_text(uint128 seconds);

}  // namespace mfu

#endif
