// What a process keeps of one device: names, sums by name, operations that come twice, and the
// sample of collectives.
#include "profiler/device_activity.hh"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mfu {
namespace {

constexpr char kGemm[] = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64";
constexpr char kAllReduce[] = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage)";

template <typename T>
using Zeroed = std::unique_ptr<T, decltype(&std::free)>;
template <typename T>
Zeroed<T> zeroed() {
  return {static_cast<T*>(std::calloc(1, sizeof(T))), std::free};
}

struct Device {
  Zeroed<void> memory{std::calloc(1, sizeof(DeviceActivity)), std::free};
  DeviceActivity* activity = new (memory.get()) DeviceActivity;
  Zeroed<NameTable> names = zeroed<NameTable>();
  Record record;

  void take(const cupti::Activity& activity_record) {
    names->begin();
    const bool kernel = activity_record.kind == cupti::ActivityKind::kKernel;
    activity->take(activity_record, kernel ? names->find(activity_record.name) : KernelName{},
                   &record);
  }
  void run(const char* name, uint64_t start_ns, uint64_t end_ns, uint32_t correlation = 1,
           uint32_t stream = 7, uint64_t graph_node = 0) {
    take({cupti::ActivityKind::kKernel,
          start_ns,
          end_ns,
          0,
          stream,
          correlation,
          {1, 1, 1},
          graph_node,
          name});
  }
  const Record& filled() {
    activity->fill(*names, &record);
    return record;
  }
};

TEST(NameTable, APointerIsNoProof) {
  auto names = zeroed<NameTable>();
  char text[100] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  const KernelName first = names->find(text);
  EXPECT_TRUE(first.kind.communication);
  // A module was unloaded, and another one has its name in the same place.
  std::snprintf(text, sizeof(text), "volta_sgemm_128x64_nn");
  names->begin();
  const KernelName second = names->find(text);
  EXPECT_FALSE(second.kind.communication);
  EXPECT_NE(second.number, first.number);
  EXPECT_STREQ(names->text(second.number), "volta_sgemm_128x64_nn");
  EXPECT_EQ(names->count(), 2u);
}

TEST(NameTable, OneNumberForANameWhereverItStands) {
  auto names = zeroed<NameTable>();
  const std::string copy = kGemm;
  const KernelName here = names->find(kGemm);
  const KernelName there = names->find(copy.c_str());
  EXPECT_EQ(here.number, there.number);
  EXPECT_EQ(here.hash, there.hash);
  EXPECT_EQ(names->find(nullptr).number, names->find("").number);
  EXPECT_STREQ(names->text(names->find(nullptr).number), "");
  EXPECT_EQ(names->count(), 2u);
}

TEST(NameTable, KeepsWhatCanBePrinted) {
  auto names = zeroed<NameTable>();
  const std::string odd = "a\x1b[2J\n\xff z";
  EXPECT_STREQ(names->text(names->find(odd.c_str()).number), "a?[2J?? z");
  const std::string longer(kKernelNameSize, 'x');
  const std::string longest(5000, 'x');
  EXPECT_EQ(names->text(names->find(longer.c_str()).number), std::string(kKernelNameSize - 1, 'x'));
  // The same begin, yet another name.
  EXPECT_NE(names->find(longer.c_str()).number, names->find(longest.c_str()).number);
}

TEST(NameTable, AFullOneStillClassifies) {
  auto names = zeroed<NameTable>();
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < NameTable::kMostNames + 1000; ++i) {
    texts.push_back((i % 2 == 0 ? "ncclDevKernel_AllGather_RING_LL_" : "volta_sgemm_") +
                    std::to_string(i));
  }
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < texts.size(); ++i) {
      const KernelName& name = names->find(texts[i].c_str());
      EXPECT_EQ(name.kind.communication, i % 2 == 0);
      EXPECT_EQ(name.number, i + 1 < NameTable::kMostNames ? i + 1 : NameTable::kUnlisted);
    }
  }
}

