// mfu-report's tables and CSV.
#include <algorithm>
#include <ostream>
#include <utility>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

// Cells of a million rows: a byte of the cell's size before each cell, row by row, in large blocks.
class PackedRows {
 public:
  static constexpr size_t kMostCell = 255;

  // Cut off with a '+' beyond `widest`; 0: beyond kMostCell. Returns the cell's width.
  size_t add_cell(std::string_view cell, size_t widest) {
    const size_t most = widest == 0 ? kMostCell : std::min(widest, kMostCell);
    const size_t size = std::min(cell.size(), most);
    row_ += static_cast<char>(size);
    row_.append(cell.data(), size);
    if (cell.size() > most) row_.back() = '+';
    return size;
  }
  void end_row() {
    if (blocks_.empty() || blocks_.back().size() + row_.size() > kBlock) {
      blocks_.emplace_back().reserve(std::max(kBlock, row_.size()));
    }
    blocks_.back() += row_;
    row_.clear();
  }

  // visit(column, cell), then end().
  template <typename Visit, typename End>
  void each_row(size_t columns, Visit visit, End end) const {
    for (const std::string& block : blocks_) {
      for (size_t at = 0; at < block.size(); end()) {
        for (size_t column = 0; column < columns; ++column) {
          const auto size = static_cast<unsigned char>(block[at]);
          visit(column, std::string_view(block).substr(at + 1, size));
          at += 1 + size;
        }
      }
    }
  }

 private:
  static constexpr size_t kBlock = 1 << 20;
  std::vector<std::string> blocks_;
  std::string row_;
};

// RFC 4180. A text of others that a spreadsheet would take for a formula has a ' before it.
void append_csv(std::string_view cell, bool foreign, std::string* row) {
  if (cell.empty() || cell == "-") return;
  const bool formula =
      foreign && (cell[0] == '=' || cell[0] == '+' || cell[0] == '-' || cell[0] == '@');
  const bool quoted = cell.find_first_of("\",\r\n") != cell.npos;
  if (quoted) *row += '"';
  if (formula) *row += '\'';
  for (const char byte : cell) row->append(byte == '"' ? 2 : 1, byte);
  if (quoted) *row += '"';
}

// The chosen columns of a table, and its rows: all of them are kept where columns are aligned.
template <typename Row>
class Table {
 public:
  Table(std::ostream& out, const TableStyle& style, std::span<const Column<Row>> columns)
      : out_(out), form_(style.form), bare_(style.bare) {
    const bool usual = style.columns.empty();
    for (const ChosenColumn& column :
         usual ? usual_columns(style.subject, style.by, form_ == Form::kCsv) : style.columns) {
      chosen_.push_back(columns[column.place]);
      chosen_.back().widest = column.widest;
      if (!usual || chosen_.back().shown == Shown::kAsked) chosen_.back().shown = Shown::kAlways;
    }
    widths_.resize(chosen_.size());
    filled_.resize(chosen_.size());
    if (!bare_) write_titles();
    filled_.assign(chosen_.size(), false);
  }

  void add(const Row& row) {
    if (form_ == Form::kCsv) {
      write_line([&](const Column<Row>& column) {
        if (column.value == nullptr) return append_csv(column.cell(row), !column.right, &line_);
        const double value = column.value(row);
        if (value >= 0) line_ += number_text(value);
      });
    } else {
      write([&](const Column<Row>& column) { return column.cell(row); });
    }
  }

