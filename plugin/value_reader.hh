// Reading a value of the accounting line, byte by byte.
#ifndef MFU_PLUGIN_VALUE_READER_HH_
#define MFU_PLUGIN_VALUE_READER_HH_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plugin/comment.hh"

namespace mfu {

// A value being read from front to back. After the first thing that is wrong it stands still.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : text_(text) {}

  bool at_end() const { return ok_ && at_ == text_.size(); }
  // The next byte; 0 behind the last one.
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  size_t at() const { return at_; }
  void refuse() { ok_ = false; }

  bool skip(std::string_view expected) {
    if (!ok_ || !text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  void expect(std::string_view expected) {
    if (!skip(expected)) refuse();
  }

  // Up to the first of `stops`, or to the end.
  std::string_view until(std::string_view stops) {
    if (!ok_) return {};
    const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }

  // A number without leading zeros, at most `most`, which is at most kMostFlop.
  uint128 number(unsigned base, uint128 most) {
    const size_t start = at_;
    uint64_t scale = 1;
    uint128 result = chunk(base, &scale);
    if (at_ == start + kChunk || result > most) {
      at_ = start;
      result = long_number(base, most);
    }
    if (at_ == start || (text_[start] == '0' && at_ > start + 1)) refuse();
    return ok_ ? result : 0;
  }

  // "12", "0.031". The value follows from the sums and is of no interest.
  void figure() {
    number(10, kMostFlop);
    if (skip(".")) digits();
  }
  void percent() {
    if (skip("n/a")) return;
    figure();
    expect("%");
  }

  // "(reason)", or nothing.
  std::string remark() {
    if (!skip("(")) return "";
    std::string text = reason();
    expect(")");
    return text;
  }

  std::string reason() {
    const std::string_view found = until(")");
    if (found.empty() || fit_reason(found) != found) refuse();
    return std::string(found);
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

  // The next digits, at most kChunk of them; *scale: the base to the power of their number.
  uint64_t chunk(unsigned base, uint64_t* scale) {
    const size_t end = ok_ ? std::min(at_ + kChunk, text_.size()) : at_;
    uint64_t result = 0;
    for (; at_ < end; ++at_) {
      const unsigned next = digit(text_[at_]);
      if (next >= base) break;
      result = result * base + next;
      *scale *= base;
    }
    return result;
  }

  // Any number of digits.
  [[gnu::noinline]] uint128 long_number(unsigned base, uint128 most) {
    const size_t start = at_;
    uint64_t scale = 1;
    uint128 result = chunk(base, &scale);
    const size_t behind = at_;
    scale = 1;
    const uint64_t low = chunk(base, &scale);
    result = result * scale + low;  // below 36^24
    if (at_ < behind + kChunk && result <= most) return result;
    // Too large, most likely: one by one, up to the digit with which it is.
    at_ = start;
    result = 0;
    for (; ok_ && at_ < text_.size(); ++at_) {
      const unsigned next = digit(text_[at_]);
      if (next >= base) break;
      result = result * base + next;  // no more than 36 * kMostFlop: far from 128 bits
      if (result > most) refuse();
    }
    return result;
  }

  void digits() {
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == start) refuse();
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace mfu

#endif