TEST(DeviceActivity, SumsByClassAndName) {
  Device device;
  device.run(kGemm, 1000, 1100);
  device.run(kGemm, 1200, 1500, 2);
  device.run(kAllReduce, 1400, 1600, 3, 20);
  device.run("elementwise", 2000, 2050, 4);
  device.take({cupti::ActivityKind::kMemcpy, 3000, 3007, 0, 7, 5});
  device.take({cupti::ActivityKind::kMemset, 3100, 3101, 0, 7, 6});
  const Record& record = device.filled();
  EXPECT_EQ(record.compute_kernels, 3u);
  EXPECT_EQ(record.compute_kernel_ns, 450u);
  EXPECT_EQ(record.communication_kernels, 1u);
  EXPECT_EQ(record.collective_ns[static_cast<int>(Collective::kAllReduce)], 200u);
  EXPECT_EQ(record.copies, 2u);
  EXPECT_EQ(record.copy_ns, 8u);
  EXPECT_EQ(record.gemm_ns[static_cast<int>(Precision::kBf16)], 400u);
  EXPECT_EQ(record.time.compute_ns(), 450u);
  EXPECT_EQ(record.time.overlapped_communication_ns(), 100u);
  EXPECT_EQ(record.kernel_names, 3u);
  EXPECT_STREQ(record.kernels[0].name, kGemm);
  EXPECT_EQ(record.kernels[0].count, 2u);
  EXPECT_EQ(record.kernels[0].ns, 400u);
  EXPECT_EQ(record.kernels[0].longest_ns, 300u);
  EXPECT_TRUE(record.kernels[0].kind().gemm);
  EXPECT_EQ(record.kernels[1].kind().collective, Collective::kAllReduce);
  EXPECT_STREQ(record.kernels[2].name, "elementwise");
  EXPECT_EQ(record.kernels[3].count, 0u);
}

TEST(DeviceActivity, ListsTheKernelsOfMostTime) {
  Device device;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 100; ++i) names.push_back("kernel_" + std::to_string(i));
  uint64_t now = 1000;
  std::map<uint64_t, std::string> by_time;
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t duration = 1 + i * 37 % 100;  // all different
    by_time[duration] = names[i];
    device.run(names[i].c_str(), now, now + duration);
    now += duration;
  }
  const Record& record = device.filled();
  EXPECT_EQ(record.kernel_names, 100u);
  auto expected = by_time.rbegin();
  for (const RecordedKernel& kernel : record.kernels) {
    EXPECT_EQ(kernel.name, expected->second);
    EXPECT_EQ(kernel.ns, expected->first);
    ++expected;
  }
}

TEST(DeviceActivity, CountsAnOperationOnce) {
  Device device;
  for (int time = 0; time < 3; ++time) {
    device.run(kGemm, 1000, 1100, 5);
    device.take({cupti::ActivityKind::kMemcpy, 2000, 2100, 0, 7, 6});
  }
  const Record& record = device.filled();
  EXPECT_EQ(record.duplicates, 4u);
  EXPECT_EQ(record.compute_kernels, 1u);
  EXPECT_EQ(record.gemm_ns[static_cast<int>(Precision::kBf16)], 100u);
  EXPECT_EQ(record.copies, 1u);
}

// Kernels of a graph launch share the correlation id; concurrent ones may share their times.
TEST(DeviceActivity, KernelsOfAGraphAreNoDuplicates) {
  Device device;
  for (uint64_t i = 0; i < 1000; ++i) device.run(kGemm, 1000 + i * 10, 1010 + i * 10, 5);
  device.run(kGemm, 1000, 1010, 5, 8);
  device.run(kAllReduce, 1000, 1010, 5);
  device.run(kGemm, 1000, 1010, 6);
  // The GPU's clock ticks in tens of nanoseconds: two nodes can have the same times.
  device.run(kGemm, 1000, 1010, 5, 7, 1);
  device.run(kGemm, 1000, 1010, 5, 7, 2);
  EXPECT_EQ(device.filled().duplicates, 0u);
  EXPECT_EQ(device.filled().compute_kernels, 1004u);
}

