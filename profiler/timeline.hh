// Attribution of one device's time: exact unions of integer nanosecond intervals.
//
// Every instant is in one of eight sets, told by a mask of what ran then: compute, communication,
// memory (copies and fills). The sums per mask are the whole result; all figures derive from them:
//   compute                  = any mask with kCompute
//   exposed communication    = kCommunication without kCompute
//   overlapped communication = kCommunication with kCompute
//   exposed memory           = kMemory alone
//   idle                     = span - all of them, span = first start .. last end
// so compute + exposed communication + exposed memory + idle == span holds by construction.
#ifndef MFU_PROFILER_TIMELINE_HH_
#define MFU_PROFILER_TIMELINE_HH_

#include <cstddef>
#include <cstdint>

#include "profiler/time_series.hh"

namespace mfu {

enum ActivityMask : uint32_t { kCompute = 1, kCommunication = 2, kMemory = 4 };
inline constexpr int kMasks = 8;

// Integer nanoseconds. partition_ns[mask] is the time during which exactly the classes of `mask`
// ran; partition_ns[0] is not used (idle is derived).
struct TimeSums {
  uint64_t span_start_ns = 0;  // CLOCK_REALTIME; start == end == 0: nothing ran
  uint64_t span_end_ns = 0;
  uint64_t partition_ns[kMasks] = {};

  uint64_t compute_ns() const {
    return partition_ns[1] + partition_ns[3] + partition_ns[5] + partition_ns[7];
  }
  uint64_t exposed_communication_ns() const { return partition_ns[2] + partition_ns[6]; }
  uint64_t overlapped_communication_ns() const { return partition_ns[3] + partition_ns[7]; }
  uint64_t exposed_memory_ns() const { return partition_ns[4]; }
  uint64_t busy_ns() const {
    return compute_ns() + exposed_communication_ns() + exposed_memory_ns();
  }
  uint64_t span_ns() const { return span_end_ns - span_start_ns; }
  uint64_t idle_ns() const { return span_ns() - busy_ns(); }
};

struct Interval {
  uint64_t start_ns;
  uint64_t end_ns;  // > start_ns
  uint32_t mask;    // one ActivityMask bit
};

// Online, any order, fixed memory. Intervals are kept until `capacity` of them wait; then the older
// half is folded into the sums and the fold's horizon moves up. A later interval that begins before
// the horizon is late: the part of it before the horizon is counted in late_ns and kept out, the
// rest counts as usual. Not thread-safe. Allocates nothing: the owner hands in the memory, so that
// the injected library (no C++ runtime) and mfu-analyze run the same code.
//
// Cheapest in order of start, and nearly so in order of end or where each stream is in order; any
// order costs at most O(n log n).
class Timeline {
 public:
  // `storage` holds 2 * capacity intervals, `series` is an empty one for what was folded, or
  // nullptr; both outlive the timeline and are its own. capacity >= 8.
  Timeline(Interval* storage, size_t capacity, TimeSeries* series = nullptr)
      : pending_(storage), capacity_(capacity), folded_series_(series) {}

  // start_ns <= end_ns is the caller's duty (see kernel records' sanity checks).
  void add(uint64_t start_ns, uint64_t end_ns, ActivityMask mask);

  // The sums of everything added so far, the waiting intervals included. Sorts what waits.
  //
  // `series`, if not null, becomes the same over time; the timeline must have got one. Of each of
  // its figures the total is exactly that of these sums. Its origin is final with the first fold:
  // before, an earlier interval may still move it down; after, an earlier one is late. Intervals
  // without length and late ones reach into the span but not into the series.
  TimeSums sums(TimeSeries* series = nullptr);

  uint64_t late() const { return late_; }        // intervals (partly) kept out
  uint64_t late_ns() const { return late_ns_; }  // time kept out

  // Of intervals that came in order of start, for every set of classes (a mask).
  struct Unions {
    uint64_t reach_ns[kMasks] = {};   // the latest end of an interval of the set
    uint64_t length_ns[kMasks] = {};  // time in which at least one of the set ran
  };

 private:
  void insert(uint64_t start_ns, uint64_t end_ns, uint32_t mask);
  void sort_pending();
  void fold_half();

  Interval* pending_;
  size_t capacity_;
  size_t count_ = 0;
  // pending_ is a sequence of runs in order of start. While there is one only, run_ == 0.
  size_t run_ = 0;     // begin of the last run
  size_t sorted_ = 0;  // end of the first run, if run_ > 0
  uint64_t horizon_ns_ = 0;
  uint64_t span_start_ns_ = UINT64_MAX;
  uint64_t span_end_ns_ = 0;
  Unions folded_;
  TimeSeries* folded_series_;
  uint64_t late_ = 0;
  uint64_t late_ns_ = 0;
};

}  // namespace mfu

#endif
