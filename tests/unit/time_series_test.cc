#include "profiler/time_series.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "profiler/timeline.hh"
#include "tests/unit/interval_samples.hh"

namespace mfu {
namespace {

constexpr uint64_t kWidth = TimeSeries::kFirstWidthNs;

TEST(Series, nothing_ran) {
  Owned owned(8);
  TimeSeries series;
  series.count = 5;
  owned.timeline.add(10, 10, kCompute);
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.count, 0u);
  EXPECT_EQ(series.width_ns, 0u);
}

TEST(Series, a_timeline_without_one_leaves_it_alone) {
  std::vector<Interval> storage(16);
  Timeline timeline(storage.data(), 8);
  timeline.add(1, 5, kCompute);
  TimeSeries series;
  EXPECT_EQ(timeline.sums(&series).compute_ns(), 4u);
  EXPECT_EQ(series.count, 0u);
}

TEST(Series, begins_at_a_multiple_of_its_width) {
  Owned owned(8);
  owned.timeline.add(5 * kWidth + 100, 5 * kWidth + 130, kCompute);
  owned.timeline.add(6 * kWidth - 1, 6 * kWidth, kMemory);  // its end is the next one's begin
  TimeSeries series;
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.origin_ns, 5 * kWidth);
  EXPECT_EQ(series.width_ns, kWidth);
  ASSERT_EQ(series.count, 1u);
  EXPECT_EQ(series.slices[0], (TimeSeries::Slice{30, 0, 0, 1}));
}

TEST(Series, an_interval_is_cut_at_the_edges) {
  Owned owned(8);
  owned.timeline.add(kWidth - 10, 3 * kWidth + 20, kCommunication);
  owned.timeline.add(2 * kWidth - 5, 2 * kWidth + 7, kCompute);
  owned.timeline.add(3 * kWidth + 15, 3 * kWidth + 25, kMemory);
  TimeSeries series;
  sums_with_series(owned.timeline, &series);
  ASSERT_EQ(series.count, 4u);
  EXPECT_EQ(series.slices[0], (TimeSeries::Slice{0, 10, 0, 0}));
  EXPECT_EQ(series.slices[1], (TimeSeries::Slice{5, kWidth - 5, 5, 0}));
  EXPECT_EQ(series.slices[2], (TimeSeries::Slice{7, kWidth - 7, 7, 0}));
  EXPECT_EQ(series.slices[3], (TimeSeries::Slice{0, 20, 0, 5}));
}

TEST(Series, the_width_doubles_when_the_run_outgrows_it) {
  Owned owned(8);
  // From an odd multiple of the width: the first slice pairs with none.
  for (uint64_t i = 0; i < TimeSeries::kSlices; ++i) {
    owned.timeline.add((3 + i) * kWidth, (3 + i) * kWidth + 1 + i, kCompute);
  }
  TimeSeries series;
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.width_ns, kWidth);
  EXPECT_EQ(series.count, 64u);
  owned.timeline.add(67 * kWidth + 5, 67 * kWidth + 6, kMemory);
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.width_ns, 2 * kWidth);
  EXPECT_EQ(series.origin_ns, 2 * kWidth);
  ASSERT_EQ(series.count, 33u);
  EXPECT_EQ(series.slices[0], (TimeSeries::Slice{1, 0, 0, 0}));
  EXPECT_EQ(series.slices[1], (TimeSeries::Slice{2 + 3, 0, 0, 0}));
  EXPECT_EQ(series.slices[31], (TimeSeries::Slice{62 + 63, 0, 0, 0}));
  EXPECT_EQ(series.slices[32], (TimeSeries::Slice{64, 0, 0, 1}));
}