TEST(DeviceActivity, KnowsAWholeBufferThatComesTwice) {
  Device device;
  for (int time = 0; time < 2; ++time) {
    for (uint64_t i = 0; i < 1200; ++i) {
      device.run(kGemm, 1000 + i * 10, 1005 + i * 10, static_cast<uint32_t>(i));
    }
  }
  EXPECT_EQ(device.filled().duplicates, 1200u);
  EXPECT_EQ(device.filled().compute_kernels, 1200u);
}

// --- kernels that multiply

constexpr char kForward[] =
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, "
    "false, false, false, true, true, false, false>(flash::Flash_fwd_params)";
constexpr char kBackward[] =
    "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, "
    "128, 8, 2, 4, 2, false, false, cutlass::bfloat16_t, Flash_kernel_traits<128, 64, 128, 8, "
    "cutlass::bfloat16_t> >, false, false, false, false, true, true, false>"
    "(flash::Flash_bwd_params)";
// Of grid 32 x 4 x 32: 4 x 32 heads, 4096 tokens, head dimension 128, by hand.
constexpr uint64_t kForwardFlops = 4ull * 128 * 4096 * 4096 * 128;
constexpr uint32_t kGrid[3] = {32, 4, 32};

struct Launches : Device {
  uint64_t now_ns = 1000;
  uint32_t correlation = 0;

  cupti::Activity launch(const char* name, uint64_t ns, const uint32_t (&grid)[3] = kGrid,
                         uint64_t graph_node = 0) {
    cupti::Activity made{cupti::ActivityKind::kKernel, now_ns,     now_ns + ns, 0, 7, ++correlation,
                         {grid[0], grid[1], grid[2]},  graph_node, name};
    now_ns += ns;
    take(made);
    return made;
  }
  const CountedKernels& counted() {
    filled();
    EXPECT_EQ(counted_kernels_fault(record.counted), nullptr);
    return record.counted;
  }
};

TEST(CountedKernels, GemmsByTheirNames) {
  Launches device;
  device.launch(kGemm, 100);
  device.launch(kGemm, 200, {1, 1, 1}, 9);
  device.launch("volta_sgemm_128x64_nn", 50);
  device.launch("elementwise", 10);
  device.launch(kAllReduce, 1000);
  const CountedKernels& counted = device.counted();
  EXPECT_EQ(counted.gemm_kernels, 3u);
  EXPECT_EQ(counted.gemm_ns, 350u);
  EXPECT_EQ(counted.graph_gemm_kernels, 1u);
  EXPECT_EQ(counted.attention_kernels + counted.uncounted_kernels, 0u);
  EXPECT_EQ(device.counted().gemm_ns, 350u) << "filled twice";
}

// A call that splits k runs two kernels, and is one product.
TEST(CountedKernels, TheEndOfAProductIsNoProduct) {
  Device device;
  device.run(kGemm, 1000, 1100, 1);
  device.run("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>()", 1100, 1130,
             2, 7, 5);
  const CountedKernels& counted = device.filled().counted;
  EXPECT_EQ(counted.gemm_kernels, 1u);
  EXPECT_EQ(counted.gemm_ns, 130u);
  EXPECT_EQ(counted.graph_gemm_kernels, 0u);
  EXPECT_EQ(counted.uncounted_kernels, 0u);
  GemmSums one;
  one.calls[static_cast<int>(Precision::kBf16)] = 1;
  EXPECT_EQ(counted_gemm_ns(counted, one), 130u);
}

// However many calls there are: none of them was for these.
TEST(CountedKernels, GemmsOfOtherLibraries) {
  Device device;
  uint64_t at = 1000;
  for (const char* name : {"triton_tem_fused_addmm_3", "fused_moe_kernel", "bmm_Bfloat16_x",
                           "void deep_gemm::fp8_gemm_kernel<1>()"}) {
    device.run(name, at, at + 10, static_cast<uint32_t>(at));
    at += 20;
  }
  device.run(kGemm, 5000, 5100, 9);
  const Record& record = device.filled();
  EXPECT_EQ(record.counted.uncounted_kernels, 4u);
  EXPECT_EQ(record.counted.uncounted_ns, 40u);
  EXPECT_EQ(record.counted.gemm_kernels, 1u);
  EXPECT_EQ(record.counted.gemm_ns, 100u);
}

