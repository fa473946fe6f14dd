#include "profiler/microseconds.hh"

#include <algorithm>
#include <charconv>
#include <limits>

namespace mfu {
namespace {

constexpr uint64_t kLimit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A digit more; false when the value leaves the range.
bool append(uint64_t* value, uint64_t digit) {
  if (*value > (kLimit - digit) / 10) return false;
  *value = *value * 10 + digit;
  return true;
}

// mantissa x 10^exponent microseconds; the mantissa is digits with at most one point.
NumberFault scaled(std::string_view mantissa, int64_t exponent, uint64_t* nanoseconds) {
  size_t point = std::min(mantissa.find('.'), mantissa.size());
  // How many digits of the mantissa stand before the nanosecond's point.
  int64_t kept = static_cast<int64_t>(point) + exponent + 3;
  uint64_t value = 0;
  int64_t taken = 0;
  for (char c : mantissa) {
    if (c == '.') continue;
    if (taken++ >= kept) break;
    if (!append(&value, static_cast<uint64_t>(c - '0'))) return NumberFault::kOutOfRange;
  }
  for (; taken < kept && value != 0; ++taken) {
    if (!append(&value, 0)) return NumberFault::kOutOfRange;
  }
  *nanoseconds = value;
  return NumberFault::kNone;
}

}  // namespace

NumberFault parse_microseconds(std::string_view text, int64_t* nanoseconds) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  size_t size = 0;
  size_t digits = 0;
  bool point = false;
  for (; size < text.size(); ++size) {
    if (is_digit(text[size])) {
      ++digits;
    } else if (text[size] == '.' && !point) {
      point = true;
    } else {
      break;
    }
  }
  if (digits == 0) return NumberFault::kNoNumber;
  int64_t exponent = 0;
  if (size < text.size()) {
    if (text[size] != 'e' && text[size] != 'E') return NumberFault::kNoNumber;
    std::string_view written = text.substr(size + 1);
    if (written.starts_with('+')) written.remove_prefix(1);
    std::optional<int64_t> number = parse_integer(written);
    if (!number) return NumberFault::kNoNumber;
    // Beyond this every value is either 0 or out of range, whatever its digits.
    exponent = std::clamp<int64_t>(*number, -1'000'000'000, 1'000'000'000);
  }
  uint64_t value = 0;
  NumberFault fault = scaled(text.substr(0, size), exponent, &value);
  if (fault != NumberFault::kNone) return fault;
  *nanoseconds = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return NumberFault::kNone;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value;
  const char* end = text.data() + text.size();
  std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace mfu
