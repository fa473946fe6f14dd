// mfu-report's page.
#include <algorithm>
#include <ctime>
#include <ostream>

#include "plugin/job_report.hh"
#include "plugin/report_page.hh"
#include "plugin/report_trend.hh"
#include "topology/markup_text.hh"

namespace mfu {
namespace {

constexpr size_t kMostRows = 1000;
constexpr size_t kRowsOfMany = 20;  // where there are several tables
constexpr size_t kMostJobs = 25;
constexpr long kMostPeriods = 92;  // of a picture

std::string escaped(std::string_view text) {
  return markup_text(cell_text(text));
}

std::string time_text(time_t time) {
  tm parts{};
  char text[64];
  if (time == 0 || localtime_r(&time, &parts) == nullptr) return "-";
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M %z", &parts)};
}

const Column<GroupRow>& column_of(std::string_view title) {
  const auto columns = group_columns();
  return *std::find_if(columns.begin(), columns.end(),
                       [&](const auto& column) { return column.title == title; });
}

const Column<JobRow>& why_column() {
  const auto columns = row_columns();
  return *std::find_if(columns.begin(), columns.end(),
                       [](const auto& column) { return column.title == "WHY"; });
}

struct Tile {
  const char* words;
  const char* figure;
  const char* cover;  // nullptr: it is of all
};
constexpr Tile kTiles[] = {
    {"GPU-hours allocated", "GPU-HOURS", nullptr},
    {"MFU", "MFU", "MFU-OF"},
    {"HFU", "HFU", "HFU-OF"},
    {"exposed communication", "COMM", "TIME-OF"},
    {"idle", "IDLE", "TIME-OF"},
    {"goodput", "GOODPUT", "GOODPUT-OF"},
    {"kWh", "KWH", "KWH-OF"},
    {"GPU-hours wasted", "WASTED", nullptr},
    {"GPU-hours not known", "UNKNOWN", nullptr},
};

void write_tiles(std::ostream& out, const GroupSums& total) {
  static const std::vector<GroupBy> kBy;
  static const std::vector<std::string> kKey;
  const GroupRow row = {kBy, kKey, total};
  out << "<section><h2>All together</h2><div class=\"tiles\">\n";
  for (const Tile& tile : kTiles) {
    const Column<GroupRow>& column = column_of(tile.figure);
    const std::string figure = column.cell(row);
    out << "<div class=\"tile\" title=\"" << escaped(column.meaning) << "\"><b>" << figure
        << "</b><span>" << tile.words;
    const std::string basis = total.bases_text();
    if (column.title == "MFU" && !basis.empty()) out << " (" << basis << ")";
    out << "</span>";
    if (tile.cover != nullptr && figure != "-") {
      out << "<span>of " << column_of(tile.cover).cell(row) << " of the GPU-hours</span>";
    }
    out << "</div>\n";
  }
  out << "</div></section>\n";
}

// A column of a table, and that of the share of the GPU-hours that its figures are of, if it stands
// in the same cells.
struct Figure {
  const Column<GroupRow>* column;
  const Column<GroupRow>* cover;
};

bool is_cover_of(const Column<GroupRow>& cover, const Column<GroupRow>& figure) {
  return cover.title.ends_with("-OF") &&
         cover.title.substr(0, cover.title.size() - 3) == figure.title;
}

// What the page is about comes first: a narrow display cuts off the rest. Then the usual columns,
// those that no row fills left out.
std::vector<Figure> figures_of_groups(std::span<const GroupRow> rows) {
  std::vector<Figure> figures = {{&column_of("WASTED"), nullptr}, {&column_of("UNKNOWN"), nullptr}};
  const size_t first = figures.size();
  for (const Column<GroupRow>& column : group_columns().subspan(kGroupBys)) {
    if (column.title == "WASTED" || column.title == "UNKNOWN") continue;
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [&](const GroupRow& row) { return column.cell(row) != "-"; });
    if (column.shown != Shown::kAlways && !(column.shown == Shown::kFilled && any)) continue;
    if (figures.size() > first && is_cover_of(column, *figures.back().column)) {
      figures.back().cover = &column;
    } else {
      figures.push_back({&column, nullptr});
    }
  }
  return figures;
}

std::vector<Figure> figures_of_jobs() {
  return {{&column_of("WASTED"), nullptr},
          {&column_of("GPU-HOURS"), nullptr},
          {&column_of("MFU"), &column_of("MFU-OF")},
          {&column_of("IDLE"), &column_of("TIME-OF")}};
}

void write_split(std::ostream& out, const GroupSums& sums) {
  const double wasted = 100 * std::max(0.0, sums.of_allocated(sums.wasted_ns));
  const double unknown = 100 * std::max(0.0, sums.of_allocated(sums.unknown_ns));
  out << "<td class=\"bar\"><div class=\"split\"><div class=\"used\" style=\"width:"
      << fixed_text(std::max(0.0, 100 - wasted - unknown))
      << "%\"></div><div class=\"wasted\" style=\"width:" << fixed_text(wasted)
      << "%\"></div><div class=\"unknown\" style=\"width:" << fixed_text(unknown)
      << "%\"></div></div></td>";
}

// What stands before and behind a row's figures.
struct RowTexts {
  std::vector<std::string> keys;
  std::string why;
};

void write_head(std::ostream& out, const std::vector<std::string>& keys,
                const std::vector<Figure>& figures) {
  out << "<thead><tr>";
  for (const std::string& key : keys) out << "<th class=\"left\">" << escaped(key) << "</th>";
  out << "<th class=\"left bar\">used, wasted, unknown</th>";
  for (const Figure& figure : figures) {
    out << "<th" << (figure.column->right ? "" : " class=\"left\"") << " title=\""
        << escaped(figure.column->meaning) << "\">" << figure.column->title
        << (figure.cover != nullptr ? " of" : "") << "</th>";
  }
}

// `keys`: titles of the columns that come first. `why`: the last column's meaning; empty: there is
// none.
void write_rows(std::ostream& out, const std::vector<std::string>& keys,
                const std::vector<RowTexts>& texts, std::span<const GroupRow> rows,
                const std::vector<Figure>& figures, std::string_view why = {}) {
  out << "<div class=\"scroll\"><table>";
  write_head(out, keys, figures);
  if (!why.empty()) out << "<th class=\"left\" title=\"" << escaped(why) << "\">WHY</th>";
  out << "</tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out << "<tr>";
    for (const std::string& text : texts[i].keys) {
      out << "<td class=\"left\">" << escaped(text) << "</td>";
    }
    write_split(out, rows[i].sums);
    for (const Figure& figure : figures) {
      const std::string cell = figure.column->cell(rows[i]);
      out << (figure.column->right ? "<td>" : "<td class=\"left\">") << escaped(cell);
      if (figure.cover != nullptr && cell != "-") {
        out << " <span class=\"soft\">" << figure.cover->cell(rows[i]) << "</span>";
      }
      out << "</td>";
    }
    if (!why.empty()) out << "<td class=\"why\">" << escaped(texts[i].why) << "</td>";
    out << "</tr>\n";
  }
  out << "</tbody></table></div>\n";
}