TEST(Series, the_origin_moves_down_until_the_first_fold) {
  Owned owned(8);
  owned.timeline.add(100 * kWidth, 100 * kWidth + 8, kCompute);
  TimeSeries series;
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.origin_ns, 100 * kWidth);
  owned.timeline.add(90 * kWidth, 90 * kWidth + 9, kCompute);
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.origin_ns, 90 * kWidth);
  EXPECT_EQ(series.slices[0].compute_ns, 9u);
  EXPECT_EQ(series.slices[10].compute_ns, 8u);
  for (uint64_t i = 1; i <= 7; ++i) owned.timeline.add((100 + i) * kWidth, 200 * kWidth, kCompute);
  owned.timeline.add(80 * kWidth, 80 * kWidth + 9, kCompute);  // late: not lost silently
  EXPECT_EQ(owned.timeline.late(), 1u);
  EXPECT_EQ(sums_with_series(owned.timeline, &series).span_start_ns, 80 * kWidth);
  EXPECT_EQ(series.origin_ns, 90 * kWidth);
}

TEST(Series, all_time_there_is) {
  Owned owned(8);
  owned.timeline.add(0, 7, kCompute);
  owned.timeline.add(UINT64_MAX / 2, UINT64_MAX, kMemory);
  owned.timeline.add(UINT64_MAX - 1, UINT64_MAX, kCompute);
  TimeSeries series;
  sums_with_series(owned.timeline, &series);
  EXPECT_EQ(series.width_ns, TimeSeries::kLargestWidthNs);
  EXPECT_EQ(series.count, 64u);
  EXPECT_EQ(series.slices[0].compute_ns, 7u);
  EXPECT_EQ(series.slices[31].exposed_memory_ns, 1u);
  EXPECT_EQ(series.slices[40].exposed_memory_ns, series.width_ns);
  EXPECT_EQ(series.slices[63].compute_ns, 1u);
}

// Cuts time at every edge, of intervals and of slices, and asks every interval about every piece.
std::vector<TimeSeries::Slice> slices_of(const std::vector<Interval>& intervals,
                                         const TimeSeries& series) {
  std::vector<uint64_t> edges;
  for (const Interval& interval : intervals) {
    edges.push_back(interval.start_ns);
    edges.push_back(interval.end_ns);
  }
  for (uint64_t i = 0; i <= series.count; ++i) {
    edges.push_back(series.origin_ns + i * series.width_ns);
  }
  std::sort(edges.begin(), edges.end());
  std::vector<TimeSeries::Slice> slices(series.count);
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    uint32_t mask = 0;
    for (const Interval& interval : intervals) {
      if (interval.start_ns <= edges[i] && edges[i] < interval.end_ns) mask |= interval.mask;
    }
    if (mask == 0) continue;
    const uint64_t length = edges[i + 1] - edges[i];
    TimeSeries::Slice& slice = slices.at((edges[i] - series.origin_ns) / series.width_ns);
    if (mask & kCompute) slice.compute_ns += length;
    if ((mask & 3) == kCommunication) slice.exposed_communication_ns += length;
    if ((mask & 3) == 3) slice.overlapped_communication_ns += length;
    if (mask == kMemory) slice.exposed_memory_ns += length;
  }
  return slices;
}

class RandomSeries : public testing::TestWithParam<Shape> {};

TEST_P(RandomSeries, agrees_with_cutting_at_every_edge) {
  std::mt19937_64 random(20250131);
  size_t exact = 0;
  uint64_t widest = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random() % 100;
    const size_t capacity = std::array<size_t, 5>{8, 9, 16, 50, 400}[round % 5];
    // From far inside one slice to ones that double many times.
    const uint64_t scale = uint64_t{1} << (18 + random() % 20);
    const uint64_t base = random() % (UINT64_MAX / 4);
    std::vector<Interval> intervals = random_intervals(random, GetParam(), count);
    Owned owned(capacity);
    TimeSeries series;
    for (Interval& interval : intervals) {
      interval.start_ns = base + interval.start_ns * scale + random() % scale;
      interval.end_ns = base + interval.end_ns * scale + random() % scale + scale;
      owned.timeline.add(interval.start_ns, interval.end_ns,
                         static_cast<ActivityMask>(interval.mask));
      if (random() % 20 == 0) sums_with_series(owned.timeline, &series);
    }
    sums_with_series(owned.timeline, &series);
    widest = std::max(widest, series.width_ns);
    // The last doubling was needed.
    if (series.width_ns > kWidth) {
      EXPECT_GT(series.count, TimeSeries::kSlices / 2 - 1);
    }
    if (owned.timeline.late() == 0) {
      ++exact;
      const std::vector<TimeSeries::Slice> slices = slices_of(intervals, series);
      for (size_t i = 0; i < slices.size(); ++i) EXPECT_EQ(series.slices[i], slices[i]) << i;
      EXPECT_NE(slices.front(), TimeSeries::Slice{});
      EXPECT_NE(slices.back(), TimeSeries::Slice{});
    }
    if (HasFailure()) FAIL() << "round " << round << ", capacity " << capacity;
  }
  EXPECT_GT(exact, 30u);
  EXPECT_GE(widest, kWidth);
}

