// Reading a value of the accounting line, byte by byte.
#ifndef MFU_PLUGIN_VALUE_READER_HH_
#define MFU_PLUGIN_VALUE_READER_HH_

#include <algorithm>
#include <cstddef>
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
    uint128 result = 0;
    for (; ok_ && at_ < text_.size(); ++at_) {
      const char byte = text_[at_];
      unsigned digit = base;
      if (byte >= '0' && byte <= '9') digit = static_cast<unsigned>(byte - '0');
      if (byte >= 'a' && byte <= 'z') digit = static_cast<unsigned>(byte - 'a') + 10;
      if (digit >= base) break;
      result = result * base + digit;  // no more than 36 * kMostFlop: far from 128 bits
      if (result > most) refuse();
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
