// mfu-report's tables.
#include <algorithm>
#include <charconv>
#include <ostream>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

// Calls visit with the columns of the subject.
template <typename Visit>
auto with_columns(Subject subject, Visit visit) {
  return subject == Subject::kGoodput ? visit(goodput_columns()) : visit(row_columns());
}

bool same_title(std::string_view left, std::string_view right) {
  const auto upper = [](char byte) {
    return byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 'a' + 'A') : byte;
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](char a, char b) { return upper(a) == upper(b); });
}

std::string cut(std::string text, size_t widest) {
  if (widest == 0 || text.size() <= widest) return text;
  text.resize(widest - 1);
  return text + '+';
}

// Cells of a million rows as one text a row: a byte of the cell's size before each cell.
class PackedRow {
 public:
  void add(std::string_view cell) {
    bytes_ += static_cast<char>(std::min<size_t>(cell.size(), 255));
    bytes_.append(cell, 0, 255);
  }

  template <typename Visit>
  void each_cell(Visit visit) const {
    size_t column = 0;
    for (size_t at = 0; at < bytes_.size(); ++column) {
      const auto size = static_cast<unsigned char>(bytes_[at]);
      visit(column, std::string_view(bytes_).substr(at + 1, size));
      at += 1 + size;
    }
  }

 private:
  std::string bytes_;
};

// The chosen columns of a table, and its rows: all of them are kept where columns are aligned.
template <typename Row>
class Table {
 public:
  Table(std::ostream& out, const TableStyle& style, std::span<const Column<Row>> columns,
        size_t rows)
      : out_(out), style_(style) {
    for (size_t place = 0; place < columns.size() && style.columns.empty(); ++place) {
      if (columns[place].shown != Shown::kAsked) chosen_.push_back({columns[place]});
    }
    for (const ChosenColumn& column : style.columns) {
      chosen_.push_back({columns[column.place]});
      chosen_.back().widest = column.widest;
      chosen_.back().shown = Shown::kAlways;
    }
    widths_.resize(chosen_.size());
    filled_.resize(chosen_.size());
    if (!style.bars) rows_.reserve(rows + 1);
    if (!style.bare) write([](const Column<Row>& column) { return std::string(column.title); });
    filled_.assign(chosen_.size(), false);
  }

  void add(const Row& row) {
    write([&](const Column<Row>& column) { return column.cell(row); });
  }

  void finish() {
    // Without a header somebody counts the columns.
    for (size_t i = 0; i < chosen_.size() && !style_.bare; ++i) {
      if (chosen_[i].shown == Shown::kFilled && !filled_[i]) chosen_[i].shown = Shown::kAsked;
    }
    for (const PackedRow& row : rows_) write_aligned(row);
  }

 private:
  template <typename CellOf>
  void write(CellOf cell_of) {
    if (style_.bars) {
      std::string text;
      for (size_t i = 0; i < chosen_.size(); ++i) {
        if (i > 0) text += '|';
        text += cell_of(chosen_[i]);
      }
      out_ << text << '\n';
      return;
    }
    PackedRow& row = rows_.emplace_back();
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const std::string cell = cut(cell_of(chosen_[i]), std::min<size_t>(chosen_[i].widest, 255));
      widths_[i] = std::max(widths_[i], std::min<size_t>(cell.size(), 255));
      filled_[i] = filled_[i] || (!cell.empty() && cell != "-");
      row.add(cell);
    }
  }

  void write_aligned(const PackedRow& row) {
    std::string text;
    bool first = true;
    row.each_cell([&](size_t i, std::string_view cell) {
      if (chosen_[i].shown == Shown::kAsked) return;
      if (!first) text += "  ";
      first = false;
      const size_t blanks = widths_[i] - cell.size();
      if (chosen_[i].right) text.append(blanks, ' ');
      text += cell;
      if (!chosen_[i].right) text.append(blanks, ' ');
    });
    text.erase(text.find_last_not_of(' ') + 1);
    out_ << text << '\n';
  }

  std::ostream& out_;
  const TableStyle& style_;
  std::vector<Column<Row>> chosen_;
  std::vector<size_t> widths_;
  std::vector<bool> filled_;
  std::vector<PackedRow> rows_;
};

