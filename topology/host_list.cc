#include "topology/host_list.hh"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace mfu {
namespace {

constexpr size_t kMostDigits = 18;  // fits 64 bits
constexpr size_t kLongestName = 255;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_separator(char c) {
  return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

uint64_t value_of(std::string_view digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string padded(uint64_t value, size_t width) {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

using Wrong = tl::unexpected<std::string>;

Wrong wrong(std::string_view part, const std::string& why) {
  return Wrong("hostlist '" + std::string(part.substr(0, 80)) + "': " + why);
}

// "1-3,07": the numbers as text. `part` is for the error.
tl::expected<std::vector<std::string>, std::string> expand_ranges(std::string_view ranges,
                                                                  std::string_view part) {
  std::vector<std::string> numbers;
  while (true) {
    const size_t comma = std::min(ranges.find(','), ranges.size());
    const std::string_view range = ranges.substr(0, comma);
    const size_t dash = std::min(range.find('-'), range.size());
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash < range.size() ? range.substr(dash + 1) : low;
    for (std::string_view end : {low, high}) {
      if (end.empty() || end.size() > kMostDigits ||
          !std::all_of(end.begin(), end.end(), is_digit)) {
        return wrong(part, "'" + std::string(range.substr(0, 40)) + "' is no range of numbers");
      }
    }
    const uint64_t first = value_of(low);
    const uint64_t last = value_of(high);
    if (last < first) return wrong(part, std::string(range) + " counts down");
    if (last - first >= kMostHosts - numbers.size()) return wrong(part, "too many names");
    for (uint64_t n = first; n <= last; ++n) numbers.push_back(padded(n, low.size()));
    if (comma == ranges.size()) return numbers;
    ranges.remove_prefix(comma + 1);
  }
}

// One element of a list, with its brackets.
tl::expected<void, std::string> expand_part(std::string_view part,
                                            std::vector<std::string>* names) {
  std::vector<std::string> made = {""};
  std::string_view rest = part;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find('['), rest.size());
    const std::string_view text = rest.substr(0, open);
    if (text.find(']') != std::string_view::npos) return wrong(part, "a ']' without '['");
    for (std::string& name : made) name.append(text);
    if (made.front().size() > kLongestName) return wrong(part, "a name is too long");
    if (open == rest.size()) break;
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return wrong(part, "a '[' without ']'");
    const auto numbers = expand_ranges(rest.substr(open + 1, close - open - 1), part);
    if (!numbers) return Wrong(numbers.error());
    if (numbers->size() > (kMostHosts - names->size()) / made.size()) {
      return wrong(part, "too many names");
    }
    std::vector<std::string> longer;
    longer.reserve(made.size() * numbers->size());
    for (const std::string& name : made) {
      for (const std::string& number : *numbers) longer.push_back(name + number);
    }
    made = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  if (made.size() > kMostHosts - names->size()) return wrong(part, "too many names");
  std::move(made.begin(), made.end(), std::back_inserter(*names));
  return {};
}

// A name split before the digits that end it.
struct Numbered {
  std::string_view prefix;
  std::string_view digits;
};

Numbered split(std::string_view name) {
  size_t at = name.size();
  while (at > 0 && is_digit(name[at - 1]) && name.size() - at < kMostDigits) --at;
  return {name.substr(0, at), name.substr(at)};
}

// Whether `b` follows `a` in one range: Slurm pads to the width of the range's first number.
bool follows(std::string_view first, std::string_view a, std::string_view b) {
  if (value_of(b) != value_of(a) + 1) return false;
  return b.size() == std::max(first.size(), std::to_string(value_of(b)).size()) &&
         (first.front() != '0' || b.size() == first.size());
}

}  // namespace

tl::expected<std::vector<std::string>, std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> names;
  size_t begin = 0;
  bool inside = false;
  for (size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && list[at] == '[') inside = true;
    if (at < list.size() && list[at] == ']') inside = false;
    // A bracket may hold commas, not blanks: one that is left open ends at the first.
    if (at < list.size() && (!is_separator(list[at]) || (inside && list[at] == ','))) continue;
    if (at > begin) {
      const auto done = expand_part(list.substr(begin, at - begin), &names);
      if (!done) return Wrong(done.error());
    }
    begin = at + 1;
    inside = false;
  }
  return names;
}

bool host_before(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  int width = 0;  // of the first numbers that differ in nothing else
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const size_t a_begin = i;
      const size_t b_begin = j;
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
      std::string_view x = a.substr(a_begin, i - a_begin);
      std::string_view y = b.substr(b_begin, j - b_begin);
      if (width == 0 && x.size() != y.size()) width = x.size() < y.size() ? -1 : 1;
      while (x.size() > 1 && x.front() == '0') x.remove_prefix(1);
      while (y.size() > 1 && y.front() == '0') y.remove_prefix(1);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
    }
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return width < 0;
}

void sort_hosts(std::vector<std::string>* names) {
  std::sort(names->begin(), names->end(), host_before);
  names->erase(std::unique(names->begin(), names->end()), names->end());
}

std::string compress_hosts(std::vector<std::string> names) {
  sort_hosts(&names);
  std::string list;
  for (size_t i = 0; i < names.size();) {
    const Numbered head = split(names[i]);
    if (!list.empty()) list += ',';
    list.append(head.prefix);
    std::string ranges;
    size_t numbers = 0;
    while (i < names.size()) {
      const Numbered first = split(names[i]);
      if (first.prefix != head.prefix || first.digits.empty() != head.digits.empty()) break;
      size_t last = i;
      while (last + 1 < names.size() && !first.digits.empty()) {
        const Numbered next = split(names[last + 1]);
        if (next.prefix != head.prefix || next.digits.empty() ||
            !follows(first.digits, split(names[last]).digits, next.digits)) {
          break;
        }
        ++last;
      }
      if (!ranges.empty()) ranges += ',';
      ranges.append(first.digits);
      if (last > i) ranges.append("-").append(split(names[last]).digits);
      numbers += last - i + 1;
      i = last + 1;
      if (head.digits.empty()) break;
    }
    list += numbers > 1 ? "[" + ranges + "]" : ranges;
  }
  return list;
}

std::string count_hosts(std::vector<std::string> names, const std::string& what) {
  sort_hosts(&names);
  return std::to_string(names.size()) + " " + what + ": " + compress_hosts(names);
}

}  // namespace mfu
