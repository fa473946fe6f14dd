// The columns of mfu-report's groups, and their order.
#include <algorithm>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

constexpr double kNsPerHour = 3600e9;
constexpr auto kAlways = Shown::kAlways, kFilled = Shown::kFilled, kAsked = Shown::kAsked;
constexpr bool kRight = true, kLeft = false;

using Row = const GroupRow&;

template <GroupBy by>
std::string key_cell(Row row) {
  return cell_text(row.text(by));
}

std::string count_cell(double count) {
  return decimal(static_cast<uint128>(count));
}
std::string hours_cell(double hours) {
  return hours < 0 ? "-" : fixed_text(hours);
}
std::string share_cell(double fraction) {
  return fraction < 0 ? "-" : percent_text(fraction);
}
std::string flagged_cell(double fraction) {
  return share_cell(fraction) + (fraction > 1 ? "!" : "");
}
// Rounded down: 100.0% is all.
std::string cover_cell(double fraction) {
  return fraction < 0 ? "-" : coverage_text(fraction);
}
// The same where all the column may be left out.
std::string filled_cover_cell(double fraction) {
  return fraction <= 0 ? "-" : coverage_text(fraction);
}

// A column of numbers.
template <double (*value)(Row), std::string (*text)(double)>
constexpr Column<GroupRow> number(std::string_view title, const char* name, Shown shown,
                                  std::string_view meaning) {
  return {title, kRight, 0, shown, meaning, [](Row row) { return text(value(row)); }, name, value};
}

double hours(uint128 ns) {
  return static_cast<double>(ns) / kNsPerHour;
}
// Of what is known for none of the time.
double over(uint128 base, double value) {
  return base == 0 ? -1 : value;
}

double jobs(Row row) {
  return static_cast<double>(row.sums.jobs);
}
double runs(Row row) {
  return static_cast<double>(row.sums.runs);
}
double allocated(Row row) {
  return hours(row.sums.allocated_ns);
}
double mfu(Row row) {
  return row.sums.mfu();
}
double mfu_of(Row row) {
  return row.sums.of_allocated(row.sums.mfu_ns);
}
double hfu(Row row) {
  return row.sums.hfu();
}
double hfu_of(Row row) {
  return row.sums.of_allocated(row.sums.hfu_ns);
}
double compute(Row row) {
  return row.sums.compute();
}
double communication(Row row) {
  return row.sums.exposed_communication();
}
double idle(Row row) {
  return row.sums.idle();
}
double time_of(Row row) {
  return row.sums.of_allocated(row.sums.observed_ns);
}
double goodput_share(Row row) {
  return row.sums.goodput();
}
double goodput_of(Row row) {
  return row.sums.of_allocated(row.sums.goodput_ns);
}
double energy(Row row) {
  return over(row.sums.energy_ms, static_cast<double>(row.sums.energy_j) / 3.6e6);
}
double energy_of(Row row) {
  return row.sums.of_allocated(row.sums.energy_ms * 1'000'000);
}
double wasted(Row row) {
  return over(row.sums.allocated_ns - row.sums.unknown_ns, hours(row.sums.wasted_ns));
}
double unknown(Row row) {
  return hours(row.sums.unknown_ns);
}
double peak_hours(Row row) {
  return over(row.sums.mfu_ns, row.sums.peak_ns / kNsPerHour);
}

