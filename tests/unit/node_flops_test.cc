#include "plugin/node_flops.hh"

#include <gtest/gtest.h>

#include <vector>

#include "plugin/bounded_sum.hh"
#include "tests/unit/node_samples.hh"

namespace mfu {
namespace {

using namespace node_samples;

constexpr int kBf16 = static_cast<int>(Precision::kBf16);
constexpr int kFp32 = static_cast<int>(Precision::kFp32);

FlopSum flops(unsigned __int128 value) {
  FlopSum sum;
  sum.add(value);
  return sum;
}

// A process with 80 s of compute kernels, of which 60 s are GEMMs. Nobody counts them.
Record uncounted(uint32_t pid, uint8_t uuid) {
  Record record = process(pid, uuid);
  record.compute_kernel_ns = 80 * kSecond;
  record.counted.gemm_kernels = 400;
  record.counted.gemm_ns = 60 * kSecond;
  return record;
}

// The same with 400 calls of cuBLAS and a verdict.
Record counting(uint32_t pid, uint8_t uuid) {
  Record record = uncounted(pid, uuid);
  record.gemms.entries = 7;
  record.gemms.shapes = 2;
  record.gemms.calls[kBf16] = 300;
  record.gemms.flops[kBf16] = flops(3'000'000'000'000'000);
  record.gemms.calls[kFp32] = 100;
  record.gemms.flops[kFp32] = flops(7);
  record.inferred.verdict = Inference::kKnown;
  record.inferred.flops = flops(2'000'000'000'000'001);
  return record;
}

void expect_flops(const FlopSum& sum, unsigned __int128 value) {
  EXPECT_TRUE(sum.value() == value) << sum.approximate();
  EXPECT_EQ(sum.rest >> FlopSum::kRestBits, 0u);
}

TEST(NodeFlops, CallsAndAttention) {
  Record record = counting(1, 1);
  record.counted.attention_kernels = 100;
  record.counted.attention_ns = 10 * kSecond;
  record.counted.attention_flops = flops(500);
  record.counted.attention_model_flops = flops(400);
  record.counted.uncounted_kernels = 5;
  record.counted.uncounted_ns = kSecond;
  Record other = counting(2, 2);
  const NodeSums sums = summed({record, other});
  EXPECT_EQ(sums.counted_devices, 2u);
  EXPECT_EQ(sums.uncounted_devices, 0u);
  EXPECT_EQ(sums.kernel_ns, 160 * kSecond);
  EXPECT_EQ(sums.counted_ns, (70 + 60) * kSecond);
  EXPECT_EQ(sums.uncounted_ns, kSecond);
  expect_flops(sums.gemm_flops[kBf16], 6'000'000'000'000'000);
  expect_flops(sums.gemm_flops[kFp32], 14);
  expect_flops(sums.attention_flops, 500);
  expect_flops(sums.inferred_flops, 4'000'000'000'000'402);
  EXPECT_EQ(sums.inference, Inference::kKnown);
}

TEST(NodeFlops, KernelsBeyondTheCallsAreUncounted) {
  Record record = counting(1, 1);
  record.gemms.calls[kBf16] = 0;
  record.gemms.flops[kBf16] = {};
  NodeSums sums = summed({record});  // 100 calls, 400 kernels in 60 s
  EXPECT_EQ(sums.counted_ns, 15 * kSecond);
  EXPECT_EQ(sums.uncounted_ns, 45 * kSecond);
}

// The calls are the process's, the kernels the devices': 400 calls, 800 kernels.
TEST(NodeFlops, CallsAreSharedByTheDevicesOfAProcess) {
  Record second = uncounted(1, 2);
  second.flags = kDeviceKnown | kFinished;
  second.device = 1;
  const NodeSums sums = summed({second, counting(1, 1)});
  EXPECT_EQ(sums.counted_devices, 2u);
  EXPECT_EQ(sums.counted_ns, 60 * kSecond);
  EXPECT_EQ(sums.uncounted_ns, 60 * kSecond);
  expect_flops(sums.gemm_flops[kFp32], 7);
}

TEST(NodeFlops, AProcessThatNobodyCounts) {
  // On a device of its own.
  NodeSums sums = summed({counting(1, 1), uncounted(2, 2)});
  EXPECT_EQ(sums.counted_devices, 1u);
  EXPECT_EQ(sums.uncounted_devices, 1u);
  EXPECT_EQ(sums.kernel_ns, 160 * kSecond);
  EXPECT_EQ(sums.counted_ns, 60 * kSecond);
  EXPECT_EQ(sums.uncounted_ns, 60 * kSecond);
  EXPECT_EQ(sums.inference, Inference::kKnown);
  // On the same one: its time stands for itself.
  sums = summed({counting(1, 1), uncounted(2, 1)});
  EXPECT_EQ(sums.counted_devices, 1u);
  EXPECT_EQ(sums.uncounted_devices, 0u);
  EXPECT_EQ(sums.kernel_ns, 160 * kSecond);
  EXPECT_EQ(sums.uncounted_ns, 60 * kSecond);
  // It computed nothing: nothing is missing.
  Record idle = process(2, 2);
  idle.compute_kernels = 0;
  sums = summed({counting(1, 1), idle});
  EXPECT_EQ(sums.counted_devices, 1u);
  EXPECT_EQ(sums.uncounted_devices, 0u);
}

TEST(NodeFlops, CallsWithoutKernelsAndAttentionWithoutCallsCount) {
  Record none = process(1, 1);
  none.compute_kernel_ns = 80 * kSecond;
  none.gemms.entries = 1;  // cuBLAS is there, and nobody has called it
  NodeSums sums = summed({none});
  EXPECT_EQ(sums.counted_devices, 1u);
  EXPECT_EQ(sums.counted_ns, 0u);
  EXPECT_EQ(sums.inference, Inference::kNothing);
  none.gemms = {};
  none.counted.attention_kernels = 1;
  none.counted.attention_ns = kSecond;
  sums = summed({none});
  EXPECT_EQ(sums.counted_devices, 1u);
  EXPECT_EQ(sums.counted_ns, kSecond);
  EXPECT_EQ(sums.inference, Inference::kNothing);
}

// Calls go on being counted while another profiler has its turn.
TEST(NodeFlops, TimeWithoutKernels) {
  Record record = counting(1, 1);
  EXPECT_EQ(summed({record}).gap_ns, 0u);
  record.lost_ns = 7;
  EXPECT_EQ(summed({record}).gap_ns, 7u);
  record.flags |= kDroppedUnknown;
  EXPECT_EQ(summed({record}).gap_ns, 99 * kSecond);
  Record idle = uncounted(2, 2);
  idle.lost_ns = 5;
  EXPECT_EQ(summed({counting(1, 1), idle}).gap_ns, 0u);
}

TEST(NodeFlops, TheWorstVerdictWins) {
  Record few = counting(2, 2);
  few.inferred = {.verdict = Inference::kFewSteps};
  Record ambiguous = counting(3, 3);
  ambiguous.inferred = {.verdict = Inference::kAmbiguous};
  EXPECT_EQ(summed({few, ambiguous, counting(1, 1)}).inference, Inference::kAmbiguous);
  EXPECT_EQ(summed({counting(1, 1), ambiguous, few}).inference, Inference::kAmbiguous);
  // Calls of which nothing was said yet.
  few.inferred = {};
  EXPECT_EQ(summed({few}).inference, Inference::kFewSteps);
}

// The FLOPs of a process are one number: of a part of its devices they are not known.
TEST(NodeFlops, ADeviceThatIsNotAttributedTakesItsProcessAlong) {
  Record first = counting(1, 1);
  Record second = uncounted(1, 2);
  second.flags = kDeviceKnown | kFinished;
  Record failed = process(2, 2);
  failed.state = State::kStoodDown;
  const NodeSums sums = summed({first, second, failed});
  EXPECT_EQ(sums.unattributed_devices, 1u);
  EXPECT_EQ(sums.counted_devices, 0u);
  EXPECT_EQ(sums.uncounted_devices, 1u);
  EXPECT_EQ(sums.kernel_ns, 80 * kSecond);
  EXPECT_EQ(sums.uncounted_ns, 60 * kSecond);
  expect_flops(sums.gemm_flops[kBf16], 0);
  expect_flops(sums.inferred_flops, 0);
}

TEST(NodeFlops, WithoutItsPrimaryRecordAProcessDoesNotCount) {
  Record record = counting(1, 1);
  record.flags &= ~static_cast<uint32_t>(kPrimary);
  const NodeSums sums = summed({record});
  EXPECT_EQ(sums.counted_devices, 0u);
  EXPECT_EQ(sums.uncounted_devices, 1u);
  expect_flops(sums.gemm_flops[kBf16], 0);
}

TEST(NodeFlops, HostileRecordsCannotWrapASum) {
  constexpr uint64_t kMostMega = uint64_t{1} << 60;
  constexpr FlopSum kMostFlops{kMostMega, (1 << FlopSum::kRestBits) - 1};
  std::vector<Record> records;
  for (uint32_t i = 0; i < kMostRecords; ++i) {
    Record record = process(i, static_cast<uint8_t>(i));
    record.uuid[1] = static_cast<uint8_t>(i >> 8);
    record.compute_kernels = record.compute_kernel_ns = kMost;
    record.counted.gemm_kernels = record.counted.gemm_ns = kMost / 2;
    record.counted.attention_kernels = record.counted.attention_ns = kMost / 4;
    record.counted.attention_flops = record.counted.attention_model_flops = {kMostMega, 0};
    record.counted.uncounted_kernels = record.counted.uncounted_ns = kMost / 4;
    record.gemms.entries = kMostMega;
    for (uint64_t& value : record.gemms.calls) value = kMostMega;
    for (FlopSum& value : record.gemms.flops) value = kMostFlops;
    record.inferred.verdict = Inference::kKnown;
    record.inferred.flops = kMostFlops;
    records.push_back(record);
  }
  for (const bool one_process : {false, true}) {
    for (size_t i = 1; one_process && i < records.size(); ++i) {
      records[i].pid = 0;
      records[i].flags = kDeviceKnown | kFinished;
    }
    const NodeSums sums = summed(records);
    EXPECT_EQ(node_sums_fault(sums, 0, 0, 1), nullptr);
    EXPECT_EQ(sums.kernel_ns, kMostSum);  // stopped at the bound, not wrapped
    EXPECT_EQ(sums.attention_flops.mega, kMostSum);
    EXPECT_EQ(sums.inferred_flops.mega, kMostSum);
    EXPECT_EQ(sums.gemm_flops[kBf16].mega, one_process ? kMostMega : kMostSum);
    EXPECT_EQ(sums.counted_devices, kMostRecords);
  }
}

}  // namespace
}  // namespace mfu
