#include "profiler/peak_additions.hh"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "profiler/text_file.hh"

namespace mfu {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kMostName = 95;
constexpr size_t kMostShortName = 16;

// Up to the separator, which is taken with it; the whole text when there is none.
std::string_view take_until(std::string_view* text, char separator) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return part;
}

bool printable(std::string_view text, char least) {
  return std::all_of(text.begin(), text.end(), [least](char c) { return c >= least && c <= '~'; });
}

// Empty, or what is wrong.
std::string parse_rates(std::string_view text, PeakAdditions::Row* row) {
  while (!text.empty()) {
    const std::string_view item = take_until(&text, ',');
    std::string_view value = item;
    const std::string_view key = take_until(&value, '=');
    const Precision precision = precision_from_name(key);
    const std::string shown = printable(item, ' ') ? "\"" + std::string(item) + "\"" : "a rate";
    if (precision == Precision::kUnknown) return shown + " begins with no known precision";
    uint64_t& rate = row->gigaflops[static_cast<size_t>(precision)];
    if (rate != 0) return std::string(key) + " comes twice";
    rate = parse_teraflops(value);
    if (rate == 0) return shown + " is no rate in TFLOP/s";
    if (is_sparse_rate(row->name, precision, rate)) {
      return shown + " is twice the dense rate of this device: a sparse rate is no peak";
    }
  }
  return {};
}

std::string parse_row(std::string_view line, PeakAdditions::Row* row) {
  if (std::count(line.begin(), line.end(), '\t') != 2) {
    return "not three columns: name, short name and rates, separated by tabs";
  }
  row->name = take_until(&line, '\t');
  row->short_name = take_until(&line, '\t');
  if (row->name.empty() || row->name.size() > kMostName || !printable(row->name, ' ')) {
    return "a name has 1 to 95 printable characters";
  }
  if (row->short_name.empty() || row->short_name.size() > kMostShortName ||
      !printable(row->short_name, '!')) {
    return "a short name has 1 to 16 printable characters and no blank";
  }
  if (line.empty()) return "no rate";
  return parse_rates(line, row);
}

}  // namespace

tl::expected<PeakAdditions, std::string> PeakAdditions::parse(std::string_view text,
                                                              const std::string& where) {
  PeakAdditions additions;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = take_until(&text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line[0] == '#') continue;
    Row row;
    std::string error = parse_row(line, &row);
    if (error.empty() && additions.find(row.name) != nullptr) error = "this device comes twice";
    if (!error.empty()) {
      return tl::make_unexpected(where + ": line " + std::to_string(number) + ": " + error);
    }
    additions.rows_.push_back(std::move(row));
  }
  return additions;
}

const PeakAdditions::Row* PeakAdditions::find(std::string_view name) const {
  for (const Row& row : rows_) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Peak PeakAdditions::peak(std::string_view device_name, Precision precision, uint32_t sms) const {
  const Row* row = find(device_name);
  const size_t index = static_cast<size_t>(precision);
  if (row != nullptr && index < kPrecisions && row->gigaflops[index] != 0) {
    return {row->gigaflops[index], PeakBasis::kFile};
  }
  return known_peak(device_name, precision, sms);
}

tl::expected<PeakAdditions, std::string> read_peak_additions(const std::string& path) {
  auto text = read_text_file(path, kMostBytes);
  if (!text) return tl::make_unexpected(text.error());
  return PeakAdditions::parse(*text, path);
}

bool is_sparse_rate(std::string_view device_name, Precision precision, uint64_t gigaflops) {
  const uint64_t sparse = 2 * known_peak(device_name, precision).gigaflops;
  return sparse != 0 && gigaflops >= sparse - sparse / 100 && gigaflops <= sparse + sparse / 100;
}

uint64_t parse_teraflops(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const size_t decimals = text.size() - point;
  if (point == 0 || point > 7 || decimals == 1 || decimals > 4) return 0;
  uint64_t gigaflops = 0;
  for (char c : text) {
    if (c == '.') continue;
    if (c < '0' || c > '9') return 0;
    gigaflops = gigaflops * 10 + static_cast<uint64_t>(c - '0');
  }
  // A second point is a character too many: it was skipped above.
  if (std::count(text.begin(), text.end(), '.') > 1) return 0;
  for (size_t i = decimals == 0 ? 1 : decimals; i < 4; ++i) gigaflops *= 10;
  return gigaflops <= 1'000'000'000 ? gigaflops : 0;
}

}  // namespace mfu
