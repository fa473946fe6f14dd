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
    out << "<div class=\"tile\" title=\"" << escaped(column.meaning) << "\"><b>" << column.cell(row)
        << "</b><span>" << tile.words;
    const std::string basis = total.bases_text();
    if (column.title == "MFU" && !basis.empty()) out << " (" << basis << ")";
    out << "</span>";
    if (tile.cover != nullptr) {
      out << "<span>of " << column_of(tile.cover).cell(row) << " of the GPU-hours</span>";
    }
    out << "</div>\n";
  }
  out << "</div></section>\n";
}

// The usual columns without keys, those that no row fills left out.
std::vector<const Column<GroupRow>*> filled_columns(std::span<const GroupRow> rows) {
  std::vector<const Column<GroupRow>*> filled;
  for (const Column<GroupRow>& column : group_columns().subspan(kGroupBys)) {
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [&](const GroupRow& row) { return column.cell(row) != "-"; });
    const bool shown = column.shown == Shown::kAlways || (column.shown == Shown::kFilled && any);
    if (shown) filled.push_back(&column);
  }
  return filled;
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

// MFU-OF stands in MFU's cells, and so on.
bool is_cover_of(const Column<GroupRow>& cover, const Column<GroupRow>& figure) {
  return cover.title.ends_with("-OF") &&
         cover.title.substr(0, cover.title.size() - 3) == figure.title;
}

// `keys`: titles of the columns that come first, and their texts a row.
void write_rows(std::ostream& out, const std::vector<std::string>& keys,
                const std::vector<std::vector<std::string>>& texts,
                std::span<const GroupRow> rows) {
  const auto columns = filled_columns(rows);
  // Calls visit with each column and that of its share, if it has one.
  const auto each_figure = [&](auto visit) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool covered = i + 1 < columns.size() && is_cover_of(*columns[i + 1], *columns[i]);
      visit(*columns[i], covered ? columns[i + 1] : nullptr);
      i += covered ? 1 : 0;
    }
  };
  out << "<div class=\"scroll\"><table><thead><tr>";
  for (const std::string& key : keys) out << "<th class=\"left\">" << escaped(key) << "</th>";
  out << "<th class=\"left\">used, wasted, unknown</th>";
  each_figure([&](const Column<GroupRow>& figure, const Column<GroupRow>* cover) {
    out << "<th" << (figure.right ? "" : " class=\"left\"") << " title=\""
        << escaped(figure.meaning) << "\">" << figure.title << (cover != nullptr ? " of" : "")
        << "</th>";
  });
  out << "</tr></thead><tbody>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out << "<tr>";
    for (const std::string& text : texts[i]) {
      out << "<td class=\"left\">" << escaped(text) << "</td>";
    }
    write_split(out, rows[i].sums);
    each_figure([&](const Column<GroupRow>& figure, const Column<GroupRow>* cover) {
      const std::string cell = figure.cell(rows[i]);
      out << (figure.right ? "<td>" : "<td class=\"left\">") << escaped(cell);
      if (cover != nullptr && cell != "-") {
        out << " <span class=\"soft\">" << cover->cell(rows[i]) << "</span>";
      }
      out << "</td>";
    });
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
  std::vector<std::vector<std::string>> texts;
  std::vector<GroupRow> rows;
  const auto ordered = sorted_groups(groups, sort);
  for (const Group* group : ordered) {
    if (rows.size() == most) break;
    texts.push_back(group->key);
    rows.push_back({groups.by(), group->key, group->sums});
  }
  out << "<section><h2>" << title << "</h2>\n";
  write_rows(out, keys, texts, rows);
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
         "\"of\"). Wasted is allocated time in which no "
         "kernel and no copy ran: idle, or outside of job steps. What is not known is counted "
         "apart, never as used or wasted. Low MFU is no waste: the two say different "
         "things.</p>\n<dl>";
  for (const Column<GroupRow>& column : group_columns().subspan(kGroupBys)) {
    out << "<dt>" << column.title << "</dt><dd>" << escaped(column.meaning) << "</dd>\n";
  }
  out << "</dl></section>\n";
}

// A job whose runs have been added up.
struct PageJob {
  std::vector<std::string> texts;
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
    jobs_.push_back(
        {{last.id, last.name, last.user, last.account, last.partition, last.state}, job});
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
    std::vector<std::vector<std::string>> texts;
    std::vector<GroupRow> rows;
    for (const PageJob& job : jobs_) {
      texts.push_back(job.texts);
      rows.push_back({kBy, job.texts, job.sums});
    }
    out_ << "<section><h2>Jobs that wasted most GPU-hours</h2>\n";
    write_rows(out_, {"job", "name", "user", "account", "partition", "state"}, texts, rows);
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
