// How a device's time was used, over the run: at most 64 slices of equal width, whatever its
// length.
//
// A slice is kFirstWidthNs wide at first. When the run outgrows the slices, the width doubles and
// neighbours are added up. Widths are powers of two (hence 2^30 ns, 1.07 s, not 1 s) and slices
// begin at whole multiples of their width on the clock of the intervals. So slices of two series
// either coincide or lie one inside the other, and series of different processes can be added up
// exactly.
//
// As all of it lies in the record, it may come from a hostile file: fault() before use.
#ifndef MFU_PROFILER_TIME_SERIES_HH_
#define MFU_PROFILER_TIME_SERIES_HH_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mfu {

struct TimeSeries {
  static constexpr size_t kSlices = 64;
  static constexpr uint64_t kFirstWidthNs = uint64_t{1} << 30;
  // 64 of these are all of 64 bits' time.
  static constexpr uint64_t kLargestWidthNs = uint64_t{1} << 58;

  // Integer nanoseconds, each a union as in TimeSums. The first, second and fourth exclude each
  // other; idle is the width less these three.
  struct Slice {
    uint64_t compute_ns = 0;
    uint64_t exposed_communication_ns = 0;
    uint64_t overlapped_communication_ns = 0;
    uint64_t exposed_memory_ns = 0;

    void add(const Slice& other) {
      compute_ns += other.compute_ns;
      exposed_communication_ns += other.exposed_communication_ns;
      overlapped_communication_ns += other.overlapped_communication_ns;
      exposed_memory_ns += other.exposed_memory_ns;
    }
    bool operator==(const Slice&) const = default;
  };

  // Slice i reaches from origin_ns + i * width_ns to the next one. The first begins at or before
  // the first busy instant, the last one, slices[count - 1], holds the last.
  uint64_t origin_ns = 0;
  uint64_t width_ns = 0;  // 0: nothing ran, and everything else is 0 too
  uint64_t count = 0;
  Slice slices[kSlices] = {};

  // Where slice `count` would begin; UINT64_MAX when that is beyond 64 bits.
  uint64_t end_ns() const {
    const uint64_t end = origin_ns + count * width_ns;
    return count > 0 && end <= origin_ns ? UINT64_MAX : end;
  }

  // Sum over all slices.
  Slice total() const {
    Slice sum;
    for (size_t i = 0; i < count; ++i) sum.add(slices[i]);
    return sum;
  }

  // One more slice; doubles the width first if there is no room. Then the end may stay where it was
  // or have moved already: a caller goes on until the end is far enough. The first call, with
  // `instant_ns`, makes the slice of that instant.
  void grow(uint64_t instant_ns) {
    if (count == 0) {
      width_ns = kFirstWidthNs;
      origin_ns = instant_ns & ~(width_ns - 1);
      count = 1;
    } else if (count == kSlices) {
      double_width();
    } else {
      ++count;
    }
  }

  // Twice the width, neighbours added pairwise. What is inside stays as it is.
  void double_width() {
    // The origin must be a multiple of the new width: the first slice may pair with none.
    const size_t odd = (origin_ns & width_ns) != 0 ? 1 : 0;
    if (odd != 0) origin_ns -= width_ns;
    width_ns *= 2;
    for (size_t i = 0; i < count; ++i) {
      const Slice moved = slices[i];
      slices[i] = {};
      slices[(i + odd) / 2].add(moved);
    }
    count = (count + odd + 1) / 2;
  }

  // Why these bytes are no series, or nullptr for a sound one.
  const char* fault() const {
    if (count > kSlices) return "more slices than there are";
    if (width_ns == 0) {
      if (count != 0 || origin_ns != 0) return "slices without a width";
    } else {
      if (!std::has_single_bit(width_ns) || width_ns < kFirstWidthNs ||
          width_ns > kLargestWidthNs) {
        return "a width of slices that cannot be";
      }
      if (count == 0) return "a width without slices";
      if ((origin_ns & (width_ns - 1)) != 0)
        return "slices that begin at no multiple of their width";
      if ((count - 1) * width_ns > UINT64_MAX - origin_ns) return "slices beyond all time";
    }
    for (size_t i = 0; i < kSlices; ++i) {
      const Slice& slice = slices[i];
      if (i >= count) {
        if (slice != Slice{}) return "time in a slice that is not used";
        continue;
      }
      // One by one first, so that the sum does not overflow.
      if (slice.compute_ns > width_ns || slice.exposed_communication_ns > width_ns ||
          slice.exposed_memory_ns > width_ns ||
          slice.compute_ns + slice.exposed_communication_ns + slice.exposed_memory_ns > width_ns) {
        return "more time in a slice than it has";
      }
      if (slice.overlapped_communication_ns > slice.compute_ns) {
        return "more overlapped communication in a slice than compute";
      }
    }
    return nullptr;
  }
};
static_assert(std::is_trivially_copyable_v<TimeSeries>);

}  // namespace mfu

#endif
