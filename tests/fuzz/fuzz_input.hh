// The bytes of a fuzzer's input, taken from front to back, and what fuzzers require.
#ifndef MFU_TESTS_FUZZ_FUZZ_INPUT_HH_
#define MFU_TESTS_FUZZ_FUZZ_INPUT_HH_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>

namespace mfu {

inline void require(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "line %d does not hold\n", line);
  std::abort();
}

inline bool is_printable(std::string_view text) {
  for (const char byte : text) {
    if (byte < ' ' || byte > '~') return false;
  }
  return true;
}

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : bytes_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return bytes_.empty(); }
  // What is missing at the end is zeros.
  template <typename Number>
  Number take() {
    Number number = 0;
    const std::string_view bytes = take_bytes(sizeof(number));
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }
  std::string_view take_bytes(size_t size) {
    const std::string_view bytes = bytes_.substr(0, size);
    bytes_.remove_prefix(bytes.size());
    return bytes;
  }
  // A text with its length in front.
  std::string_view take_text() { return take_bytes(take<uint16_t>()); }
  std::string_view rest() const { return bytes_; }

  // `object` with the changes that come next: up to 63 numbers in any place. All that pass for the
  // object's bytes can come about so, while few changes leave it nearly right: random bytes alone
  // would never get past the first check.
  template <typename Object>
  Object changed(Object object) {
    static_assert(std::is_trivially_copyable_v<Object>);
    constexpr uint64_t kEdges[] = {0,
                                   1,
                                   UINT32_MAX,
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 56,
                                   (uint64_t{1} << 56) + 1,
                                   uint64_t{1} << 63,
                                   UINT64_MAX};
    auto* bytes = reinterpret_cast<unsigned char*>(&object);
    for (int left = take<uint8_t>() % 64; left > 0 && !empty(); --left) {
      const size_t at = take<uint16_t>() % sizeof(object);
      const auto kind = take<uint8_t>();
      const size_t width = size_t{1} << (kind & 3);
      const uint64_t value =
          (kind & 4) != 0 ? kEdges[(kind >> 3) % std::size(kEdges)] : take<uint64_t>();
      std::memcpy(bytes + at, &value, std::min(width, sizeof(object) - at));
    }
    return object;
  }

 private:
  std::string_view bytes_;
};

}  // namespace mfu

#endif