void write_groups(std::ostream& out, const Groups& groups, const std::optional<SortKey>& sort,
                  size_t most) {
  std::vector<std::string> keys;
  std::string title;
  for (const GroupBy by : groups.by()) {
    keys.push_back(group_name(by));
    title.append(title.empty() ? "By " : " and ").append(keys.back());
  }
  std::vector<RowTexts> texts;
  std::vector<GroupRow> rows;
  const auto ordered = sorted_groups(groups, sort);
  for (const Group* group : ordered) {
    if (rows.size() == most) break;
    texts.push_back({group->key, {}});
    rows.push_back({groups.by(), group->key, group->sums});
  }
  out << "<section><h2>" << title << "</h2>\n";
  write_rows(out, keys, texts, rows, figures_of_groups(rows));
  if (ordered.size() > rows.size()) {
    out << "<p class=\"soft\">" << ordered.size() - rows.size()
        << " more are in mfu-report --by.</p>\n";
  }
  out << "</section>\n";
}

void write_definitions(std::ostream& out) {
  out << "<section><h2>What the figures mean</h2>\n<p class=\"soft\">Each figure is of the runs "
         "that it is known for, weighted by GPU time (MFU and HFU by GPU time and peak); beside it "
         "stands the share of the GPU-hours that it is of (in the tables' columns with "
         "\"of\"; of COMM it is TIME-OF, of IDLE too). Wasted is allocated time in which no "
         "kernel and no copy ran: idle, or outside of job steps. What is not known is counted "
         "apart, never as used or wasted. Low MFU is no waste: the two say different "
         "things.</p>\n<dl>";
  for (const Column<GroupRow>& column : group_columns().subspan(kGroupBys)) {
    out << "<dt>" << column.title << "</dt><dd>" << escaped(column.meaning) << "</dd>\n";
  }
  out << "<dt>WHY</dt><dd>" << escaped(why_column().meaning)
      << "; of the job's last run</dd>\n</dl></section>\n";
}