constexpr Column<GroupRow> kColumns[] = {
    {"USER", kLeft, 16, kAsked, "", key_cell<GroupBy::kUser>, "user"},
    {"ACCOUNT", kLeft, 16, kAsked, "", key_cell<GroupBy::kAccount>, "account"},
    {"PARTITION", kLeft, 16, kAsked, "", key_cell<GroupBy::kPartition>, "partition"},
    {"CLUSTER", kLeft, 16, kAsked, "", key_cell<GroupBy::kCluster>, "cluster"},
    {"GPU", kLeft, 0, kAsked, "model of the GPUs, by the line", key_cell<GroupBy::kGpu>, "gpu"},
    {"MONTH", kLeft, 0, kAsked, "in which a run ended, local time", key_cell<GroupBy::kMonth>,
     "month"},
    {"WEEK", kLeft, 0, kAsked, "the same, ISO 8601", key_cell<GroupBy::kWeek>, "week"},
    {"DAY", kLeft, 0, kAsked, "the same", key_cell<GroupBy::kDay>, "day"},
    number<jobs, count_cell>("JOBS", "jobs", kAlways, "that had GPUs for a time"),
    number<runs, count_cell>("RUNS", "runs", kAsked, "of these jobs, requeued ones counted anew"),
    number<allocated, hours_cell>("GPU-HOURS", "gpu_hours", kAlways,
                                  "allocated: GPUs x elapsed time"),
    number<mfu, flagged_cell>("MFU", "mfu", kAlways,
                              "model FLOPs utilisation, weighted by GPU time and peak"),
    number<mfu_of, cover_cell>("MFU-OF", "mfu_coverage", kAlways,
                               "share of the GPU-hours that MFU is of"),
    {"BASIS", kLeft, 0, kFilled, "where MFU's FLOPs come from: model, gemm, several",
     [](Row row) {
       const std::string text = row.sums.bases_text();
       return text.empty() ? "-" : text;
     },
     "basis"},
    number<hfu, flagged_cell>("HFU", "hfu", kFilled,
                              "the same as MFU with the FLOPs that were executed"),
    number<hfu_of, filled_cover_cell>("HFU-OF", "hfu_coverage", kFilled,
                                      "share of the GPU-hours that HFU is of"),
    number<compute, share_cell>("COMPUTE", "compute", kAsked,
                                "share of the observed GPU time: a compute kernel ran"),
    number<communication, share_cell>("COMM", "communication_exposed", kAlways,
                                      "share of the observed GPU time: exposed communication"),
    number<idle, share_cell>("IDLE", "idle", kAlways,
                             "share of the observed GPU time: nothing ran"),
    number<time_of, cover_cell>("TIME-OF", "observed_coverage", kAlways,
                                "share of the GPU-hours that was observed"),
    number<goodput_share, share_cell>("GOODPUT", "goodput", kFilled,
                                      "share of the time of runs that is known to be training"),
    number<goodput_of, filled_cover_cell>("GOODPUT-OF", "goodput_coverage", kFilled,
                                          "share of the GPU-hours that GOODPUT is of"),
    number<energy, hours_cell>("KWH", "energy_kwh", kFilled, "energy of the GPUs, as far as known"),
    number<energy_of, filled_cover_cell>("KWH-OF", "energy_coverage", kFilled,
                                         "share of the GPU-hours that KWH is of"),
    number<wasted, hours_cell>("WASTED", "wasted_gpu_hours", kAlways,
                               "GPU-hours known to be idle or outside of job steps"),
    number<unknown, hours_cell>("UNKNOWN", "unknown_gpu_hours", kAlways,
                                "GPU-hours of which it is not known whether they were wasted"),
    number<peak_hours, hours_cell>("PEAK-HOURS", "peak_gpu_hours", kAlways,
                                   "GPU-hours that MFU's FLOPs take at the full peak"),
};

// Unknown ones are last, whatever the direction.
bool before(const GroupRow& left, const GroupRow& right, const SortKey& sort) {
  const Column<GroupRow>& column = kColumns[sort.place];
  if (column.value == nullptr) {
    const std::string a = column.cell(left);
    const std::string b = column.cell(right);
    if ((a == "-") != (b == "-")) return b == "-";
    return sort.reversed ? b < a : a < b;
  }
  const double a = column.value(left);
  const double b = column.value(right);
  if ((a < 0) != (b < 0)) return b < 0;
  return sort.reversed ? a < b : a > b;
}

}  // namespace

std::string_view GroupRow::text(GroupBy of) const {
  const auto place = static_cast<size_t>(std::find(by.begin(), by.end(), of) - by.begin());
  return place < std::min(by.size(), key.size()) ? key[place] : std::string_view();
}

std::span<const Column<GroupRow>> group_columns() {
  return kColumns;
}

tl::expected<SortKey, std::string> parse_sort(std::string_view text) {
  SortKey sort;
  sort.reversed = text.starts_with('-');
  const auto column = parse_columns(text.substr(sort.reversed ? 1 : 0), Subject::kGroups);
  if (!column) return tl::make_unexpected(column.error());
  if (column->size() != 1) return tl::make_unexpected("one column, not several");
  sort.place = column->front().place;
  return sort;
}

std::vector<const Group*> sorted_groups(const Groups& groups, const std::optional<SortKey>& sort) {
  std::vector<const Group*> ordered = groups.ordered();
  if (!sort) return ordered;
  std::stable_sort(ordered.begin(), ordered.end(), [&](const Group* left, const Group* right) {
    return before({groups.by(), left->key, left->sums}, {groups.by(), right->key, right->sums},
                  *sort);
  });
  return ordered;
}

}  // namespace mfu
