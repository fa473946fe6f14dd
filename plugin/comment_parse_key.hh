// Which key a token of the accounting line has.
#ifndef MFU_PLUGIN_COMMENT_PARSE_KEY_HH_
#define MFU_PLUGIN_COMMENT_PARSE_KEY_HH_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace mfu {

// Finds keys by the first eight bytes of a token, as one number: a line has two dozen tokens.
template <size_t kCount>
class KeyFinder {
 public:
  // Names of at most seven bytes.
  constexpr explicit KeyFinder(const std::array<std::string_view, kCount>& names) {
    for (size_t i = 0; i < kCount; ++i) {
      Bytes text{};
      Bytes mask{};
      std::copy(names[i].begin(), names[i].end(), text.begin());
      text.at(names[i].size()) = '=';
      std::fill_n(mask.begin(), names[i].size() + 1, '\xff');
      openings_[i] = {std::bit_cast<uint64_t>(text), std::bit_cast<uint64_t>(mask)};
    }
  }

  // The place of the name that `text` begins with, a '=' behind it; kCount: none. Keys stand in
  // their order, as a rule: the search begins at the expected one.
  size_t find(std::string_view text, size_t expected) const {
    Bytes first{};
    if (text.size() >= first.size()) {
      std::memcpy(first.data(), text.data(), first.size());
    } else {
      std::copy(text.begin(), text.end(), first.begin());
    }
    const auto opening = std::bit_cast<uint64_t>(first);
    const auto is_at = [&](const Opening& key) { return (opening & key.mask) == key.text; };
    for (size_t i = expected; i < kCount; ++i) {
      if (is_at(openings_[i])) return i;
    }
    for (size_t i = 0; i < expected; ++i) {
      if (is_at(openings_[i])) return i;
    }
    return kCount;
  }

 private:
  using Bytes = std::array<char, sizeof(uint64_t)>;
  // "name=", and which of the eight bytes that is.
  struct Opening {
    uint64_t text = 0;
    uint64_t mask = 0;
  };
  std::array<Opening, kCount> openings_{};
};

}  // namespace mfu

#endif