// Of a job's last run.
std::string why_text(std::span<const Job> runs) {
  static const Comment kNoLine;
  RunReader reader;
  FieldReading reading;
  for (const Job& run : runs) reading = reader.read(run);
  const Comment& line = reading.line ? *reading.line : kNoLine;
  return why_column().cell({runs.back(), reading, line, figures(line), line.total()});
}

// A job whose runs have been added up.
struct PageJob {
  RowTexts texts;
  GroupSums sums;
};
bool wastes_more(const PageJob& left, const PageJob& right) {
  return left.sums.wasted_ns > right.sums.wasted_ns;
}

std::vector<std::vector<GroupBy>> ways_of(const std::vector<GroupBy>& by) {
  std::vector<std::vector<GroupBy>> ways = {{GroupBy::kDay}, {GroupBy::kWeek}, {GroupBy::kMonth}};
  if (!by.empty()) {
    ways.push_back(by);
  } else {
    for (const GroupBy key :
         {GroupBy::kUser, GroupBy::kAccount, GroupBy::kPartition, GroupBy::kGpu}) {
      ways.push_back({key});
    }
  }
  return ways;
}
constexpr size_t kPeriodWays = 3;

class PageReport : public Report {
 public:
  PageReport(std::ostream& out, const PageStyle& style)
      : out_(out), style_(style), ways_(ways_of(style.by)), groups_(ways_) {}

  void add(std::span<const Job> runs) override {
    GroupSums job;
    groups_.add(runs, [&](const RunShare& share) {
      job += share.sums;
      ends_ = std::max(ends_, share.run.end);
      if (share.run.end != 0)
        begins_ = begins_ == 0 ? share.run.end : std::min(begins_, share.run.end);
    });
    // A heap with the job that wasted least of them in front.
    if (job.wasted_ns == 0) return;
    if (jobs_.size() == kMostJobs && job.wasted_ns <= jobs_.front().sums.wasted_ns) return;
    const Job& last = runs.back();
    jobs_.push_back({{{last.id, last.name, last.user, last.state}, why_text(runs)}, job});
    std::push_heap(jobs_.begin(), jobs_.end(), wastes_more);
    if (jobs_.size() <= kMostJobs) return;
    std::pop_heap(jobs_.begin(), jobs_.end(), wastes_more);
    jobs_.pop_back();
  }

  void finish() override {
    out_ << kPageHead << "<h1>GPU efficiency of jobs</h1>\n<div class=\"soft\">"
         << escaped(counted(groups_.total().jobs, "job"));
    if (groups_.left_out() > 0) {
      out_ << ", " << groups_.left_out() << " more without GPUs or time";
    }
    if (begins_ != 0) {
      out_ << "; runs that ended from " << time_text(begins_) << " to " << time_text(ends_);
    }
    out_ << "; written " << time_text(style_.now) << "</div>\n";
    write_tiles(out_, groups_.total());
    size_t period = 0;
    while (period + 1 < kPeriodWays && periods_spanned(groups_[period]) > kMostPeriods) ++period;
    write_trend(out_, groups_[period]);
    const bool several = ways_.size() > kPeriodWays + 1;
    for (size_t way = kPeriodWays; way < ways_.size(); ++way) {
      write_groups(out_, groups_[way], style_.sort, several ? kRowsOfMany : kMostRows);
    }
    write_jobs();
    write_definitions(out_);
    out_ << "<p class=\"soft\">mfu-report " MFU_VERSION "; mfu-report(1), mfu-comment(5)</p>\n"
         << kPageEnd;
  }

 private:
  void write_jobs() {
    if (jobs_.empty()) return;
    std::sort_heap(jobs_.begin(), jobs_.end(), wastes_more);
    static const std::vector<GroupBy> kBy;
    std::vector<RowTexts> texts;
    std::vector<GroupRow> rows;
    for (const PageJob& job : jobs_) {
      texts.push_back(job.texts);
      rows.push_back({kBy, job.texts.keys, job.sums});
    }
    out_ << "<section><h2>Jobs that wasted most GPU-hours</h2>\n";
    write_rows(out_, {"job", "name", "user", "state"}, texts, rows, figures_of_jobs(),
               why_column().meaning);
    out_ << "</section>\n";
  }

  std::ostream& out_;
  const PageStyle style_;
  const std::vector<std::vector<GroupBy>> ways_;
  Groupings groups_;
  std::vector<PageJob> jobs_;
  time_t begins_ = 0;
  time_t ends_ = 0;
};

}  // namespace

std::unique_ptr<Report> make_page(std::ostream& out, const PageStyle& style) {
  return std::make_unique<PageReport>(out, style);
}

}  // namespace mfu
