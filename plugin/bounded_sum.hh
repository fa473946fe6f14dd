// Sums over hostile records must not wrap: they stop at a bound, above which a peer's sums are not
// believed either.
#ifndef MFU_PLUGIN_BOUNDED_SUM_HH_
#define MFU_PLUGIN_BOUNDED_SUM_HH_

#include <algorithm>
#include <cstdint>

namespace mfu {

inline constexpr uint64_t kMostSum = uint64_t{1} << 63;

// *sum is at most kMostSum.
inline void add_bounded(uint64_t* sum, uint64_t value) {
  *sum += std::min(value, kMostSum - *sum);
}

}  // namespace mfu

#endif
