// mfu-report's table.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ostream>
#include <vector>

#include "plugin/job_report.hh"

namespace mfu {
namespace {

struct Column {
  std::string_view title;
  bool right;         // numbers
  size_t widest;      // text beyond is cut off; 0: never
  bool rare = false;  // left out where no job fills it: a terminal is narrow
};
constexpr Column kColumns[] = {
    {"JOBID", true, 0},       {"NAME", false, 16},  {"USER", false, 12},    {"ACCOUNT", false, 12},
    {"PARTITION", false, 12}, {"STATE", false, 13}, {"ELAPSED", true, 0},   {"NODES", true, 0},
    {"GPUS", true, 0},        {"MFU", true, 0},     {"HFU", true, 0, true}, {"COMPUTE", true, 0},
    {"COMM", true, 0},        {"MEM", true, 0},     {"IDLE", true, 0},      {"COVER", true, 0},
    {"WHY", false, 0, true},
};
constexpr size_t kColumnCount = std::size(kColumns);
using Row = std::array<std::string, kColumnCount>;

// A byte that takes one column on every terminal, and that is no delimiter of ours.
std::string printable(std::string_view text) {
  std::string result(text.empty() ? "-" : text);
  std::replace_if(
      result.begin(), result.end(),
      [](char byte) { return byte < ' ' || byte > '~' || byte == '|'; }, '?');
  return result;
}

std::string cut(std::string text, size_t widest) {
  if (widest == 0 || text.size() <= widest) return text;
  text.resize(widest - 1);
  return text + '+';
}

// "1-02:03:04", as sacct.
std::string elapsed_text(uint64_t seconds) {
  char text[64];
  const unsigned long long days = seconds / 86400;
  const int hours = static_cast<int>(seconds / 3600 % 24);
  const int minutes = static_cast<int>(seconds / 60 % 60);
  const int rest = static_cast<int>(seconds % 60);
  if (days > 0) {
    std::snprintf(text, sizeof(text), "%llu-%02d:%02d:%02d", days, hours, minutes, rest);
  } else {
    std::snprintf(text, sizeof(text), "%02d:%02d:%02d", hours, minutes, rest);
  }
  return text;
}

std::string figure(double fraction) {
  return fraction < 0 ? "-" : percent_text(fraction);
}

// "no-flops; time: denied; partial: node-lost; interim"
std::string why_text(const Job& job, const Comment& line) {
  std::string why = why_no_mfu(line);
  const std::string why_time = why_no_time(line);
  const auto add = [&](std::string_view what, std::string_view reason) {
    if (reason.empty()) return;
    if (!why.empty()) why += "; ";
    why.append(what).append(reason);
  };
  if (why_time != why) add("time: ", why_time);
  add("partial: ", line.partial);
  // A step whose last word is missing: killed with its node, or it is still running.
  if (line.running()) add("", job.end == 0 ? "running" : "interim");
  return why;
}

Row row_of(const Job& job, const FieldReading& reading) {
  Row row;
  row.fill("-");
  row[0] = printable(job.id);
  row[1] = printable(job.name);
  row[2] = printable(job.user);
  row[3] = printable(job.account);
  row[4] = printable(job.partition);
  row[5] = printable(job.state);
  row[6] = elapsed_text(job.elapsed_seconds);
  row[7] = std::to_string(job.nodes);
  row[8] = std::to_string(job.gpus);
  row[16] = reading.fault;
  if (!reading.line) return row;
  const Figures shown = figures(*reading.line);
  row[9] = figure(shown.mfu) + (shown.mfu > 1 ? "!" : "");
  row[11] = figure(shown.compute);
  if (shown.exposed_communication >= 0) {
    row[12] = percent_text(shown.exposed_communication) + "+" +
              percent_text(shown.overlapped_communication);
  }
  row[13] = figure(shown.exposed_memory);
  row[14] = figure(shown.idle);
  if (shown.flops_coverage >= 0) {
    row[15] = coverage_text(shown.flops_coverage) + "/" + coverage_text(shown.observed_coverage);
  }
  row[16] = why_text(job, *reading.line);
  return row;
}

// Cells of a million rows as one text a row: a byte of the cell's size before each cell.
class PackedRow {
 public:
  explicit PackedRow(const Row& row) {
    for (const std::string& cell : row) {
      bytes_ += static_cast<char>(std::min<size_t>(cell.size(), 255));
      bytes_.append(cell, 0, 255);
    }
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

// A column of width 0 is left out.
void write_row(std::ostream& out, const PackedRow& row,
               const std::array<size_t, kColumnCount>& widths) {
  std::string text;
  row.each_cell([&](size_t column, std::string_view cell) {
    if (widths[column] == 0) return;
    if (column > 0) text += "  ";
    const size_t blanks = widths[column] - cell.size();
    if (kColumns[column].right) text.append(blanks, ' ');
    text += cell;
    if (!kColumns[column].right) text.append(blanks, ' ');
  });
  text.erase(text.find_last_not_of(' ') + 1);
  out << text << '\n';
}

void write_bars(std::ostream& out, const Row& row) {
  std::string text;
  for (const std::string& cell : row) text.append(text.empty() ? "" : "|").append(cell);
  out << text << '\n';
}

std::string hours_text(uint128 seconds) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<double>(seconds) / 3600,
                                 std::chars_format::fixed, 1);
  return {text, end.ptr};
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
  out << '\n';
}

}  // namespace

void write_table(std::ostream& out, std::span<const Job> jobs, TableStyle style) {
  Row titles;
  for (size_t column = 0; column < kColumnCount; ++column) titles[column] = kColumns[column].title;
  if (style.bars) {
    if (!style.bare) write_bars(out, titles);
    for (const Job& job : jobs) write_bars(out, row_of(job, read_field(job.comment)));
    return;
  }

  std::vector<PackedRow> rows;
  rows.reserve(jobs.size() + 1);
  std::array<size_t, kColumnCount> widths{};
  std::array<bool, kColumnCount> filled{};
  const auto add = [&](const Row& row) {
    rows.emplace_back(row);
    rows.back().each_cell([&](size_t column, std::string_view cell) {
      widths[column] = std::max(widths[column], cell.size());
    });
  };
  if (!style.bare) add(titles);
  Totals totals;
  for (const Job& job : jobs) {
    const FieldReading reading = read_field(job.comment);
    totals.add(job, reading.line);
    Row row = row_of(job, reading);
    for (size_t column = 0; column < kColumnCount; ++column) {
      row[column] = cut(std::move(row[column]), kColumns[column].widest);
      filled[column] = filled[column] || (!row[column].empty() && row[column] != "-");
    }
    add(row);
  }
  // Without a header somebody counts the columns.
  for (size_t column = 0; column < kColumnCount && !style.bare; ++column) {
    if (kColumns[column].rare && !filled[column]) widths[column] = 0;
  }
  for (const PackedRow& row : rows) write_row(out, row, widths);
  if (!style.bare) write_totals(out, totals);
}

}  // namespace mfu