TEST(CountedKernels, AttentionByNameAndGrid) {
  Launches device;
  device.launch(kForward, 100);
  device.launch(kForward, 10, {16, 4, 32});
  device.launch(kBackward, 250);
  const CountedKernels& counted = device.counted();
  EXPECT_EQ(counted.attention_kernels, 3u);
  EXPECT_EQ(counted.attention_ns, 360u);
  EXPECT_EQ(counted.uncounted_kernels, 0u);
  EXPECT_EQ(counted.gemm_kernels, 0u);
  const uint64_t others = kForwardFlops / 4;
  EXPECT_EQ(counted.attention_flops.value(), kForwardFlops + others + kForwardFlops / 2 * 5);
  EXPECT_EQ(counted.attention_model_flops.value(), 3 * kForwardFlops + others);
}

// Whole layers computed once more: two forward kernels for a backward one.
TEST(CountedKernels, RecomputedAttention) {
  Launches device;
  for (int layer = 0; layer < 12; ++layer) device.launch(kForward, 100);
  EXPECT_EQ(device.counted().attention_model_flops.value(), 12 * kForwardFlops);
  for (int layer = 0; layer < 12; ++layer) {
    device.launch(kForward, 100);
    device.launch(kBackward, 250);
  }
  EXPECT_EQ(device.counted().attention_flops.value(),
            24 * kForwardFlops + 12 * (kForwardFlops / 2 * 5));
  EXPECT_EQ(device.counted().attention_model_flops.value(), 12 * 3 * kForwardFlops);
}

// A grid that is none of the forward pass's: in deterministic mode it depends on the GPU.
TEST(CountedKernels, BackwardOfAnotherGridIsNotCounted) {
  Launches device;
  device.launch(kForward, 100);
  device.launch(kBackward, 250, {1, 4, 32});
  const CountedKernels& counted = device.counted();
  EXPECT_EQ(counted.attention_kernels, 1u);
  EXPECT_EQ(counted.attention_flops.value(), kForwardFlops);
  EXPECT_EQ(counted.uncounted_kernels, 1u);
  EXPECT_EQ(counted.uncounted_ns, 250u);
}

TEST(CountedKernels, WhatMultipliesAndTellsNothing) {
  Launches device;
  device.launch("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128", 7);
  device.launch("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7", 11);
  device.launch("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", 13);
  device.launch("flash_fwd_splitkv_kernel", 17);
  device.launch("triton_poi_fused__scaled_dot_product_flash_attention_2", 1000);  // a copy
  const CountedKernels& counted = device.counted();
  EXPECT_EQ(counted.uncounted_kernels, 4u);
  EXPECT_EQ(counted.uncounted_ns, 7u + 11 + 13 + 17);
  EXPECT_EQ(counted.gemm_kernels + counted.attention_kernels, 0u);
  EXPECT_EQ(counted.attention_flops, FlopSum{});
}

TEST(CountedKernels, CountOnce) {
  Launches device;
  for (const char* name : {kForward, kBackward, kGemm, "fmha_v2"}) {
    device.take(device.launch(name, 100));
  }
  const CountedKernels& counted = device.counted();
  EXPECT_EQ(device.record.duplicates, 4u);
  EXPECT_EQ(counted.gemm_kernels, 1u);
  EXPECT_EQ(counted.attention_kernels, 2u);
  EXPECT_EQ(counted.attention_ns, 200u);
  EXPECT_EQ(counted.uncounted_ns, 100u);
  EXPECT_EQ(counted.attention_model_flops.value(), 3 * kForwardFlops);
}

