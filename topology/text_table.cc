#include "topology/text_table.hh"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace mfu {

std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

std::string shortened(std::string text, size_t most) {
  constexpr std::string_view kMark = "...";
  if (text.size() <= most) return text;
  text.resize(most < kMark.size() ? 0 : most - kMark.size());
  return text.append(kMark.substr(0, most));
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::vector<size_t> TextTable::widths() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

size_t TextTable::width() const {
  size_t sum = 0;
  for (const size_t width : widths()) sum += width == 0 ? 0 : width + 2;
  return sum < 2 ? 0 : sum - 2;
}

std::string TextTable::text(const std::string& indent, const std::vector<size_t>& right) const {
  const std::vector<size_t> columns = widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      if (columns[i] == 0) continue;
      const std::string blanks(columns[i] - row[i].size(), ' ');
      const bool from_right = std::find(right.begin(), right.end(), i) != right.end();
      line += (from_right ? blanks + row[i] : row[i] + blanks) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

size_t terminal_columns() {
  long columns = 100;
  winsize size = {};
  if (const char* told = std::getenv("COLUMNS"); told != nullptr) {
    columns = std::strtol(told, nullptr, 10);
  } else if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    columns = size.ws_col;
  }
  return static_cast<size_t>(std::clamp(columns, 60L, 200L));
}

}  // namespace mfu
