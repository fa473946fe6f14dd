// Reading a value of the accounting line, byte by byte.
#ifndef MFU_PLUGIN_VALUE_READER_HH_
#define MFU_PLUGIN_VALUE_READER_HH_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "plugin/comment.hh"

namespace mfu {

// A value being read from front to back. After the first thing that is wrong it stands still. It
// makes no copies: a report reads a million lines. What it returns lies in the text.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text)
      : begin_(text.data()), next_(begin_), end_(begin_ + text.size()) {}

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && next_ == end_; }
  // The next byte; 0 behind the last one.
  char next() const { return next_ != end_ ? *next_ : '\0'; }
  size_t at() const { return static_cast<size_t>(next_ - begin_); }
  std::string_view rest() const { return {next_, static_cast<size_t>(end_ - next_)}; }
  void refuse() { ok_ = false; }
  // The next bytes, which are there, have been looked at.
  void pass(size_t bytes) { next_ += bytes; }

  bool skip(char expected) {
    if (!ok_ || next_ == end_ || *next_ != expected) return false;
    ++next_;
    return true;
  }
  bool skip(std::string_view expected) {
    if (!ok_ || !rest().starts_with(expected)) return false;
    next_ += expected.size();
    return true;
  }
  template <typename Expected>
  void expect(Expected expected) {
    if (!skip(expected)) refuse();
  }

  // Up to the first of `stops`, or to the end.
  std::string_view until(std::string_view stops) {
    if (!ok_) return {};
    return take_until(next_ + std::min(rest().find_first_of(stops), rest().size()));
  }
  // Up to the first of `stops`, to a blank, or to the end.
  template <typename... Stops>
  std::string_view word(Stops... stops) {
    if (!ok_) return {};
    const char* at = next_;
    while (at != end_ && *at != ' ' && (... && (*at != stops))) ++at;
    return take_until(at);
  }
  // Nothing was wrong, and here is a blank or the end.
  bool at_word_end() const { return ok_ && (next_ == end_ || *next_ == ' '); }

  // A number without leading zeros, at most `most`, which is at most kMostFlop.
  uint128 number(unsigned base, uint128 most) {
    const char* const start = next_;
    const uint64_t first = chunk(base);
    uint128 result = first;
    if (next_ == start + kChunk || result > most) result = long_number(start, base, most, first);
    if (next_ == start || (*start == '0' && next_ > start + 1)) refuse();
    return ok_ ? result : 0;
  }

  // "12", "0.031". The value follows from the sums and is of no interest.
  void figure() {
    number(10, kMostFlop);
    if (!skip('.')) return;
    const char* const start = next_;
    while (next_ != end_ && digit(*next_) < 10) ++next_;
    if (next_ == start) refuse();
  }
  void percent() {
    if (skip("n/a")) return;
    figure();
    expect('%');
  }

  // "(reason)", or nothing.
  std::string_view remark() {
    if (!skip('(')) return {};
    const std::string_view text = reason();
    expect(')');
    return text;
  }

  std::string_view reason() {
    const std::string_view found = word(')');
    if (found.empty() || fit_reason(found) != found) refuse();
    return found;
  }

 private:
  static constexpr size_t kChunk = 12;  // digits that 64 bits hold, whatever the base

  // Of a digit its value; 36 for all other bytes. A table: a line has hundreds of digits.
  static unsigned digit(char byte) { return kDigits[static_cast<unsigned char>(byte)]; }
  static constexpr auto kDigits = [] {
    std::array<uint8_t, 256> values{};
    values.fill(36);
    for (uint8_t i = 0; i < 36; ++i)
      values[static_cast<size_t>(i < 10 ? '0' + i : 'a' + i - 10)] = i;
    return values;
  }();

  std::string_view take_until(const char* stop) {
    const std::string_view found(next_, static_cast<size_t>(stop - next_));
    next_ = stop;
    return found;
  }

  // The next digits, at most kChunk of them.
  uint64_t chunk(unsigned base) {
    if (!ok_) return 0;
    const char* at = next_;
    const char* const end = at + std::min(kChunk, static_cast<size_t>(end_ - at));
    uint64_t result = 0;
    for (; at != end; ++at) {
      const unsigned value = digit(*at);
      if (value >= base) break;
      result = result * base + value;
    }
    next_ = at;
    return result;
  }

  // Any number of digits from `start` on, of which chunk() has read the first ones as `high`.
  [[gnu::noinline]] uint128 long_number(const char* start, unsigned base, uint128 most,
                                        uint64_t high) {
    const char* const middle = next_;
    const uint64_t low = chunk(base);
    uint64_t scale = 1;
    for (const char* at = middle; at != next_; ++at) scale *= base;
    uint128 result = uint128{high} * scale + low;  // below 36^24
    if (next_ < middle + kChunk && result <= most) return result;
    // Too large, most likely: one by one, up to the digit with which it is.
    next_ = start;
    result = 0;
    for (; ok_ && next_ != end_; ++next_) {
      const unsigned value = digit(*next_);
      if (value >= base) break;
      result = result * base + value;  // no more than 36 * kMostFlop: far from 128 bits
      if (result > most) refuse();
    }
    return result;
  }

  const char* begin_;
  const char* next_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace mfu

#endif
