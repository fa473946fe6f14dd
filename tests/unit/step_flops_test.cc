#include "plugin/step_flops.hh"

#include <gtest/gtest.h>

#include <string>

#include "plugin/bounded_sum.hh"
#include "tests/unit/step_samples.hh"

namespace mfu {
namespace {

using namespace step_samples;

constexpr int kBf16 = static_cast<int>(Precision::kBf16);
constexpr int kFp8 = static_cast<int>(Precision::kFp8);

FlopSum flops(uint128 value) {
  FlopSum sum;
  sum.add(value);
  return sum;
}

// A node whose 4 GPUs executed 1.01e17 FLOPs, 9e16 of them the model's, in 300 of 320 s of kernels.
NodeSums counted_node(const char* device = kH100) {
  NodeSums sums = node(device);
  sums.lost_ns = 0;
  sums.counted_devices = 4;
  sums.kernel_ns = 320 * kSecond;
  sums.counted_ns = 300 * kSecond;
  sums.uncounted_ns = 2 * kSecond;
  sums.gemm_flops[kBf16] = flops(100'000'000'000'000'000);
  sums.attention_flops = flops(1'000'000'000'000'000);
  sums.inferred_flops = flops(90'000'000'000'000'000);
  sums.inference = Inference::kKnown;
  return sums;
}

Comment of(const NodeSums& sums, const StepPlan& plan = plan_of(), bool ended = true) {
  return reported(plan, Nodes{{0, sums}}, kNow, ended);
}

TEST(StepFlops, FromWhatWasCounted) {
  const Comment comment =
      reported(plan_of(2), Nodes{{0, counted_node()}, {1, counted_node()}}, kNow, true);
  EXPECT_EQ(comment.no_mfu, "");
  EXPECT_EQ(comment.no_hfu, "");
  EXPECT_EQ(comment.basis, Basis::kGemm);
  EXPECT_EQ(comment.precision, Precision::kBf16);
  EXPECT_EQ(comment.peak_gigaflops, kPeak);
  EXPECT_EQ(comment.peak_basis, PeakBasis::kTable);
  const Sums& sums = comment.sums;
  const uint128 capacity = uint128{kPeak} * (800 * kSecond);  // 7.9152e17
  EXPECT_TRUE(sums.model_flops == 180'000'000'000'000'000);
  EXPECT_TRUE(sums.capacity_flop == capacity);
  EXPECT_TRUE(sums.flops_ns == 800 * kSecond);
  EXPECT_TRUE(sums.executed_flops == 202'000'000'000'000'000);
  EXPECT_TRUE(sums.executed_capacity_flop == capacity);
  EXPECT_TRUE(sums.executed_ns == 800 * kSecond);
  EXPECT_TRUE(sums.counted_ms == 600'000);
  EXPECT_TRUE(sums.kernel_ms == 640'000);
}

TEST(StepFlops, ADeclarationGoesFirst) {
  StepPlan plan = plan_of();
  plan.user.flops = 1000;
  Comment comment = of(counted_node(), plan);
  EXPECT_EQ(comment.basis, Basis::kModel);
  EXPECT_TRUE(comment.sums.model_flops == 1000);
  EXPECT_TRUE(comment.sums.executed_flops == 101'000'000'000'000'000);
  // It is not replaced where it does not hold.
  comment = of(counted_node(), plan, false);
  EXPECT_EQ(comment.no_mfu, "running");
  EXPECT_EQ(comment.basis, Basis::kNone);
  EXPECT_TRUE(comment.sums.model_flops == 0);
}

TEST(StepFlops, EveryReasonWithoutModelFlops) {
  const auto reason = [](void (*spoil)(NodeSums*)) {
    NodeSums sums = counted_node();
    spoil(&sums);
    const Comment comment = of(sums);
    EXPECT_TRUE(comment.no_mfu.empty() == (comment.sums.model_flops > 0));
    EXPECT_TRUE(comment.no_mfu.empty() == (comment.basis == Basis::kGemm));
    return comment.no_mfu;
  };
  EXPECT_EQ(reason([](NodeSums*) {}), "");
  EXPECT_EQ(reason([](NodeSums* s) { s->counted_devices = 0; }), "no-flops");
  EXPECT_EQ(reason([](NodeSums* s) { s->inferred_flops = {}; }), "no-flops");
  EXPECT_EQ(reason([](NodeSums* s) { s->inference = Inference::kNothing; }), "") << "attention";
  EXPECT_EQ(reason([](NodeSums* s) { s->inference = Inference::kFewSteps; }), "few-steps");
  EXPECT_EQ(reason([](NodeSums* s) { s->inference = Inference::kUncovered; }), "uncovered-calls");
  EXPECT_EQ(reason([](NodeSums* s) { s->inference = Inference::kShapes; }), "many-shapes");
  EXPECT_EQ(reason([](NodeSums* s) { s->inference = Inference::kAmbiguous; }), "ambiguous-shapes");
  EXPECT_EQ(reason([](NodeSums* s) { s->uncounted_devices = 1; }), "not-all-counted");
  // A hundredth of the kernels' time, and no more.
  EXPECT_EQ(reason([](NodeSums* s) { s->uncounted_ns = 3'200'000'000; }), "");
  EXPECT_EQ(reason([](NodeSums* s) { s->uncounted_ns = 3'200'000'001; }), "uncounted-kernels");
  // A hundredth of the GPUs' time without kernels.
  EXPECT_EQ(reason([](NodeSums* s) { s->gap_ns = 4 * kSecond; }), "");
  EXPECT_EQ(reason([](NodeSums* s) { s->gap_ns = 4 * kSecond + 1; }), "gap");
  // Half of it, and no less.
  EXPECT_EQ(reason([](NodeSums* s) { s->counted_ns = 160 * kSecond; }), "");
  EXPECT_EQ(reason([](NodeSums* s) { s->counted_ns = 160 * kSecond - 1; }), "coverage");
  EXPECT_EQ(reason([](NodeSums* s) { s->mixed_devices = 1; }), "mixed-gpus");
}

TEST(StepFlops, EveryReasonWithoutExecutedFlops) {
  StepPlan plan = plan_of();
  const auto reason = [&](void (*spoil)(NodeSums*)) {
    NodeSums sums = counted_node();
    spoil(&sums);
    const Comment comment = of(sums, plan);
    EXPECT_TRUE(comment.no_hfu.empty() == (comment.sums.executed_flops > 0));
    EXPECT_TRUE(comment.no_hfu.empty() == (comment.sums.executed_capacity_flop > 0));
    EXPECT_TRUE(comment.no_hfu.empty() == (comment.sums.counted_ms > 0));
    return comment.no_hfu;
  };
  EXPECT_EQ(reason([](NodeSums*) {}), "");
  EXPECT_EQ(reason([](NodeSums* s) { s->mixed_devices = 1; }), "mixed-gpus");
  EXPECT_EQ(reason([](NodeSums* s) { s->device_name[0] = '\0'; }), "no-device");
  EXPECT_EQ(reason([](NodeSums* s) { std::snprintf(s->device_name, 96, "NVIDIA Unheard Of"); }),
            "peak-unknown");
  const auto no_counts = [](NodeSums* s) {
    s->counted_devices = 0;
    s->uncounted_devices = 4;
  };
  EXPECT_EQ(reason(no_counts), "no-counts");
  plan.user.count = false;
  EXPECT_EQ(reason(no_counts), "count-off");
  EXPECT_EQ(reason([](NodeSums* s) { s->record_errno = 28; }), "record:enospc");
}

// Three of four GPUs count: their FLOPs are held against their time.
TEST(StepFlops, GpusThatDoNotCountAreNotInTheCapacity) {
  NodeSums sums = counted_node();
  sums.counted_devices = 3;
  sums.uncounted_devices = 1;
  Comment comment = of(sums);
  EXPECT_TRUE(comment.sums.executed_capacity_flop == uint128{kPeak} * (300 * kSecond));
  EXPECT_TRUE(comment.sums.executed_ns == 300 * kSecond);
  EXPECT_EQ(comment.no_hfu, "not-all-counted");
  // A fourth one that is idle has executed nothing.
  sums.uncounted_devices = 0;
  comment = of(sums);
  EXPECT_EQ(comment.no_hfu, "");
  EXPECT_TRUE(comment.sums.executed_capacity_flop == uint128{kPeak} * (400 * kSecond));
  EXPECT_EQ(comment.basis, Basis::kGemm);
  // One that could not be observed is a gap.
  sums.unattributed_devices = 1;
  sums.state = State::kStoodDown;
  sums.span_ns = 270 * kSecond;
  comment = of(sums);
  EXPECT_TRUE(comment.sums.executed_capacity_flop == uint128{kPeak} * (300 * kSecond));
  EXPECT_TRUE(comment.sums.flops_ns == 300 * kSecond);
  EXPECT_EQ(comment.no_mfu, "stood-down");
  EXPECT_EQ(comment.no_hfu, "stood-down");
  EXPECT_FALSE(comment.sums.flops_whole());
}

TEST(StepFlops, CountsOfAPartOfAStepAreThatParts) {
  // Tasks that failed have executed what was counted.
  NodeSums sums = counted_node();
  sums.failed_tasks = 1;
  EXPECT_EQ(of(sums).no_mfu, "");
  // A step that runs, as far as it was heard of.
  sums.last = 0;
  sums.until_ns = kNow - 10 * kSecond;
  sums.span_ns = 350 * kSecond;
  Comment comment = of(sums, plan_of(), false);
  EXPECT_EQ(comment.no_mfu, "");
  EXPECT_TRUE(comment.sums.flops_ns == 360 * kSecond);
  EXPECT_TRUE(comment.sums.capacity_flop == uint128{kPeak} * (360 * kSecond));
  // One that never said its last word, and one that was never heard.
  comment = reported(plan_of(3), Nodes{{0, counted_node()}, {1, sums}}, kNow, true);
  EXPECT_EQ(comment.partial, "nodes:1-of-3");
  EXPECT_TRUE(comment.sums.model_flops == 180'000'000'000'000'000);
  EXPECT_TRUE(comment.sums.flops_ns == 760 * kSecond);
  EXPECT_TRUE(comment.sums.elapsed_ns == 800 * kSecond);
  EXPECT_EQ(comment.no_mfu, "partial");
  // What is not believed counts nothing.
  sums.span_ns = 500 * kSecond;
  comment = reported(plan_of(2), Nodes{{0, counted_node()}, {1, sums}}, kNow, true);
  EXPECT_TRUE(comment.sums.model_flops == 90'000'000'000'000'000);
  EXPECT_TRUE(comment.sums.executed_flops == 101'000'000'000'000'000);
  EXPECT_TRUE(comment.sums.flops_ns == 400 * kSecond);
  EXPECT_EQ(comment.no_mfu, "implausible");
}

TEST(StepFlops, ThePrecisionOfMostFlops) {
  NodeSums sums = counted_node();
  sums.gemm_flops[kFp8] = flops(100'000'000'000'000'001);  // names say bf16
  Comment comment = of(sums);
  EXPECT_EQ(comment.precision, Precision::kFp8);
  EXPECT_EQ(comment.peak_gigaflops, 1'978'900u);
  // Where more is not counted than is, names tell.
  sums.uncounted_ns = sums.counted_ns + 1;
  sums.kernel_ns = 2 * sums.uncounted_ns;
  EXPECT_EQ(of(sums).precision, Precision::kBf16);
  // Calls of a precision that is not known, likewise.
  sums = counted_node();
  sums.gemm_flops[0] = flops(200'000'000'000'000'000);
  EXPECT_EQ(of(sums).precision, Precision::kBf16);
  // And where nothing is counted; the user goes first.
  EXPECT_EQ(of(node()).precision, Precision::kBf16);
  StepPlan plan = plan_of();
  plan.user.precision = Precision::kFp16;
  EXPECT_EQ(of(sums, plan).precision, Precision::kFp16);
}

// A wish for another precision does not make another peak of what was counted; of what is declared
// it does.
TEST(StepFlops, WhatWasCountedGoesBeforeTheUsersPrecision) {
  StepPlan plan = plan_of();
  plan.user.precision = Precision::kTf32;
  EXPECT_EQ(of(counted_node(), plan).precision, Precision::kBf16);
  plan.user.flops = 1000;
  EXPECT_EQ(of(counted_node(), plan).precision, Precision::kTf32);
  plan.user.flops = 0;
  NodeSums sums = counted_node();
  sums.counted_devices = 0;
  for (FlopSum& flops : sums.gemm_flops) flops = {};
  EXPECT_EQ(of(sums, plan).precision, Precision::kTf32);
}

TEST(StepFlops, MigSlices) {
  NodeSums sums = counted_node("NVIDIA H100 80GB HBM3 MIG 1g.10gb");
  EXPECT_EQ(of(sums).no_mfu, "peak-unknown");  // CUDA has not told its SMs
  EXPECT_EQ(of(sums).gpu, "H100-SXM-1g.10gb");
  sums.sm_count = 16;
  const Comment comment = of(sums);
  EXPECT_EQ(comment.peak_gigaflops, 119'927u);  // 989,400 x 16 / 132
  EXPECT_EQ(comment.peak_basis, PeakBasis::kMig);
  EXPECT_EQ(comment.no_mfu, "");
  EXPECT_TRUE(comment.sums.capacity_flop == uint128{119'927} * (400 * kSecond));
  EXPECT_EQ(of(node("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb+me")).gpu.size(), kMaxGpuName);
  // Slices of another size beside it.
  NodeSums other = sums;
  other.sm_count = 32;
  EXPECT_EQ(reported(plan_of(2), Nodes{{0, sums}, {1, other}}, kNow, true).no_mfu, "mixed-gpus");
  other.sm_count = 0;
  EXPECT_EQ(reported(plan_of(2), Nodes{{0, sums}, {1, other}}, kNow, true).no_mfu, "");
}

TEST(StepFlops, PeaksOfTheSite) {
  const auto peaks = PeakAdditions::parse(
      "NVIDIA Unheard Of\tUnheard\tbf16=100\nNVIDIA H100 80GB HBM3\tOurs\tbf16=900\n", "peaks");
  ASSERT_TRUE(peaks) << peaks.error();
  const auto with_peaks = [&](const char* device) {
    return report_step(plan_of(), Nodes{{0, counted_node(device)}}, {}, *peaks, kNow, true);
  };
  Comment comment = with_peaks("NVIDIA Unheard Of");
  EXPECT_EQ(comment.gpu, "Unheard");
  EXPECT_EQ(comment.peak_gigaflops, 100'000u);
  EXPECT_EQ(comment.peak_basis, PeakBasis::kFile);
  EXPECT_TRUE(comment.sums.capacity_flop == uint128{100'000} * (400 * kSecond));
  comment = with_peaks(kH100);
  EXPECT_EQ(comment.gpu, "Ours");
  EXPECT_EQ(comment.peak_gigaflops, 900'000u);
  EXPECT_EQ(with_peaks("NVIDIA H200").gpu, "H200-SXM");
}

TEST(StepFlops, EstimatesOnlyWhereTheSiteWantsThem) {
  NodeSums sums = counted_node("NVIDIA Unheard Of");
  sums.sm_count = 100;
  sums.compute_capability = 90;
  sums.clock_limit_mhz = 2000;
  StepPlan plan = plan_of();
  EXPECT_EQ(of(sums, plan).no_mfu, "peak-unknown");
  plan.site.estimate = true;
  Comment comment = of(sums, plan);
  EXPECT_EQ(comment.peak_gigaflops, 819'200u);  // 4,096 a clock and SM x 100 x 2 GHz
  EXPECT_EQ(comment.peak_basis, PeakBasis::kEstimated);
  EXPECT_EQ(comment.no_mfu, "");
  for (auto forget :
       {+[](NodeSums* s) { s->sm_count = 0; }, +[](NodeSums* s) { s->compute_capability = 0; },
        +[](NodeSums* s) { s->clock_limit_mhz = 0; }}) {
    NodeSums less = sums;
    forget(&less);
    EXPECT_EQ(of(less, plan).no_mfu, "peak-unknown");
  }
  // The table's rate is better than any estimate.
  std::snprintf(sums.device_name, sizeof(sums.device_name), "%s", kH100);
  EXPECT_EQ(of(sums, plan).peak_basis, PeakBasis::kTable);
}

// The most that node_sums_fault() lets pass, from many nodes.
TEST(StepFlops, HostileSumsCannotWrap) {
  NodeSums sums = counted_node();
  sums.sm_count = kMostSms;
  sums.compute_capability = kMostCapability;
  sums.clock_limit_mhz = kMostClockMhz;
  sums.kernel_ns = sums.counted_ns = sums.uncounted_ns = kMostSum;
  for (FlopSum& sum : sums.gemm_flops) sum = {kMostSum, 0};
  sums.attention_flops = sums.inferred_flops = {kMostSum, 0};
  for (uint64_t* value :
       {&sums.energy_mj, &sums.energy_ns, &sums.sm_cycles, &sums.clock_ns, &sums.tensor_active_ns,
        &sums.tensor_ns, &sums.reasons_ns, &sums.read_bytes, &sums.written_bytes,
        &sums.productive_ns, &sums.start_up_ns, &sums.writing_ns, &sums.reading_ns,
        &sums.stalled_ns, &sums.tail_ns}) {
    *value = kMostSum;
  }
  ASSERT_EQ(node_sums_fault(sums, 0, 0, 1), nullptr);
  Nodes nodes;
  for (uint32_t id = 0; id < 1000; ++id) nodes[id] = sums;
  const Comment comment = reported(plan_of(1000), nodes, kNow, true);
  const uint128 each = uint128{kMostSum} << FlopSum::kRestBits;
  EXPECT_TRUE(comment.sums.executed_flops == 1000 * (kPrecisions + 1) * each);
  EXPECT_TRUE(comment.sums.energy_j == 0);
  EXPECT_TRUE(comment.sums.productive_ms == 0);
  const auto parsed = parse_comment(format_comment(comment));
  EXPECT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(comment.no_mfu, "uncounted-kernels");
}

}  // namespace
}  // namespace mfu