INSTANTIATE_TEST_SUITE_P(Timelines, RandomSeries, testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- bytes from a file ----

class HostileSeries : public testing::Test {
 protected:
  HostileSeries() {
    Owned owned(8);
    owned.timeline.add(kWidth, 3 * kWidth, kCompute);
    owned.timeline.add(kWidth + 5, 4 * kWidth, kCommunication);
    sums_with_series(owned.timeline, &series_);
    EXPECT_EQ(series_.count, 3u);
    EXPECT_EQ(series_.fault(), nullptr);
  }
  TimeSeries series_;
};

TEST_F(HostileSeries, no_width) {
  EXPECT_EQ(TimeSeries().fault(), nullptr);
  series_.width_ns = 0;
  EXPECT_NE(series_.fault(), nullptr);
  TimeSeries origin;
  origin.origin_ns = kWidth;
  EXPECT_NE(origin.fault(), nullptr);
  TimeSeries used;
  used.slices[63].compute_ns = 1;
  EXPECT_NE(used.fault(), nullptr);
}

TEST_F(HostileSeries, odd_widths) {
  TimeSeries empty;
  empty.width_ns = kWidth;
  EXPECT_NE(empty.fault(), nullptr);
  series_ = TimeSeries();
  series_.count = 1;
  for (uint64_t width : {kWidth / 2, kWidth + 1, 3 * kWidth, uint64_t{1} << 59, UINT64_MAX}) {
    series_.width_ns = width;
    EXPECT_NE(series_.fault(), nullptr) << width;
  }
  for (uint64_t width : {kWidth, 2 * kWidth, uint64_t{1} << 58}) {
    series_.width_ns = width;
    EXPECT_EQ(series_.fault(), nullptr) << width;
  }
}

TEST_F(HostileSeries, beyond_the_slices) {
  TimeSeries many = series_;
  for (uint64_t count : {uint64_t{65}, uint64_t{1} << 32, UINT64_MAX}) {
    many.count = count;
    EXPECT_NE(many.fault(), nullptr) << count;
  }
  series_.count = 2;  // the third holds time
  EXPECT_NE(series_.fault(), nullptr);
}

TEST_F(HostileSeries, beyond_all_time) {
  series_.origin_ns = kWidth + 1;
  EXPECT_NE(series_.fault(), nullptr);
  series_.origin_ns = UINT64_MAX - kWidth + 1;  // the last slice there is
  EXPECT_NE(series_.fault(), nullptr);
  series_.origin_ns = UINT64_MAX - 3 * kWidth + 1;
  EXPECT_EQ(series_.fault(), nullptr);
}

TEST_F(HostileSeries, more_time_than_there_is) {
  TimeSeries series = series_;
  ++series.slices[0].exposed_memory_ns;  // full already
  EXPECT_NE(series.fault(), nullptr);
  series = series_;
  series.slices[2] = {UINT64_MAX, 1, 0, 0};  // their sum is 0
  EXPECT_NE(series.fault(), nullptr);
  series.slices[2] = {0, UINT64_MAX, 0, 1};
  EXPECT_NE(series.fault(), nullptr);
  series.slices[2] = {0, 1, 0, UINT64_MAX};
  EXPECT_NE(series.fault(), nullptr);
  series = series_;
  series.slices[1].overlapped_communication_ns = series.slices[1].compute_ns + 1;
  EXPECT_NE(series.fault(), nullptr);
}

}  // namespace
}  // namespace mfu
