// Reads the words of one line of a fabric's text.
#ifndef MFU_TOPOLOGY_FABRIC_CURSOR_HH_
#define MFU_TOPOLOGY_FABRIC_CURSOR_HH_

#include <cstdint>
#include <string_view>

#include "topology/fabric.hh"

namespace mfu {

class FabricCursor {
 public:
  explicit FabricCursor(std::string_view line) : rest_(line) {}

  std::string_view rest() const { return rest_; }
  bool at_end() const { return rest_.empty(); }

  void blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool literal(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  // Decimal, at most nine digits.
  bool number(uint32_t* value) {
    size_t i = 0;
    for (*value = 0; i < rest_.size() && rest_[i] >= '0' && rest_[i] <= '9'; ++i) {
      if (i == 9) return false;
      *value = *value * 10 + static_cast<uint32_t>(rest_[i] - '0');
    }
    rest_.remove_prefix(i);
    return i > 0;
  }
  // Hexadecimal without 0x, at most 16 digits.
  bool hex(uint64_t* value) {
    size_t i = 0;
    for (*value = 0; i < rest_.size(); ++i) {
      const int digit = digit_of(rest_[i]);
      if (digit < 0) break;
      if (i == 16) return false;
      *value = *value << 4 | static_cast<uint64_t>(digit);
    }
    rest_.remove_prefix(i);
    return i > 0;
  }
  // From the first quote to the last one: what is quoted may have quotes.
  bool quoted(char quote, std::string_view* text) {
    const size_t last = rest_.rfind(quote);
    if (!literal({&quote, 1}) || last == 0) return false;
    *text = rest_.substr(0, last - 1);
    rest_.remove_prefix(last);
    return true;
  }
  // "4xNDR", "4x ???": what is not known stays 0.
  void rate(FabricPort* port) {
    uint32_t width = 0;
    if (!number(&width)) literal("??");
    literal("x");
    blanks();
    std::string_view name = rest_.substr(0, rest_.find(' '));
    port->width = width <= 12 ? static_cast<uint8_t>(width) : 0;
    port->lane_mbps = lane_rate_mbps(name);
    rest_.remove_prefix(name.size());
  }

 private:
  static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }
  std::string_view rest_;
};

}  // namespace mfu

#endif
