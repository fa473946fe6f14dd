// Tables of text: columns as wide as their widest cell, and figures of four digits.
#ifndef MFU_PROFILER_TEXT_TABLE_HH_
#define MFU_PROFILER_TEXT_TABLE_HH_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace mfu::text_table {

template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, arguments...);
  return text;
}

// The largest unit first.
using Unit = std::pair<double, const char*>;
inline constexpr Unit kDecimalPrefixes[] = {{1e21, "Z"}, {1e18, "E"}, {1e15, "P"},
                                            {1e12, "T"}, {1e9, "G"},  {1, ""}};

// Four digits and a unit, if it reaches one: "460.2 T".
template <size_t kSize>
std::string scaled(double value, const Unit (&units)[kSize]) {
  for (const auto& [size, unit] : units) {
    const double part = value / size;
    if (part < 0.9995) continue;
    return format(part < 9.9995 ? "%.3f %s" : part < 99.995 ? "%.2f %s" : "%.1f %s", part, unit);
  }
  return "0";
}

inline std::string duration(uint64_t ns) {
  static constexpr Unit kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
  if (ns < 1000) return format("%llu ns", static_cast<unsigned long long>(ns));
  return scaled(static_cast<double>(ns), kUnits);
}

inline std::string bytes(uint64_t count) {
  static constexpr Unit kUnits[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  for (const auto& [size, unit] : kUnits) {
    if (static_cast<double>(count) < size) continue;
    return format("%.2f %s", static_cast<double>(count) / size, unit);
  }
  return std::to_string(count) + " B";
}

inline std::string share(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return format("%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

inline std::string number(uint64_t value) {
  return std::to_string(value);
}

// Its last `width` characters; nothing in it talks to the terminal.
inline std::string printable(std::string text, size_t width) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  if (text.size() > width) text = "..." + text.substr(text.size() - (width - 3));
  return text;
}

inline void append(std::vector<std::string>* cells, std::vector<std::string> more) {
  cells->insert(cells->end(), more.begin(), more.end());
}

// The first column is left-aligned, so are the last `left`, the others to the right.
class Columns {
 public:
  explicit Columns(std::vector<std::string> head, size_t left = 0) : left_(left) {
    rows_.push_back(std::move(head));
  }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void write(std::ostream& out) const {
    std::vector<size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows_) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string blank(widths[i] - row[i].size(), ' ');
        const bool left = i == 0 || i + left_ >= row.size();
        line += (i == 0 ? " " : "  ") + (left ? row[i] + blank : blank + row[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out << line << '\n';
    }
  }

 private:
  size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mfu::text_table

#endif