// The table of names is full before attention's come.
TEST(CountedKernels, OfUnlistedNames) {
  Launches device;
  std::vector<std::string> others;
  for (uint32_t i = 0; i < NameTable::kMostNames; ++i) others.push_back("k" + std::to_string(i));
  for (const std::string& name : others) device.launch(name.c_str(), 1);
  for (int step = 0; step < 3; ++step) {
    device.launch(kForward, 100);
    device.launch(kBackward, 250);
    device.launch(kGemm, 10);
    device.launch("winograd_f32", 20);
  }
  EXPECT_EQ(device.names->find(kForward).number, NameTable::kUnlisted);
  const CountedKernels& counted = device.counted();
  EXPECT_EQ(counted.attention_kernels, 6u);
  EXPECT_EQ(counted.attention_model_flops.value(), 3 * 3 * kForwardFlops);
  EXPECT_EQ(counted.gemm_kernels, 3u);
  EXPECT_EQ(counted.gemm_ns, 30u);
  EXPECT_EQ(counted.uncounted_ns, 60u);
}

// The first 95 bytes, which the table keeps, are the same.
TEST(CountedKernels, TheWholeNameTells) {
  Launches device;
  std::string causal = kForward;
  causal.replace(causal.rfind("false, false, false, false, true"), 12, "false, true");
  EXPECT_EQ(causal.substr(0, kKernelNameSize), std::string(kForward, kKernelNameSize));
  device.launch(kForward, 100);
  device.launch(causal.c_str(), 50);
  EXPECT_EQ(device.counted().attention_flops.value(), kForwardFlops + kForwardFlops / 2);
}

// Two ranks with other durations, other names before, and their records in another order.
TEST(CollectiveSamples, TheSameOnesOnEveryRank) {
  std::map<uint64_t, uint64_t> ranks[2];
  uint32_t halvings[2];
  for (int rank = 0; rank < 2; ++rank) {
    auto samples = zeroed<CollectiveSamples>();
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (uint64_t name : {11u, 12u}) {
      for (uint64_t i = 0; i < 20'000; ++i) all.emplace_back(name, i);
    }
    std::mt19937_64 random(static_cast<uint64_t>(rank));
    std::shuffle(all.begin(), all.end(), random);
    for (auto [name, i] : all) {
      samples->add(name, i, 100 * i + static_cast<uint64_t>(rank));
      ASSERT_LE(samples->count, CollectiveSamples::kMost);
    }
    EXPECT_EQ(samples->fault(), nullptr);
    EXPECT_GT(samples->count, CollectiveSamples::kMost / 3);
    halvings[rank] = samples->halvings;
    for (uint32_t i = 0; i < samples->count; ++i) {
      ranks[rank][samples->samples[i].key] = samples->samples[i].duration_ns;
    }
  }
  EXPECT_EQ(halvings[0], halvings[1]);
  ASSERT_EQ(ranks[0].size(), ranks[1].size());
  for (auto [key, duration] : ranks[0]) {
    ASSERT_TRUE(ranks[1].contains(key));
    EXPECT_EQ(ranks[1][key], duration + 1);
  }
}

TEST(CollectiveSamples, FewAreAllKept) {
  auto samples = zeroed<CollectiveSamples>();
  for (uint64_t i = 0; i < CollectiveSamples::kMost; ++i) samples->add(1, i, i);
  EXPECT_EQ(samples->count, CollectiveSamples::kMost);
  EXPECT_EQ(samples->halvings, 0u);
  samples->add(1, CollectiveSamples::kMost, 0);
  EXPECT_EQ(samples->halvings, 1u);
  EXPECT_LT(samples->count, CollectiveSamples::kMost * 3 / 4);
}

TEST(CollectiveSamples, EqualKeysDoNotHang) {
  auto samples = zeroed<CollectiveSamples>();
  for (int i = 0; i < 100'000; ++i) samples->add(0, 0, 1);
  EXPECT_LE(samples->count, CollectiveSamples::kMost);
  EXPECT_EQ(samples->fault(), nullptr);
}

TEST(CollectiveSamples, StrangeBytesAreSeen) {
  auto samples = zeroed<CollectiveSamples>();
  samples->count = CollectiveSamples::kMost + 1;
  EXPECT_NE(samples->fault(), nullptr);
  samples->count = 1;
  samples->halvings = 64;
  EXPECT_NE(samples->fault(), nullptr);
  samples->halvings = 0;
  samples->samples[0].duration_ns = UINT64_MAX;
  EXPECT_NE(samples->fault(), nullptr);
}

}  // namespace
}  // namespace mfu
