// The reference below knows nothing of sweeps: it marks every nanosecond of a small stretch of time
// with the classes that ran in it and counts.
#include "profiler/timeline.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/unit/interval_samples.hh"

namespace mfu {
namespace {

struct Reference {
  explicit Reference(const std::vector<Interval>& intervals) {
    for (const Interval& interval : intervals) {
      if (interval.end_ns > instants.size()) instants.resize(interval.end_ns);
      for (uint64_t t = interval.start_ns; t < interval.end_ns; ++t) instants[t] |= interval.mask;
      start = std::min(start, interval.start_ns);
    }
    for (uint8_t mask : instants) ++partition[mask];
  }
  uint64_t busy() const { return instants.size() - partition[0]; }
  uint64_t of_class(uint32_t mask) const {
    return static_cast<uint64_t>(
        std::count_if(instants.begin(), instants.end(), [mask](uint8_t m) { return m & mask; }));
  }

  std::vector<uint8_t> instants;
  uint64_t start = UINT64_MAX;
  std::array<uint64_t, kMasks> partition = {};
};

uint64_t of_class(const TimeSums& sums, uint32_t mask) {
  uint64_t total = 0;
  for (uint32_t m = 1; m < kMasks; ++m) total += (m & mask) != 0 ? sums.partition_ns[m] : 0;
  return total;
}

void expect_equal(const TimeSums& sums, const Reference& reference) {
  for (int mask = 1; mask < kMasks; ++mask) {
    EXPECT_EQ(sums.partition_ns[mask], reference.partition[mask]) << "mask " << mask;
  }
  EXPECT_EQ(sums.span_start_ns, reference.start);
  EXPECT_EQ(sums.span_end_ns, reference.instants.size());
  EXPECT_EQ(sums.busy_ns(), reference.busy());
}

// The figures of the accounting line, from the sums of one timeline.
void expect_identity(const TimeSums& sums) {
  EXPECT_EQ(sums.compute_ns() + sums.exposed_communication_ns() + sums.exposed_memory_ns() +
                sums.idle_ns(),
            sums.span_ns());
  EXPECT_LE(sums.busy_ns(), sums.span_ns());
  EXPECT_EQ(sums.overlapped_communication_ns() + sums.exposed_communication_ns(),
            of_class(sums, kCommunication));
}

TimeSums sums_of(const std::vector<Interval>& intervals, size_t capacity = 64) {
  Owned owned(capacity);
  for (const Interval& interval : intervals) {
    owned.timeline.add(interval.start_ns, interval.end_ns,
                       static_cast<ActivityMask>(interval.mask));
  }
  EXPECT_EQ(owned.timeline.late(), 0u);
  TimeSeries series;
  return sums_with_series(owned.timeline, &series);
}

TEST(Timeline, nothing_ran) {
  TimeSums sums = sums_of({});
  EXPECT_EQ(sums.span_ns(), 0u);
  EXPECT_EQ(sums.busy_ns(), 0u);
  EXPECT_EQ(sums.idle_ns(), 0u);
}

TEST(Timeline, idle_is_the_gap) {
  TimeSums sums = sums_of({{100, 150, kCompute}, {200, 210, kCommunication}});
  EXPECT_EQ(sums.span_start_ns, 100u);
  EXPECT_EQ(sums.span_end_ns, 210u);
  EXPECT_EQ(sums.compute_ns(), 50u);
  EXPECT_EQ(sums.exposed_communication_ns(), 10u);
  EXPECT_EQ(sums.idle_ns(), 50u);
}

TEST(Timeline, touching_intervals_leave_no_gap_and_do_not_overlap) {
  TimeSums sums = sums_of({{10, 20, kCompute}, {20, 30, kCommunication}, {30, 40, kCompute}});
  EXPECT_EQ(sums.compute_ns(), 20u);
  EXPECT_EQ(sums.exposed_communication_ns(), 10u);
  EXPECT_EQ(sums.overlapped_communication_ns(), 0u);
  EXPECT_EQ(sums.idle_ns(), 0u);
}

TEST(Timeline, intervals_without_length_only_reach) {
  TimeSums sums =
      sums_of({{20, 30, kCompute}, {10, 10, kMemory}, {25, 25, kMemory}, {45, 45, kMemory}});
  EXPECT_EQ(sums.span_start_ns, 10u);
  EXPECT_EQ(sums.span_end_ns, 45u);
  EXPECT_EQ(sums.busy_ns(), 10u);
  EXPECT_EQ(sums_of({{10, 10, kCompute}, {20, 20, kCompute}}).idle_ns(), 10u);
}

TEST(Timeline, a_union_never_a_sum) {
  TimeSums sums = sums_of({{10, 100, kCompute}, {20, 30, kCompute}, {10, 100, kCompute}});
  EXPECT_EQ(sums.compute_ns(), 90u);
  EXPECT_EQ(sums.busy_ns(), 90u);
}

TEST(Timeline, nesting_of_classes) {
  // communication around compute around memory
  TimeSums sums = sums_of({{0, 100, kCommunication}, {20, 80, kCompute}, {40, 60, kMemory}});
  EXPECT_EQ(sums.partition_ns[kCommunication], 40u);
  EXPECT_EQ(sums.partition_ns[kCommunication | kCompute], 40u);
  EXPECT_EQ(sums.partition_ns[kCommunication | kCompute | kMemory], 20u);
  EXPECT_EQ(sums.exposed_communication_ns(), 40u);
  EXPECT_EQ(sums.overlapped_communication_ns(), 60u);
  EXPECT_EQ(sums.exposed_memory_ns(), 0u);
}

TEST(Timeline, every_mask_by_its_own_length) {
  std::vector<Interval> intervals;
  for (uint64_t mask = 1; mask < kMasks; ++mask) {
    for (ActivityMask one : kClasses) {
      if (mask & one) intervals.push_back({1000 * mask, 1000 * mask + mask, one});
    }
  }
  TimeSums sums = sums_of(intervals);
  for (uint64_t mask = 1; mask < kMasks; ++mask) EXPECT_EQ(sums.partition_ns[mask], mask);
  EXPECT_EQ(sums.compute_ns(), 1u + 3 + 5 + 7);
  EXPECT_EQ(sums.exposed_communication_ns(), 2u + 6);
  EXPECT_EQ(sums.overlapped_communication_ns(), 3u + 7);
  EXPECT_EQ(sums.exposed_memory_ns(), 4u);
  expect_identity(sums);
}

TEST(Timeline, times_of_the_clock_are_large) {
  constexpr uint64_t kNow = 1'760'000'000'000'000'000;
  TimeSums sums = sums_of({{kNow, kNow + 1, kCompute}, {kNow + 2, kNow + 5, kMemory}});
  EXPECT_EQ(sums.compute_ns(), 1u);
  EXPECT_EQ(sums.exposed_memory_ns(), 3u);
  EXPECT_EQ(sums.idle_ns(), 1u);
}

TEST(Timeline, a_long_interval_reaches_over_many_folds) {
  std::vector<Interval> intervals = {{0, 100000, kCommunication}};
  for (uint64_t i = 0; i < 1000; ++i) intervals.push_back({100 * i, 100 * i + 30, kCompute});
  TimeSums sums = sums_of(intervals, 8);
  EXPECT_EQ(sums.compute_ns(), 30000u);
  EXPECT_EQ(sums.overlapped_communication_ns(), 30000u);
  EXPECT_EQ(sums.exposed_communication_ns(), 70000u);
  EXPECT_EQ(sums.idle_ns(), 0u);
}

TEST(Timeline, a_burst_of_equal_starts_larger_than_the_memory) {
  std::vector<Interval> intervals;
  for (uint64_t i = 0; i < 100; ++i) intervals.push_back({50, 51 + i, kClasses[i % 3]});
  for (uint64_t i = 0; i < 100; ++i) intervals.push_back({200, 201 + i, kClasses[i % 3]});
  for (size_t capacity : {8, 9, 13, 256}) {
    TimeSums sums = sums_of(intervals, capacity);
    expect_equal(sums, Reference(intervals));
    expect_identity(sums);
  }
}

TEST(Timeline, exactly_full_and_one_more) {
  for (size_t count : {7, 8, 9}) {
    std::vector<Interval> intervals;
    for (uint64_t i = 0; i < count; ++i) intervals.push_back({10 * i, 10 * i + 5, kCompute});
    EXPECT_EQ(sums_of(intervals, 8).compute_ns(), 5 * count);
  }
}

TEST(Timeline, sums_may_be_asked_for_at_any_time) {
  std::vector<Interval> intervals;
  Owned owned(8);
  for (uint64_t i = 0; i < 60; ++i) {
    intervals.push_back({3 * i, 3 * i + 1 + i % 5, kClasses[i % 3]});
    owned.timeline.add(intervals.back().start_ns, intervals.back().end_ns, kClasses[i % 3]);
    expect_equal(owned.timeline.sums(), Reference(intervals));
    expect_equal(owned.timeline.sums(), Reference(intervals));
  }
}

// Eight intervals at 0, 10, ... 70 fill the memory; the ninth folds: the horizon moves to 40.
class Late : public testing::Test {
 protected:
  Late() : owned_(8) {
    for (uint64_t i = 0; i < 9; ++i) owned_.timeline.add(10 * i, 10 * i + 1, kCompute);
    EXPECT_EQ(owned_.timeline.late(), 0u);
    EXPECT_EQ(owned_.timeline.sums().compute_ns(), 9u);
  }
  Owned owned_;
};

TEST_F(Late, wholly_before_the_horizon) {
  owned_.timeline.add(5, 15, kCompute);
  EXPECT_EQ(owned_.timeline.late(), 1u);
  EXPECT_EQ(owned_.timeline.late_ns(), 10u);
  EXPECT_EQ(owned_.timeline.sums().compute_ns(), 9u);
}

TEST_F(Late, up_to_the_horizon) {
  owned_.timeline.add(35, 40, kMemory);
  EXPECT_EQ(owned_.timeline.late(), 1u);
  EXPECT_EQ(owned_.timeline.late_ns(), 5u);
  EXPECT_EQ(owned_.timeline.sums().exposed_memory_ns(), 0u);
}

TEST_F(Late, across_the_horizon_counts_from_it) {
  owned_.timeline.add(35, 46, kCompute);
  EXPECT_EQ(owned_.timeline.late(), 1u);
  EXPECT_EQ(owned_.timeline.late_ns(), 5u);
  EXPECT_EQ(owned_.timeline.sums().compute_ns(), 9u + 5);  // 40 .. 41 was busy already
}

TEST_F(Late, at_the_horizon_is_in_time) {
  owned_.timeline.add(40, 45, kMemory);
  EXPECT_EQ(owned_.timeline.late(), 0u);
  EXPECT_EQ(owned_.timeline.sums().exposed_memory_ns(), 4u);
}

TEST_F(Late, the_span_still_grows) {
  TimeSums before = owned_.timeline.sums();
  owned_.timeline.add(1, 2, kCompute);
  EXPECT_EQ(owned_.timeline.sums().span_ns(), before.span_ns());
  Owned later(8);
  for (uint64_t i = 0; i < 9; ++i) later.timeline.add(100 + 10 * i, 101 + 10 * i, kCompute);
  later.timeline.add(50, 60, kCompute);
  EXPECT_EQ(later.timeline.sums().span_start_ns, 50u);
  EXPECT_EQ(later.timeline.late(), 1u);
  expect_identity(later.timeline.sums());
}

// The fold that makes room for an interval may itself move the horizon past it. It is late once.
TEST_F(Late, once_even_if_the_horizon_moves_meanwhile) {
  for (uint64_t i = 0; i < 3; ++i) owned_.timeline.add(100 + 10 * i, 101 + 10 * i, kCompute);
  owned_.timeline.add(30, 200, kMemory);  // before the old horizon, across the new one
  EXPECT_EQ(owned_.timeline.late(), 1u);
  TimeSums sums = owned_.timeline.sums();
  EXPECT_EQ(sums.span_end_ns, 200u);
  EXPECT_EQ(owned_.timeline.late_ns() + of_class(sums, kMemory), 170u);
}

// ---- random intervals ----

class Random : public testing::TestWithParam<Shape> {};

TEST_P(Random, agree_with_counting_every_instant) {
  std::mt19937_64 random(20240607);
  size_t exact = 0;
  size_t partly = 0;
  for (int round = 0; round < 400; ++round) {
    size_t count = 1 + random() % 300;
    size_t capacity = std::array<size_t, 6>{8, 9, 11, 16, 50, 400}[round % 6];
    std::vector<Interval> intervals = random_intervals(random, GetParam(), count);
    Reference reference(intervals);
    Owned owned(capacity);
    for (const Interval& interval : intervals) {
      owned.timeline.add(interval.start_ns, interval.end_ns,
                         static_cast<ActivityMask>(interval.mask));
      if (random() % 40 == 0) expect_identity(owned.timeline.sums());  // must disturb nothing
    }
    TimeSums sums = owned.timeline.sums();
    expect_identity(sums);
    // The span counts late ones too.
    EXPECT_EQ(sums.span_start_ns, reference.start);
    EXPECT_EQ(sums.span_end_ns, reference.instants.size());
    EXPECT_LE(owned.timeline.late(), count);
    EXPECT_EQ(owned.timeline.late() == 0, owned.timeline.late_ns() == 0);
    if (owned.timeline.late() == 0) {
      ++exact;
      expect_equal(sums, reference);
    } else {
      ++partly;
      // Time is only ever missing, and never more of it than was said to be late.
      EXPECT_LE(sums.busy_ns(), reference.busy());
      EXPECT_GE(sums.busy_ns() + owned.timeline.late_ns(), reference.busy());
      uint64_t missing = 0;
      for (ActivityMask mask : kClasses) {
        EXPECT_LE(of_class(sums, mask), reference.of_class(mask));
        missing += reference.of_class(mask) - of_class(sums, mask);
      }
      EXPECT_LE(missing, owned.timeline.late_ns());
    }
    if (count <= capacity || GetParam().jitter == 0) {
      EXPECT_EQ(owned.timeline.late(), 0u);  // nothing was folded, or in order
    }
    if (HasFailure()) FAIL() << "round " << round << ", capacity " << capacity;
  }
  EXPECT_GT(exact, 60u);
  if (GetParam().jitter >= GetParam().range) {
    EXPECT_GT(partly, 60u);
  }
}

INSTANTIATE_TEST_SUITE_P(Timelines, Random, testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- orders that sorting may fear ----

struct Order {
  const char* name;
  // The start of the i-th of `count` intervals.
  uint64_t (*start)(uint64_t i, uint64_t count);
};
void PrintTo(const Order& order, std::ostream* out) {
  *out << order.name;
}

constexpr Order kOrders[] = {
    {"ascending", [](uint64_t i, uint64_t) { return 3 * i; }},
    {"descending", [](uint64_t i, uint64_t count) { return 3 * (count - i); }},
    {"organ_pipe",
     [](uint64_t i, uint64_t count) { return i < count / 2 ? 6 * i : 6 * (count - i) - 3; }},
    {"valley",
     [](uint64_t i, uint64_t count) { return i < count / 2 ? 6 * (count - i) : 6 * i + 3; }},
    {"all_equal", [](uint64_t, uint64_t) -> uint64_t { return 7; }},
    {"few_values", [](uint64_t i, uint64_t) { return i * i % 5; }},
    {"sawtooth", [](uint64_t i, uint64_t) { return i % 37 * 11 + i / 37; }},
    {"sawtooth_down", [](uint64_t i, uint64_t) { return 400 - i % 37 * 11 + i / 37; }},
    {"two_streams_far_apart",
     [](uint64_t i, uint64_t count) { return i % 2 == 0 ? i : 2 * count + i; }},
    {"eight_streams", [](uint64_t i, uint64_t count) { return i % 8 * (count / 3) + i / 8 * 5; }},
    {"streams_by_buffer",
     [](uint64_t i, uint64_t) { return i / 100 % 4 * 7 + i / 400 * 300 + i % 100 * 3; }},
    {"just_too_far", [](uint64_t i, uint64_t) { return i % 18 == 17 ? 4 * i : 4 * i + 70; }},
    {"rotated", [](uint64_t i, uint64_t count) { return (i + count / 3) % count * 3; }},
};

class Orders : public testing::TestWithParam<Order> {};

// All of it fits, so that nothing can be late, whatever the order; asking in between sorts parts.
TEST_P(Orders, agree_with_counting_every_instant) {
  for (uint64_t count : {1, 2, 3, 16, 17, 18, 100, 1000}) {
    for (uint64_t ask : {1000, 333, 17, 1}) {
      std::vector<Interval> intervals;
      Owned owned(1000);
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t start = GetParam().start(i, count);
        intervals.push_back({start, start + 1 + i * i % 9, kClasses[i * i / 3 % 3]});
        owned.timeline.add(start, intervals[i].end_ns,
                           static_cast<ActivityMask>(intervals[i].mask));
        if (i % ask == ask - 1) owned.timeline.sums();
      }
      EXPECT_EQ(owned.timeline.late(), 0u);
      TimeSeries series;
      expect_equal(sums_with_series(owned.timeline, &series), Reference(intervals));
      if (HasFailure()) FAIL() << "count " << count << ", asked every " << ask;
    }
  }
}

// The horizon depends on what is in the older half: it must be the same as if all had been sorted.
TEST_P(Orders, fold_as_if_sorted) {
  constexpr uint64_t kCapacity = 1000;
  std::vector<Interval> intervals;
  Owned owned(kCapacity);
  for (uint64_t i = 0; i < kCapacity; ++i) {
    const uint64_t start = 100 + GetParam().start(i, kCapacity);
    intervals.push_back({start, start + 1 + i * i % 9, kClasses[i * i / 3 % 3]});
    owned.timeline.add(start, intervals[i].end_ns, static_cast<ActivityMask>(intervals[i].mask));
  }
  std::vector<Interval> sorted = intervals;
  std::sort(sorted.begin(), sorted.end(),
            [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  const uint64_t horizon = sorted[kCapacity / 2].start_ns;
  intervals.push_back({horizon, horizon + 50, kCompute});
  owned.timeline.add(horizon, horizon + 50, kCompute);  // folds; the very first that is in time
  EXPECT_EQ(owned.timeline.late(), 0u);
  TimeSeries series;
  expect_equal(sums_with_series(owned.timeline, &series), Reference(intervals));
  owned.timeline.add(horizon - 1, horizon + 1, kCompute);
  EXPECT_EQ(owned.timeline.late(), 1u);
  EXPECT_EQ(owned.timeline.late_ns(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Timelines, Orders, testing::ValuesIn(kOrders),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mfu
