// Intervals for tests, of any order, and a timeline to put them into.
#ifndef MFU_TESTS_UNIT_INTERVAL_SAMPLES_HH_
#define MFU_TESTS_UNIT_INTERVAL_SAMPLES_HH_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "profiler/timeline.hh"

namespace mfu {

inline constexpr std::array<ActivityMask, 3> kClasses = {kCompute, kCommunication, kMemory};

// A timeline with its memory.
class Owned {
 public:
  explicit Owned(size_t capacity)
      : storage_(2 * capacity), timeline(storage_.data(), capacity, &series_) {}

 private:
  std::vector<Interval> storage_;
  TimeSeries series_;

 public:
  Timeline timeline;
};

// The series agrees with the sums that come with it; those.
inline TimeSums sums_with_series(Timeline& timeline, TimeSeries* series) {
  TimeSums sums = timeline.sums(series);
  EXPECT_EQ(series->fault(), nullptr);
  TimeSeries::Slice total;
  for (const TimeSeries::Slice& slice : series->slices) total.add(slice);
  EXPECT_EQ(total.compute_ns, sums.compute_ns());
  EXPECT_EQ(total.exposed_communication_ns, sums.exposed_communication_ns());
  EXPECT_EQ(total.overlapped_communication_ns, sums.overlapped_communication_ns());
  EXPECT_EQ(total.exposed_memory_ns, sums.exposed_memory_ns());
  EXPECT_EQ(series->count == 0, sums.busy_ns() == 0);
  return sums;
}

struct Shape {
  const char* name;
  uint64_t range;
  uint64_t longest;
  uint64_t jitter;  // how far from the order of starts an interval may come; the range: any order
};

inline constexpr Shape kShapes[] = {
    Shape{"in_order", 5000, 200, 0},        Shape{"in_order_crowded", 60, 40, 0},
    Shape{"in_order_sparse", 20000, 30, 0}, Shape{"nearly", 5000, 200, 60},
    Shape{"nearly_long", 5000, 3000, 200},  Shape{"any_order", 3000, 300, 3000},
    Shape{"any_order_crowded", 40, 60, 40},
};

inline std::vector<Interval> random_intervals(std::mt19937_64& random, const Shape& shape,
                                              size_t count) {
  auto below = [&random](uint64_t limit) { return random() % limit; };
  struct Arrival {
    uint64_t order;
    Interval interval;
  };
  std::vector<Arrival> arrivals;
  for (size_t i = 0; i < count; ++i) {
    uint64_t start = below(shape.range);
    uint64_t end = start + 1 + below(below(4) == 0 ? shape.longest : 1 + shape.longest / 20);
    arrivals.push_back({start + below(shape.jitter + 1), {start, end, kClasses[below(3)]}});
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.order < b.order; });
  std::vector<Interval> intervals;
  for (const Arrival& arrival : arrivals) intervals.push_back(arrival.interval);
  if (shape.jitter >= shape.range) std::shuffle(intervals.begin(), intervals.end(), random);
  return intervals;
}

}  // namespace mfu

#endif
