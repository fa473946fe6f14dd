// What GPU operations amount to: the partition of time by Timeline, the code of the injected
// library, and sums by class, collective and precision as in its record.
#ifndef MFU_PROFILER_ATTRIBUTION_HH_
#define MFU_PROFILER_ATTRIBUTION_HH_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "profiler/kernel.hh"
#include "profiler/timeline.hh"

namespace mfu {

struct CountedTime {
  uint64_t count = 0;
  uint64_t ns = 0;  // sum of durations: concurrent ones count twice
  void add(uint64_t duration_ns) {
    ++count;
    ns += duration_ns;
  }
  void add(const CountedTime& other) {
    count += other.count;
    ns += other.ns;
  }
};

struct Attribution {
  TimeSums time;
  uint64_t late = 0;  // operations kept out of `time`: 0, as they come in order
  CountedTime compute, communication, memory;
  CountedTime collectives[kCollectives];
  uint64_t gemm_ns[kPrecisions] = {};

  uint64_t communication_ns() const {
    return time.exposed_communication_ns() + time.overlapped_communication_ns();
  }
  uint64_t memory_ns() const {
    return time.partition_ns[4] + time.partition_ns[5] + time.partition_ns[6] +
           time.partition_ns[7];
  }
  // The span of the sum is the sum of the spans: GPU time.
  void add(const Attribution& other) {
    for (int i = 0; i < kMasks; ++i) time.partition_ns[i] += other.time.partition_ns[i];
    time.span_end_ns += other.time.span_ns();
    late += other.late;
    compute.add(other.compute);
    communication.add(other.communication);
    memory.add(other.memory);
    for (int i = 0; i < kCollectives; ++i) collectives[i].add(other.collectives[i]);
    for (int i = 0; i < kPrecisions; ++i) gemm_ns[i] += other.gemm_ns[i];
  }
};

// Takes operations in order of start. Then the smallest timeline is exact: its horizon never passes
// a start that is still to come.
class Attributor {
 public:
  void add(uint64_t start_ns, uint64_t end_ns, ActivityMask mask, const KernelKind& kind) {
    const uint64_t duration = end_ns - start_ns;
    if (!begun_) sums_.time.span_start_ns = start_ns;
    begun_ = true;
    // An operation without duration takes no time, yet the span reaches to it.
    sums_.time.span_end_ns = std::max(sums_.time.span_end_ns, end_ns);
    if (duration > 0) timeline_.add(start_ns, end_ns, mask);
    switch (mask) {
      case kCompute:
        sums_.compute.add(duration);
        if (kind.gemm) sums_.gemm_ns[static_cast<int>(kind.precision)] += duration;
        break;
      case kCommunication:
        sums_.communication.add(duration);
        sums_.collectives[static_cast<int>(kind.collective)].add(duration);
        break;
      case kMemory:
        sums_.memory.add(duration);
        break;
    }
  }

  Attribution sums() {
    Attribution result = sums_;
    const TimeSums time = timeline_.sums();
    std::copy_n(time.partition_ns, kMasks, result.time.partition_ns);
    result.late = timeline_.late();
    return result;
  }

 private:
  static constexpr size_t kCapacity = 8;

  Attribution sums_;
  bool begun_ = false;
  std::unique_ptr<Interval[]> storage_ = std::make_unique<Interval[]>(2 * kCapacity);
  Timeline timeline_{storage_.get(), kCapacity};
};

}  // namespace mfu

#endif
