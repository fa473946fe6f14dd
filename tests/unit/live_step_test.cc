#include "plugin/live_step.hh"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/live_samples.hh"

namespace mfu {
namespace {

using namespace live_samples;

constexpr double kPeakTflops = 989.4;

TEST(LiveStep, AStepOfOneGpuHasTheFiguresOfTheGpu) {
  const LiveStep step = live(running(1), {process(3, 60, 1)}, kStart + 60 * kSecond + 1);
  ASSERT_EQ(step.gpus.size(), 1u);
  const LiveGpu& gpu = step.gpus[0];
  EXPECT_EQ(gpu.rank, 3u);
  EXPECT_EQ(gpu.state, "ok");
  EXPECT_EQ(gpu.uuid, "GPU-01000000-0000-0000-0000-000000000000");
  EXPECT_EQ(gpu.pci, "00000000:4E:00.0");
  EXPECT_EQ(gpu.figures.line.sums, step.figures.line.sums);
  const Figures shown = figures(step.figures.line);
  EXPECT_DOUBLE_EQ(shown.compute, 40.0 / 60);  // 80% of 50 s
  EXPECT_DOUBLE_EQ(shown.exposed_communication, 2.5 / 60);
  EXPECT_DOUBLE_EQ(shown.idle, 17.5 / 60);
  EXPECT_DOUBLE_EQ(shown.watts, 500);
  EXPECT_DOUBLE_EQ(shown.clock_mhz, 1500);
  EXPECT_EQ(step.figures.line.gpu, "H100-SXM");
}

// Else a record that is a second old would make the last second idle.
TEST(LiveStep, TimeCountsUpToTheLastWord) {
  const LiveStep step = live(running(1), {process(0, 60, 1)}, kStart + 60 * kSecond + kSecond / 2);
  EXPECT_EQ(step.figures.until_ns, kStart + 60 * kSecond);
  EXPECT_TRUE(step.figures.line.sums.elapsed_ns == 60 * kSecond);
}

TEST(LiveStep, WhoHasBeenSilentForLongLeavesAnIdleGpu) {
  const LiveStep step = live(running(1), {process(0, 60, 1)}, kStart + 80 * kSecond);
  EXPECT_EQ(step.gpus[0].state, "silent");
  EXPECT_EQ(step.figures.until_ns, kStart + 80 * kSecond);
  EXPECT_DOUBLE_EQ(figures(step.gpus[0].figures.line).compute, 0.5);
}

TEST(LiveStep, ProcessesThatHaveEndedLeaveAnIdleGpu) {
  Record record = process(0, 60, 1);
  record.flags |= kFinished;
  const LiveStep step = live(running(1), {record}, kStart + 62 * kSecond);
  EXPECT_EQ(step.gpus[0].state, "ended");
  EXPECT_EQ(step.figures.until_ns, kStart + 62 * kSecond);
}

TEST(LiveStep, StatesAreThoseOfTheLine) {
  Record busy = process(0, 60, 1);
  busy.state = State::kCuptiBusy;
  Record fresh = process(1, 60, 2);
  fresh.time = {};
  fresh.compute_kernels = 0;
  const LiveStep step = live(running(2), {busy, fresh}, kStart + 60 * kSecond);
  ASSERT_EQ(step.gpus.size(), 2u);
  EXPECT_EQ(step.gpus[0].state, "cupti-busy");
  EXPECT_EQ(why_no_time(step.gpus[0].figures.line), "cupti-busy");
  EXPECT_EQ(step.gpus[1].state, "idle");
}

TEST(LiveStep, GpusThatNobodyUsesAreIdle) {
  const LiveStep step = live(running(4), {process(0, 60, 1)}, kStart + 60 * kSecond);
  EXPECT_EQ(step.gpus.size(), 1u);
  EXPECT_EQ(step.figures.line.gpus, 4u);
  EXPECT_DOUBLE_EQ(figures(step.figures.line).compute, 40.0 / 240);
}

TEST(LiveStep, GpusAreInTheOrderOfRanks) {
  const LiveStep step = live(running(3), {process(2, 60, 1), process(0, 60, 2), process(1, 60, 3)},
                             kStart + 60 * kSecond);
  ASSERT_EQ(step.gpus.size(), 3u);
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(step.gpus[rank].rank, rank);
}

TEST(LiveStep, CountedFlopsAreAGpusWhereItsProcessHasNoOther) {
  const LiveStep step =
      live(running(2), {counting(process(0, 60, 1), 60, 300), counting(process(1, 60, 2), 60, 600)},
           kStart + 60 * kSecond);
  EXPECT_NEAR(figures(step.gpus[0].figures.line).mfu, 300 * 50.0 / 60 / kPeakTflops, 1e-9);
  EXPECT_NEAR(figures(step.gpus[1].figures.line).mfu, 600 * 50.0 / 60 / kPeakTflops, 1e-9);
  EXPECT_NEAR(figures(step.figures.line).mfu, 450 * 50.0 / 60 / kPeakTflops, 1e-9);
  EXPECT_EQ(step.figures.line.basis, Basis::kGemm);
}

TEST(LiveStep, CountedFlopsOfSeveralGpusAreTheStepsAlone) {
  Record second = process(0, 60, 2);
  second.flags = kDeviceKnown;
  second.device = 1;
  const LiveStep step =
      live(running(2), {counting(process(0, 60, 1), 60, 600), second}, kStart + 60 * kSecond);
  EXPECT_NEAR(figures(step.figures.line).mfu, 300 * 50.0 / 60 / kPeakTflops, 1e-9);
  for (const LiveGpu& gpu : step.gpus) {
    EXPECT_LT(figures(gpu.figures.line).mfu, 0);
    EXPECT_EQ(why_no_mfu(gpu.figures.line), "several-gpus");
    EXPECT_EQ(why_no_hfu(gpu.figures.line), "several-gpus");
    EXPECT_DOUBLE_EQ(figures(gpu.figures.line).compute, 40.0 / 60);
  }
}

// The primary record's device may be the one that nothing ran on.
TEST(LiveStep, CountedFlopsFollowTheDeviceThatComputed) {
  Record first = counting(process(0, 60, 1), 60, 300);
  Record second = process(0, 60, 2);
  second.flags = kDeviceKnown;
  second.device = 1;
  second.counted = first.counted;
  first.counted = {};
  first.compute_kernels = first.compute_kernel_ns = 0;
  const LiveStep step = live(running(2), {first, second}, kStart + 60 * kSecond);
  for (const LiveGpu& gpu : step.gpus) {
    const bool computed = gpu.uuid.starts_with("GPU-02");
    EXPECT_EQ(figures(gpu.figures.line).mfu > 0, computed) << gpu.uuid;
    // Nor do its files count twice.
    EXPECT_EQ(figures(gpu.figures.line).read_gb_per_s >= 0, computed) << gpu.uuid;
  }
}

TEST(LiveStep, LossesAreTheProcesss) {
  Record first = process(0, 60, 1);
  first.lost_ns = 6 * kSecond;
  Record second = process(0, 60, 2);
  second.flags = kDeviceKnown;
  const LiveStep step = live(running(2), {first, second}, kStart + 60 * kSecond);
  for (const LiveGpu& gpu : step.gpus) {
    EXPECT_TRUE(gpu.figures.line.sums.lost_ns == 6 * kSecond) << gpu.uuid;
  }
}

TEST(LiveStep, DeclaredFlopsAreDividedAmongTheGpus) {
  RunningStep step = running(2);
  step.plan.user.flops_per_step = uint128{40'000'000'000'000};  // at 10 a second: 400 TFLOP/s
  step.plan.user.precision = Precision::kBf16;
  const LiveStep seen =
      live(step, {counting(process(0, 60, 1), 60, 300), process(1, 60, 2)}, kStart + 60 * kSecond);
  EXPECT_EQ(seen.figures.line.basis, Basis::kModel);
  EXPECT_NEAR(figures(seen.figures.line).mfu, 200 * 50.0 / 60 / kPeakTflops, 1e-9);
  for (const LiveGpu& gpu : seen.gpus) {
    EXPECT_NEAR(figures(gpu.figures.line).mfu, 200 * 50.0 / 60 / kPeakTflops, 1e-9);
  }
}

TEST(LiveStep, ANodeHasItsGpusShareOfDeclaredFlops) {
  RunningStep step = running(1, 2);
  step.plan.step_gpus = 4;                                      // three are the other node's
  step.plan.user.flops_per_step = uint128{40'000'000'000'000};  // at 10 a second: 400 TFLOP/s
  step.plan.user.precision = Precision::kBf16;
  const LiveStep seen = live(step, {counting(process(0, 60, 1), 60, 300)}, kStart + 60 * kSecond);
  EXPECT_EQ(seen.figures.line.basis, Basis::kModel);
  EXPECT_NEAR(figures(seen.figures.line).mfu, 100 * 50.0 / 60 / kPeakTflops, 1e-9);
  EXPECT_NEAR(figures(seen.gpus[0].figures.line).mfu, 100 * 50.0 / 60 / kPeakTflops, 1e-9);
}

// As long as the nodes have not all been heard, how many GPUs the others have is not known here.
TEST(LiveStep, OfSeveralNodesCountedFlopsStandIn) {
  RunningStep step = running(1, 2);
  step.plan.user.flops_per_step = uint128{40'000'000'000'000};
  const LiveStep counted =
      live(step, {counting(process(0, 60, 1), 60, 300)}, kStart + 60 * kSecond);
  EXPECT_EQ(counted.figures.line.basis, Basis::kGemm);
  EXPECT_NEAR(figures(counted.figures.line).mfu, 300 * 50.0 / 60 / kPeakTflops, 1e-9);
  const LiveStep nothing = live(step, {process(0, 60, 1)}, kStart + 60 * kSecond);
  EXPECT_EQ(figures(nothing.figures.line).mfu, -1);
}

TEST(LiveStep, FlopsOfTheWholeRunTellNothingBeforeItsEnd) {
  RunningStep step = running(1);
  step.plan.user.flops = uint128{1} << 60;
  const LiveStep nothing = live(step, {process(0, 60, 1)}, kStart + 60 * kSecond);
  EXPECT_EQ(why_no_mfu(nothing.figures.line), "running");
  const LiveStep counted =
      live(step, {counting(process(0, 60, 1), 60, 300)}, kStart + 60 * kSecond);
  EXPECT_EQ(counted.figures.line.basis, Basis::kGemm);
}

TEST(LiveStep, WithoutThePlanGpusAreThoseThatShow) {
  RunningStep step = running(0);
  step.planned = false;
  const LiveStep seen = live(step, {process(0, 60, 1), process(1, 60, 2)}, kStart + 60 * kSecond);
  EXPECT_EQ(seen.plan.gpus, 2u);
  EXPECT_DOUBLE_EQ(figures(seen.figures.line).compute, 40.0 / 60);
}

TEST(LiveStep, WhatRecordsSayIsNoControlText) {
  Record record = process(0, 60, 1);
  std::snprintf(record.pci_bus_id, sizeof(record.pci_bus_id), "a\033[2J\"|\n");
  std::snprintf(record.device_name, sizeof(record.device_name), "\033]0;x");
  const LiveStep step = live(running(1), {record}, kStart + 60 * kSecond);
  EXPECT_EQ(step.gpus[0].pci, "a?[2J???");
}

TEST(LiveStep, AForgerOfDevicesIsCutShort) {
  std::vector<Record> records;
  for (uint32_t i = 0; i < 300; ++i) {
    records.push_back(process(i, 60, static_cast<uint8_t>(i)));
    records.back().uuid[1] = static_cast<uint8_t>(i >> 8);
  }
  const LiveStep step = live(running(1), records, kStart + 60 * kSecond);
  EXPECT_EQ(step.gpus.size(), kMostLiveGpus);
  EXPECT_EQ(step.left_out, 300 - kMostLiveGpus);
}

// --- between two readings

TEST(LiveInterval, IsTheDifferenceOfSums) {
  const RunningStep step = running(1);
  const LiveStep before = live(step, {counting(process(0, 60, 1), 60, 300)}, kStart + 60 * kSecond);
  const LiveStep after = live(step, {counting(process(0, 70, 1), 70, 300)}, kStart + 70 * kSecond);
  const auto last = between(before.figures, after.figures);
  ASSERT_TRUE(last);
  const Figures shown = figures(last->line);
  EXPECT_NEAR(shown.mfu, 300 / kPeakTflops, 1e-9);  // without the 10 s before the first kernel
  EXPECT_NEAR(shown.hfu, 300 / kPeakTflops, 1e-9);
  EXPECT_DOUBLE_EQ(shown.compute, 0.8);
  EXPECT_DOUBLE_EQ(shown.idle, 0.15);
  EXPECT_DOUBLE_EQ(shown.watts, 500);
  EXPECT_DOUBLE_EQ(shown.step_seconds, 0.1);
  EXPECT_TRUE(last->line.sums.training_steps == 100);
  EXPECT_DOUBLE_EQ(celsius_between(before.gpus[0], after.gpus[0]), 60);
}

// It is known that nothing came: that is 0, and a hang.
TEST(LiveInterval, AHangHasAnMfuOfZero) {
  const Record record = counting(process(0, 60, 1), 60, 300);
  Record later = record;
  later.published_ns += 10 * kSecond;
  const LiveStep before = live(running(1), {record}, kStart + 60 * kSecond);
  const LiveStep after = live(running(1), {later}, kStart + 70 * kSecond);
  const auto last = between(before.figures, after.figures);
  ASSERT_TRUE(last);
  EXPECT_EQ(live_figures(last->line).mfu, 0);
  EXPECT_EQ(live_figures(last->line).hfu, 0);
  EXPECT_EQ(live_figures(last->line).compute, 0);
  EXPECT_EQ(live_figures(last->line).idle, 1);
  const LiveStep unknown = live(running(1), {process(0, 60, 1)}, kStart + 60 * kSecond);
  EXPECT_LT(live_figures(unknown.figures.line).mfu, 0);
}

TEST(LiveInterval, WithoutTimeThereIsNone) {
  const LiveStep step = live(running(1), {process(0, 60, 1)}, kStart + 60 * kSecond);
  EXPECT_FALSE(between(step.figures, step.figures));
  EXPECT_LT(celsius_between(step.gpus[0], step.gpus[0]), 0);
}

TEST(LiveInterval, ARecordThatHasGoneLeavesNone) {
  const LiveStep before =
      live(running(2), {process(0, 60, 1), process(1, 60, 2)}, kStart + 60 * kSecond);
  const LiveStep after = live(running(2), {process(0, 61, 1)}, kStart + 61 * kSecond);
  EXPECT_FALSE(between(before.figures, after.figures));
}

// All FLOPs since the begin would look like those of the interval.
TEST(LiveInterval, FlopsThatWereNotKnownBeforeAreNotItsOwn) {
  Record undecided = counting(process(0, 60, 1), 60, 300);
  undecided.inferred = {};
  undecided.inferred.verdict = Inference::kFewSteps;
  const LiveStep before = live(running(1), {undecided}, kStart + 60 * kSecond);
  const LiveStep after =
      live(running(1), {counting(process(0, 61, 1), 61, 300)}, kStart + 61 * kSecond);
  EXPECT_GT(figures(after.figures.line).mfu, 0);
  const auto last = between(before.figures, after.figures);
  ASSERT_TRUE(last);
  EXPECT_LT(figures(last->line).mfu, 0);
  EXPECT_EQ(why_no_mfu(last->line), "interval");
  EXPECT_NEAR(figures(last->line).hfu, 300 / kPeakTflops, 1e-9);
}

TEST(LiveInterval, AnotherPeakIsNoneToDivideBy) {
  LiveStep before = live(running(1), {counting(process(0, 60, 1), 60, 300)}, kStart + 60 * kSecond);
  const LiveStep after =
      live(running(1), {counting(process(0, 61, 1), 61, 300)}, kStart + 61 * kSecond);
  before.figures.line.precision = Precision::kFp16;
  const auto last = between(before.figures, after.figures);
  ASSERT_TRUE(last);
  EXPECT_LT(figures(last->line).mfu, 0);
  EXPECT_LT(figures(last->line).hfu, 0);
}

TEST(LiveInterval, TimeThatWasNotKnownBeforeIsNotItsOwn) {
  const LiveStep before = live(running(1), {}, kStart + 60 * kSecond);
  const LiveStep after = live(running(1), {process(0, 61, 1)}, kStart + 61 * kSecond);
  const auto last = between(before.figures, after.figures);
  ASSERT_TRUE(last);
  EXPECT_LT(figures(last->line).compute, 0);
}

TEST(LiveInterval, StepsAndGpusAreFoundAgain) {
  const LiveStep step =
      live(running(2), {process(0, 60, 1), process(1, 60, 2)}, kStart + 60 * kSecond);
  std::vector<LiveStep> earlier{step};
  EXPECT_EQ(find_step(earlier, step), &earlier[0]);
  EXPECT_EQ(find_gpu(&earlier[0], step.gpus[1]), &earlier[0].gpus[1]);
  EXPECT_EQ(find_gpu(nullptr, step.gpus[1]), nullptr);
  earlier[0].plan.started_ns += 1;  // the same numbers, in a later run
  EXPECT_EQ(find_step(earlier, step), nullptr);
}

TEST(StepName, IsSlurms) {
  StepPlan plan;
  plan.job = 12;
  EXPECT_EQ(step_name(plan), "12.0");
  plan.step = kBatchStep;
  EXPECT_EQ(step_name(plan), "12.batch");
  plan.step = kInteractiveStep;
  plan.array_job = 7;
  plan.array_task = 3;
  EXPECT_EQ(step_name(plan), "7_3.interactive");
}

}  // namespace
}  // namespace mfu
