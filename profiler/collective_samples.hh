// Durations of some of a device's collectives, the same ones on every rank, without any rank
// talking to another: whether one is kept is decided by a hash of its kernel's name and of how many
// of that name ran before it. The n-th is the same collective on all ranks of a program that does
// the same everywhere, so a merge over ranks finds the shortest instance of each (the transfer:
// that rank came last) and what the others spent waiting.
//
// Goes into the record as it is. Zeroed memory is empty.
#ifndef MFU_PROFILER_COLLECTIVE_SAMPLES_HH_
#define MFU_PROFILER_COLLECTIVE_SAMPLES_HH_

#include <cstddef>
#include <cstdint>

namespace mfu {

class CollectiveSamples {
 public:
  static constexpr uint32_t kMost = 256;

  struct Sample {
    uint64_t key;
    uint64_t duration_ns;
  };

  // `ordinal` counts the device's kernels of the name from 0.
  void add(uint64_t name_hash, uint64_t ordinal, uint64_t duration_ns) {
    uint64_t key = (name_hash ^ ordinal * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    key = (key ^ key >> 31) * 0x94d049bb133111eb;
    key ^= key >> 29;
    if (!kept(key, halvings)) return;
    while (count == kMost) {
      thin_out();
      if (!kept(key, halvings)) return;
    }
    samples[count++] = {key, duration_ns};
  }

  // Whether a key is among those kept after so many halvings.
  static bool kept(uint64_t key, uint32_t after_halvings) {
    return (key & ((uint64_t{1} << after_halvings) - 1)) == 0;
  }

  // Why bytes of a stranger are no samples, or nullptr.
  const char* fault() const {
    if (count > kMost || halvings > kMostHalvings) return "collective samples";
    for (uint32_t i = 0; i < count; ++i) {
      if (samples[i].duration_ns > kLongestNs) return "collective sample";
    }
    return nullptr;
  }

  uint32_t count;
  uint32_t halvings;
  Sample samples[kMost];

 private:
  static constexpr uint32_t kMostHalvings = 48;
  static constexpr uint64_t kLongestNs = uint64_t{1} << 56;

  void thin_out() {
    // More keys than these halvings leave: a flood of equal ones. An endless loop would be worse.
    if (halvings == kMostHalvings) {
      count = 0;
      return;
    }
    ++halvings;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (kept(samples[i].key, halvings)) samples[left++] = samples[i];
    }
    count = left;
  }
};

}  // namespace mfu

#endif