  void finish() {
    // Without a header somebody counts the columns.
    for (size_t i = 0; i < chosen_.size() && !bare_; ++i) {
      if (chosen_[i].shown == Shown::kFilled && !filled_[i]) chosen_[i].shown = Shown::kAsked;
    }
    // Where the columns begin, two blanks apart, and their line. A cell is put into the blanks.
    std::vector<size_t> places(chosen_.size());
    size_t end = 0;
    size_t between = 0;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i].shown == Shown::kAsked) continue;
      places[i] = end + std::exchange(between, 2);
      end = places[i] + widths_[i];
    }
    line_.assign(end + 1, ' ');
    rows_.each_row(
        chosen_.size(),
        [&](size_t i, std::string_view cell) {
          if (chosen_[i].shown == Shown::kAsked) return;
          const size_t blanks = chosen_[i].right ? widths_[i] - cell.size() : 0;
          cell.copy(&line_[places[i] + blanks], cell.size());
        },
        [&] {
          const size_t size = line_.find_last_not_of(' ') + 1;
          line_[size] = '\n';
          out_.write(line_.data(), static_cast<std::streamsize>(size + 1));
          line_.assign(end + 1, ' ');
        });
  }

 private:
  void write_titles() {
    if (form_ != Form::kCsv)
      return write([](const auto& column) { return std::string(column.title); });
    write_line([&](const Column<Row>& column) {
      append_csv(column.name == nullptr ? column.title : column.name, false, &line_);
    });
  }

  // A line with what append gives of each column.
  template <typename Append>
  void write_line(Append append) {
    line_.clear();
    for (const Column<Row>& column : chosen_) {
      if (&column != chosen_.data()) line_ += form_ == Form::kCsv ? ',' : '|';
      append(column);
    }
    line_ += form_ == Form::kCsv ? "\r\n" : "\n";
    out_ << line_;
  }

  template <typename CellOf>
  void write(CellOf cell_of) {
    if (form_ == Form::kBars) {
      return write_line([&](const Column<Row>& column) { line_ += cell_of(column); });
    }
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const std::string cell = cell_of(chosen_[i]);
      widths_[i] = std::max(widths_[i], rows_.add_cell(cell, chosen_[i].widest));
      filled_[i] = filled_[i] || (!cell.empty() && cell != "-");
    }
    rows_.end_row();
  }

  std::ostream& out_;
  const Form form_;
  const bool bare_;
  std::vector<Column<Row>> chosen_;
  std::vector<size_t> widths_;
  std::vector<char> filled_;  // of the columns: any cell says something
  PackedRows rows_;
  std::string line_;
};

bool has_totals(const TableStyle& style) {
  return style.form == Form::kAligned && !style.bare;
}

std::string hours_text(uint128 seconds) {
  return fixed_text(static_cast<double>(seconds) / 3600);
}

void write_totals(std::ostream& out, const Totals& totals) {
  out << '\n'
      << counted(totals.jobs, "job") << in_runs(totals.jobs, totals.runs) << ", "
      << totals.jobs_with_mfu << " with MFU; " << hours_text(totals.gpu_seconds) << " GPU-hours, "
      << hours_text(totals.gpu_seconds_without_mfu) << " of them without MFU";
  if (totals.mfu() >= 0) {
    out << "; MFU " << percent_text(totals.mfu()) << (totals.mfu() > 1 ? "!" : "")
        << ", weighted by GPU time and peak";
  }
  if (totals.energy_ms > 0) {
    out << "; " << fixed_text(static_cast<double>(totals.energy_j) / 3.6e6) << " kWh in "
        << hours_text(totals.energy_ms / 1000) << " GPU-hours";
  }
  out << '\n';
}

