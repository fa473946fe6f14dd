// Decimal microseconds, as trace files write them, to integer nanoseconds: exactly, without
// floating point (a double of today's date has steps of 0.25 microseconds).
#ifndef MFU_PROFILER_MICROSECONDS_HH_
#define MFU_PROFILER_MICROSECONDS_HH_

#include <cstdint>
#include <optional>
#include <string_view>

namespace mfu {

enum class NumberFault : uint8_t { kNone, kNoNumber, kOutOfRange };

// Digits beyond the nanosecond are dropped. "12.5", "-3", "1.5e3".
NumberFault parse_microseconds(std::string_view text, int64_t* nanoseconds);

// A decimal integer that fits; nothing else.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace mfu

#endif
