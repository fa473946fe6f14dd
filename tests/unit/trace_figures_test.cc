// The figures of small traces worked out by hand, sorting on disk, and stragglers.
#include "profiler/trace_figures.hh"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "profiler/collective_skew.hh"
#include "profiler/sorted_spill.hh"

namespace mfu {
namespace {

TraceOperation operation(OperationKind kind, const char* name, int64_t start, int64_t duration,
                         std::optional<int64_t> correlation = {}, int64_t device = 0) {
  TraceOperation made;
  made.kind = kind;
  made.name = name;
  made.start_ns = start;
  made.duration_ns = duration;
  made.correlation = correlation;
  made.device = device;
  made.stream = "7";
  return made;
}
TraceOperation kernel(int64_t start, int64_t duration, std::optional<int64_t> correlation = {},
                      int64_t device = 0) {
  return operation(OperationKind::kKernel, "gemm", start, duration, correlation, device);
}
constexpr char kAllReduce[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";

class Builder : public FigureBuilder {
 public:
  explicit Builder(size_t memory = 1 << 20, int slices = 0) : FigureBuilder({slices, memory}) {}
  TraceFigures done(const TraceHead& head = {}, CollectiveSkew* skew = nullptr,
                    size_t participant = 0) {
    TraceFigures figures;
    std::string error;
    EXPECT_TRUE(finish(head, skew, participant, &figures, &error)) << error;
    return figures;
  }
};

// ---- sorting ----

TEST(SortedSpill, AnyOrderAnyMemory) {
  std::mt19937_64 random(3);
  for (size_t count : {0, 1, 2, 3, 1000, 20000}) {
    std::vector<uint64_t> expected;
    for (size_t i = 0; i < count; ++i) expected.push_back(random() % 5000);
    for (size_t memory : {16, 4096, 100000, 1 << 20}) {
      SortedSpill<uint64_t, std::less<>> spill(memory);
      for (uint64_t value : expected) spill.add(value);
      EXPECT_EQ(spill.count(), count);
      std::vector<uint64_t> sorted;
      while (const uint64_t* value = spill.next()) sorted.push_back(*value);
      EXPECT_EQ(spill.next(), nullptr);
      EXPECT_EQ(spill.error(), "");
      std::vector<uint64_t> wanted = expected;
      std::sort(wanted.begin(), wanted.end());
      EXPECT_EQ(sorted, wanted) << count << " in " << memory;
    }
  }
}

TEST(SortedSpill, NoPlaceToSpill) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/nonexistent", 1);
  SortedSpill<uint64_t, std::less<>> spill(16);
  for (uint64_t i = 0; i < 100; ++i) spill.add(i);
  EXPECT_EQ(spill.next(), nullptr);
  EXPECT_NE(spill.error().find("No such file"), std::string::npos);
  Builder builder(16);
  for (int64_t i = 0; i < 100; ++i) builder.operation(kernel(i, 1));
  TraceFigures figures;
  std::string error;
  EXPECT_FALSE(builder.finish({}, nullptr, 0, &figures, &error));
  EXPECT_NE(error, "");
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", kept.c_str(), 1);
  }
}

// ---- figures ----

TEST(TraceFigures, OrderDoesNotMatter) {
  std::mt19937_64 random(5);
  std::vector<TraceOperation> operations;
  for (int i = 0; i < 5000; ++i) {
    const int64_t start = 1 + static_cast<int64_t>(random() % 1'000'000);
    const int64_t duration = static_cast<int64_t>(random() % 400);
    const char* names[] = {"gemm", kAllReduce, "elementwise"};
    operations.push_back(i % 7 == 0
                             ? operation(OperationKind::kCopy, "Memcpy", start, duration)
                             : operation(OperationKind::kKernel, names[i % 3], start, duration));
  }
  TraceFigures first;
  for (size_t memory : {size_t{1} << 20, size_t{5000}}) {
    for (int round = 0; round < 3; ++round) {
      std::shuffle(operations.begin(), operations.end(), random);
      Builder builder(memory, 50);
      for (const TraceOperation& one : operations) builder.operation(one);
      TraceFigures figures = builder.done();
      ASSERT_EQ(figures.devices.size(), 1u);
      const Attribution& sums = figures.devices[0].sums;
      EXPECT_EQ(sums.late, 0u);
      EXPECT_EQ(sums.time.busy_ns() + sums.time.idle_ns(), sums.time.span_ns());
      EXPECT_LE(figures.devices[0].series.size(), 50u);
      if (first.devices.empty()) {
        first = std::move(figures);
        continue;
      }
      const Attribution& wanted = first.devices[0].sums;
      for (int i = 0; i < kMasks; ++i) {
        EXPECT_EQ(sums.time.partition_ns[i], wanted.time.partition_ns[i]);
        for (size_t j = 0; j < first.devices[0].series.size(); ++j) {
          EXPECT_EQ(figures.devices[0].series[j].partition_ns[i],
                    first.devices[0].series[j].partition_ns[i]);
        }
      }
      EXPECT_EQ(figures.kernels.size(), first.kernels.size());
      for (size_t i = 0; i < figures.kernels.size(); ++i) {
        EXPECT_EQ(figures.kernels[i].name, first.kernels[i].name);
        EXPECT_EQ(figures.kernels[i].time.ns, first.kernels[i].time.ns);
      }
    }
  }
}

TEST(TraceFigures, StepsByLaunch) {
  Builder builder;
  builder.step({0, 100, "ProfilerStep#1", false});
  builder.step({0, 100, "ProfilerStep#1", false});  // seen by two threads
  builder.step({100, 200, "ProfilerStep#2", false});
  builder.step({50, 150, "ProfilerStep#overlapping", false});
  builder.step({400, 500, "ProfilerStep#empty", false});
  builder.step({0, 90, "ProfilerStep#1", true});
  builder.launch({10, 1, true});
  builder.launch({150, 1, true});  // the first one counts
  builder.launch({99, 2, true});
  builder.launch({100, 3, true});
  builder.launch({200, 4, true});
  builder.launch({40, 77, true});   // without a kernel
  builder.launch({40, 78, false});  // a call that launches none
  builder.operation(kernel(1000, 10, 1));
  builder.operation(kernel(1010, 10, 2));
  builder.operation(kernel(90, 10, 3));  // before its launch
  builder.operation(kernel(2000, 10, 4));
  builder.operation(kernel(3000, 10, 5));  // of an unknown launch
  builder.operation(kernel(4000, 10));
  const TraceFigures figures = builder.done();
  ASSERT_EQ(figures.steps.size(), 4u);
  EXPECT_EQ(figures.steps[0].name, "ProfilerStep#1");
  EXPECT_EQ(figures.steps[0].operations, 2u);
  EXPECT_EQ(figures.steps[0].sums.time.span_ns(), 20u);
  EXPECT_EQ(figures.steps[1].name, "ProfilerStep#overlapping");
  EXPECT_EQ(figures.steps[1].operations, 2u);
  EXPECT_EQ(figures.steps[1].sums.time.span_ns(), 930u);
  EXPECT_EQ(figures.steps[2].name, "ProfilerStep#2");
  EXPECT_EQ(figures.steps[2].operations, 1u);
  EXPECT_EQ(figures.steps[3].operations, 0u);
  EXPECT_EQ(figures.uncorrelated, 2u);
  EXPECT_EQ(figures.kernels_before_launch, 1u);
  EXPECT_EQ(figures.launches_without_kernel, 1u);
  EXPECT_EQ(figures.gpu_step_marks, 1u);
}

TEST(TraceFigures, TimesThatCannotBe) {
  Builder builder;
  builder.operation(kernel(1'000'000, 50));
  builder.operation(kernel(0, 0));                           // not measured
  builder.operation(kernel(1'000'000, 90'000'000'000'000));  // more than a day
  builder.operation(kernel(INT64_MAX, 1));
  builder.operation(kernel(INT64_MIN, 1));
  builder.operation(kernel(1'000'100, -5));  // counted as 0
  TraceOperation far = kernel(0, 0);
  far.out_of_range = true;
  builder.operation(far);
  const TraceFigures figures = builder.done();
  EXPECT_EQ(figures.operations, 7u);
  EXPECT_EQ(figures.kernel_count, 7u);
  EXPECT_EQ(figures.invalid, 5u);
  EXPECT_EQ(figures.reversed, 1u);
  ASSERT_EQ(figures.devices.size(), 1u);
  EXPECT_EQ(figures.devices[0].sums.time.span_ns(), 100u);  // reaches to the empty one
  EXPECT_EQ(figures.devices[0].sums.time.busy_ns(), 50u);
}

TEST(TraceFigures, DevicesAndProcessesApart) {
  Builder builder;
  builder.operation(kernel(-100, 10, 1, 1));
  builder.operation(kernel(-100, 20, 2, 0));
  TraceOperation other = kernel(-50, 30, 3, 0);
  other.process = 9;
  builder.operation(other);
  const TraceFigures figures = builder.done();
  ASSERT_EQ(figures.devices.size(), 3u);
  EXPECT_EQ(figures.devices[0].sums.time.busy_ns(), 20u);
  EXPECT_EQ(figures.devices[0].start_ns, -100);
  EXPECT_EQ(figures.devices[1].sums.time.busy_ns(), 10u);
  EXPECT_EQ(figures.devices[2].process, 9);
  EXPECT_EQ(figures.streams, 3u);
}

TEST(TraceFigures, TablesAreBounded) {
  Builder builder;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = "kernel_" + std::to_string(i);
    builder.operation(operation(OperationKind::kKernel, name.c_str(), 10 * i + 1, 5));
    const std::string step = "ProfilerStep#" + std::to_string(i);
    builder.step({10 * i, 10 * i + 10, step, false});
  }
  const TraceFigures figures = builder.done();
  EXPECT_EQ(figures.kernels.size() + figures.unlisted_kernels, 20'000u);
  EXPECT_GT(figures.unlisted_kernels, 0u);
  EXPECT_EQ(figures.steps.size() + figures.unlisted_steps, 20'000u);
  EXPECT_EQ(figures.devices[0].sums.compute.count, 20'000u);
  EXPECT_EQ(figures.devices[0].sums.time.busy_ns(), 100'000u);
}

// ---- stragglers ----

TEST(CollectiveSkew, NamesTheLast) {
  CollectiveSkew skew;
  // Rank 2 comes late to both: the others wait 100 and 50.
  const int64_t late[] = {100, 50};
  for (size_t rank = 0; rank < 3; ++rank) {
    for (int64_t n = 0; n < 2; ++n) {
      const int64_t begin = 1000 * n + (rank == 2 ? late[n] : 0);
      skew.add(rank, "", kAllReduce, begin, 1000 * n + late[n] + 10);
    }
  }
  SkewFigures figures;
  std::string error;
  ASSERT_TRUE(skew.finish(&figures, &error)) << error;
  EXPECT_TRUE(figures.all_aligned());
  EXPECT_EQ(figures.aligned, 2u);
  EXPECT_EQ(figures.transfer_ns, 20u);
  EXPECT_EQ(figures.participants[0].wait_ns, 150u);
  EXPECT_EQ(figures.participants[2].wait_ns, 0u);
  EXPECT_EQ(figures.participants[2].last, 2u);
  EXPECT_EQ(figures.participants[2].caused_ns, 300u);
  EXPECT_TRUE(figures.has_slowest);
  EXPECT_EQ(figures.slowest, 2u);
  EXPECT_EQ(figures.start_spread.largest_ns, 100u);
  EXPECT_EQ(figures.end_spread.largest_ns, 0u);
}

TEST(CollectiveSkew, ProcessGroupsAlignByThemselves) {
  CollectiveSkew skew;
  // Two pairs of ranks, whose groups run different numbers of collectives, and one over all four
  // that does not fit.
  for (size_t rank = 0; rank < 4; ++rank) {
    const char* pair = rank < 2 ? "tp [0, 1]" : "tp [2, 3]";
    for (int64_t n = 0; n < (rank < 2 ? 3 : 5); ++n) {
      skew.add(rank, pair, kAllReduce, 100 * n, 100 * n + 10 + 5 * static_cast<int64_t>(rank % 2));
    }
    skew.add(rank, "dp", rank == 3 ? "ncclDevKernel_Broadcast" : kAllReduce, 900, 950);
  }
  SkewFigures figures;
  std::string error;
  ASSERT_TRUE(skew.finish(&figures, &error)) << error;
  EXPECT_EQ(figures.groups, 3u);
  EXPECT_EQ(figures.aligned_groups, 2u);
  EXPECT_FALSE(figures.all_aligned());
  EXPECT_EQ(figures.aligned, 8u);
  EXPECT_EQ(figures.transfer_ns, 80u);
  EXPECT_EQ(figures.participants[1].wait_ns, 15u);
  EXPECT_EQ(figures.participants[3].wait_ns, 25u);
  EXPECT_EQ(figures.participants[0].collectives, 4u);
}

TEST(CollectiveSkew, OneRankIsNoComparison) {
  CollectiveSkew skew;
  skew.add(0, "", kAllReduce, 0, 10);
  SkewFigures figures;
  std::string error;
  ASSERT_TRUE(skew.finish(&figures, &error));
  EXPECT_EQ(figures.groups, 0u);
  EXPECT_FALSE(figures.all_aligned());
  EXPECT_FALSE(figures.has_slowest);
}

}  // namespace
}  // namespace mfu