std::string fixed_text(double number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), number, std::chars_format::fixed, 1);
  return {text, end.ptr};
}

std::string hours_text(uint128 seconds) {
  return fixed_text(static_cast<double>(seconds) / 3600);
}

void write_totals(std::ostream& out, const Totals& totals) {
  out << '\n'
      << totals.jobs << (totals.jobs == 1 ? " job, " : " jobs, ") << totals.jobs_with_mfu
      << " with MFU; " << hours_text(totals.gpu_seconds) << " GPU-hours, "
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

void write_rows(std::ostream& out, std::span<const Job> jobs, const TableStyle& style) {
  static const Comment kNoLine;
  Table<JobRow> table(out, style, row_columns(), jobs.size());
  Totals totals;
  for (const Job& job : jobs) {
    const FieldReading reading = read_field(job.comment);
    const Comment& line = reading.line ? *reading.line : kNoLine;
    const JobRow row = {job, reading, line, figures(line), line.total()};
    totals.add(job, reading.line, row.shown);
    table.add(row);
  }
  table.finish();
  if (!style.bars && !style.bare) write_totals(out, totals);
}

void write_goodput(std::ostream& out, std::span<const Job> jobs, const TableStyle& style) {
  Table<JobGoodput> table(out, style, goodput_columns(), jobs.size());
  GoodputTotals totals;
  while (!jobs.empty()) {
    const size_t runs = runs_at_front(jobs);
    const JobGoodput job = goodput_of_runs(jobs.first(runs));
    jobs = jobs.subspan(runs);
    totals.add(job);
    table.add(job);
  }
  table.finish();
  if (!style.bars && !style.bare) write_goodput_totals(out, totals);
}

}  // namespace

tl::expected<std::vector<ChosenColumn>, std::string> parse_columns(std::string_view text,
                                                                   Subject subject) {
  return with_columns(subject, [&](auto columns) {
    using Result = tl::expected<std::vector<ChosenColumn>, std::string>;
    std::vector<ChosenColumn> chosen;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      const std::string_view item = text.substr(at, end - at);
      at = end + 1;
      const size_t percent = std::min(item.find('%'), item.size());
      const std::string_view title = item.substr(0, percent);
      size_t place = 0;
      while (place < columns.size() && !same_title(columns[place].title, title)) ++place;
      if (place == columns.size()) {
        std::string what = "there is no column '" + std::string(title) + "'; those that there are:";
        for (const auto& column : columns) what.append(" ").append(column.title);
        return Result(tl::make_unexpected(what));
      }
      ChosenColumn column{place, columns[place].widest};
      if (percent < item.size()) {
        const char* const last = item.data() + item.size();
        const auto [rest, error] = std::from_chars(item.data() + percent + 1, last, column.widest);
        if (error != std::errc() || rest != last || column.widest == 0) {
          return Result(tl::make_unexpected("'" + std::string(item) +
                                            "': the width must be a number above 0: name%30"));
        }
      }
      chosen.push_back(column);
    }
    return Result(std::move(chosen));
  });
}

void write_columns(std::ostream& out, Subject subject) {
  with_columns(subject, [&](auto columns) {
    for (const auto& column : columns) {
      std::string line(column.title);
      line.resize(std::max<size_t>(line.size(), 12), ' ');
      line.append(column.meaning);
      line.erase(line.find_last_not_of(' ') + 1);
      out << line << '\n';
    }
  });
}

void write_table(std::ostream& out, std::span<const Job> jobs, const TableStyle& style) {
  if (style.subject == Subject::kPlacement) {
    write_findings(out, jobs, style);
  } else if (style.subject == Subject::kRows) {
    write_rows(out, jobs, style);
  } else {
    write_goodput(out, jobs, style);
  }
}

}  // namespace mfu