// "; goodput 91.2%, lost: start-up 3.1%, checkpoint 2.0%"
void write_goodput_totals(std::ostream& out, const GoodputTotals& totals) {
  const Goodput all = goodput(totals.parts);
  out << '\n'
      << totals.jobs << (totals.jobs == 1 ? " job, " : " jobs, ") << totals.jobs_with_goodput
      << " with goodput; " << totals.runs << (totals.runs == 1 ? " run, " : " runs, ")
      << duration_text(totals.queued_ns / 1'000'000'000) << " between them; "
      << hours_text(totals.allocated_ns / 1'000'000'000) << " GPU-hours";
  if (all.fraction >= 0) out << "; goodput " << percent_text(all.fraction);
  const char* between = "; lost: ";
  for (const GoodputPart* part : losses(totals.parts)) {
    const double share = static_cast<double>(totals.parts.*part->member) /
                         static_cast<double>(totals.parts.total_ns());
    out << between << part->loss << ' ' << percent_text(share);
    between = ", ";
  }
  out << '\n';
}

class RowTable : public Report {
 public:
  RowTable(std::ostream& out, const TableStyle& style)
      : out_(out),
        totals_wanted_(has_totals(style)),
        last_only_(style.last_runs),
        table_(out, style, row_columns()) {}

  void add(std::span<const Job> runs) override {
    static const Comment kNoLine;
    totals_.begin_job();
    read_rows(runs, last_only_, [&](const Job& run, const FieldReading& reading) {
      const Comment& line = reading.line ? *reading.line : kNoLine;
      const JobRow row = {run, reading, line, figures(line), line.total()};
      totals_.add(run, reading.line, row.shown);
      table_.add(row);
    });
  }

  void finish() override {
    table_.finish();
    if (totals_wanted_) write_totals(out_, totals_);
  }

 private:
  std::ostream& out_;
  bool totals_wanted_;
  bool last_only_;
  Table<JobRow> table_;
  Totals totals_;
};

class GoodputTable : public Report {
 public:
  GoodputTable(std::ostream& out, const TableStyle& style)
      : out_(out), totals_wanted_(has_totals(style)), table_(out, style, goodput_columns()) {}

  void add(std::span<const Job> runs) override {
    const JobGoodput job = goodput_of_runs(runs);
    totals_.add(job);
    table_.add(job);
  }

  void finish() override {
    table_.finish();
    if (totals_wanted_) write_goodput_totals(out_, totals_);
  }

 private:
  std::ostream& out_;
  bool totals_wanted_;
  Table<JobGoodput> table_;
  GoodputTotals totals_;
};

class GroupTable : public Report {
 public:
  GroupTable(std::ostream& out, const TableStyle& style)
      : out_(out), style_(style), groups_({style.by}) {}

  void add(std::span<const Job> runs) override { groups_.add(runs); }

  void finish() override {
    Table<GroupRow> table(out_, style_, group_columns());
    const auto groups = sorted_groups(groups_[0], style_.sort);
    for (const Group* group : groups) table.add({style_.by, group->key, group->sums});
    table.finish();
    if (!has_totals(style_)) return;
    out_ << '\n' << totals_text(groups_, groups.size()) << '\n';
  }

 private:
  std::ostream& out_;
  const TableStyle style_;
  Groupings groups_;
};

}  // namespace

std::string totals_text(const Groupings& groupings, size_t groups) {
  const GroupSums& total = groupings.total();
  const auto hours = [](uint128 ns) { return hours_text(ns / 1'000'000'000); };
  std::string text = counted(groups, "group") + "; " + counted(total.jobs, "job") + ", ";
  if (groupings.left_out() > 0)
    text += std::to_string(groupings.left_out()) + " more without GPUs or time, ";
  text += hours(total.allocated_ns) + " GPU-hours";
  if (total.mfu() >= 0) {
    text += "; MFU " + percent_text(total.mfu()) + (total.mfu() > 1 ? "!" : "") + "(" +
            total.bases_text() + ") of " + coverage_text(total.of_allocated(total.mfu_ns)) +
            " of them";
  }
  if (total.allocated_ns > 0) {
    text += "; wasted " + hours(total.wasted_ns) + " GPU-hours, not known of " +
            hours(total.unknown_ns);
  }
  return text;
}

std::unique_ptr<Report> make_table(std::ostream& out, const TableStyle& style) {
  switch (style.subject) {
    case Subject::kPlacement:
      return make_findings(out, style);
    case Subject::kGoodput:
      return std::make_unique<GoodputTable>(out, style);
    case Subject::kGroups:
      return std::make_unique<GroupTable>(out, style);
    default:
      return std::make_unique<RowTable>(out, style);
  }
}

}  // namespace mfu
