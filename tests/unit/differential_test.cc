// One run, told twice: what the injected library records while a trace is replayed under it, and
// what mfu-analyze says of the trace. Every figure that both have is the same integer.
//
// The library gets the operations in order of their ends and folds as it goes; mfu-analyze sorts
// the whole file by start. Only the sweep and the tables of names are one code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/unit/told_twice.hh"

namespace mfu {
namespace {

// Times are JSON as they stand: numbers or texts.
std::string event(const char* category, const std::string& name, const std::string& ts,
                  const std::string& dur, int64_t device = 0, int64_t stream = 7) {
  return R"({"ph":"X","cat":")" + std::string(category) + R"(","name":")" + name + R"(","ts":)" +
         ts + R"(,"dur":)" + dur + R"(,"args":{"device":)" + std::to_string(device) +
         R"(,"stream":)" + std::to_string(stream) + "}}";
}

struct Named {
  const char* category;
  const char* name;
};
// Every class, all collectives, several precisions; names alike for longer than the library's table
// of names compares; escapes, an empty name.
constexpr Named kNames[] = {
    {"kernel", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"},
    {"kernel", "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64"},
    {"kernel", "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x3_nt_align4>(a)"},
    {"kernel", "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64>(a)"},
    {"kernel", "volta_sgemm_128x64_nn"},
    {"kernel", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)"},
    {"kernel", "triton_poi_fused_all_gather_into_tensor_out_wait_tensor_0"},
    {"kernel", "a \\\"quoted\\\" \\u00e9 name,\\nof two \\\\ lines"},
    {"kernel", ""},
    {"Kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
    {"kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
    {"kernel",
     "_Z43ncclDevKernel_ReduceScatter_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"},
    {"kernel", "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)"},
    {"kernel", "ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
    {"kernel", "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"},
    {"kernel", "_ZN7deep_ep12internode_ll7combineILi3ELi7168EEEvPvPf"},
    {"kernel", "ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)"},
    {"gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"},
    {"gpu_memcpy", "Memcpy PtoP (Device -> Device)"},
    {"Memcpy", "Memcpy DtoD"},
    {"gpu_memset", "Memset (Device)"},
    {"cuda_sync", "Stream Sync"},  // neither side's
};

std::string joined(const std::vector<std::string>& events) {
  std::string text;
  for (const std::string& event : events) text += (text.empty() ? "" : ",\n") + event;
  return text;
}

// Nanoseconds as a trace may write them, from a time whose digits a double could not keep.
std::string microseconds(uint64_t ns, uint64_t form) {
  std::string fraction = std::to_string(1000 + ns % 1000).substr(1);
  std::string plain = std::to_string(ns / 1000) + "." + fraction;
  if (form % 4 == 1) return plain + "999";  // less than a nanosecond
  if (form % 4 == 2) return "\"" + plain + "\"";
  if (form % 4 == 3) return std::to_string(ns) + "e-3";
  return plain;
}

std::string random_trace(uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr uint64_t kOrigin = 1'712'195'495'507'888'958;
  const uint64_t devices = 1 + seed % 3;
  std::vector<uint64_t> edges = {kOrigin};
  std::vector<std::string> events;
  for (int i = 0; i < 200; ++i) {
    // Every third begins where another begins or ends; durations from nothing to 8 ms.
    uint64_t start =
        random() % 3 == 0 ? edges[random() % edges.size()] : kOrigin + random() % 190'000'000;
    uint64_t duration = random() % 8 == 0 ? random() % 2 : random() % (1ull << (8 + random() % 16));
    edges.push_back(start);
    edges.push_back(start + duration);
    const Named& named = kNames[random() % std::size(kNames)];
    events.push_back(event(
        named.category, named.name, microseconds(start, random()), microseconds(duration, random()),
        static_cast<int64_t>(random() % devices * 2 + 1), static_cast<int64_t>(random() % 3)));
  }
  return joined(events);
}

TEST_F(Differential, EveryMaskOfOverlap) {
  const char* compute = kNames[0].name;
  const char* communication = kNames[9].name;
  const char* copy = kNames[17].name;
  add(joined({
      event("kernel", compute, "1000", "100"),
      event("kernel", communication, "1050", "200", 0, 20),
      event("gpu_memcpy", copy, "1080", "100", 0, 21),
      event("kernel", compute, "1300", "10"),
      event("gpu_memset", "fill", "1305", "10", 0, 21),
      // The same twice, one in another, and one that begins where another ends.
      event("kernel", compute, "1400", "50"),
      event("kernel", compute, "1400", "50", 0, 8),
      event("kernel", compute, "1410", "5", 0, 9),
      event("kernel", communication, "1450", "50"),
      event("gpu_memcpy", copy, "1600", "7"),  //
      event("kernel", communication, "1700", "1"),
  }));
  for (const Twice& run : expect_all_same()) {
    ASSERT_EQ(run.records.size(), 1u);
    EXPECT_EQ(run.records[0].time.partition_ns[1], 50'000u + 5'000 + 50'000);
    for (int mask = 1; mask < kMasks; ++mask) EXPECT_GT(run.records[0].time.partition_ns[mask], 0u);
  }
}

// The span is from the first start to the last end, also of operations that took no time.
TEST_F(Differential, NothingAtTheEdges) {
  const char* compute = kNames[0].name;
  add(joined({event("kernel", compute, "10", "0"), event("kernel", compute, "20", "30"),
              event("gpu_memset", "fill", "60.001", "0")}));
  add(joined({event("kernel", compute, "10", "0"), event("kernel", compute, "20", "0")}));
  add(event("kernel", compute, "10", "0"));
  add(event("cuda_sync", "no operation", "10", "5"));
  const std::vector<Twice> runs = expect_all_same();
  ASSERT_EQ(runs[0].records.size(), 1u);
  EXPECT_EQ(runs[0].records[0].time.span_ns(), 50'001u);
  EXPECT_EQ(runs[0].records[0].time.idle_ns(), 20'001u);
  EXPECT_TRUE(runs[3].records.empty());
}

TEST_F(Differential, AwkwardTimes) {
  const char* compute = kNames[0].name;
  add(joined({event("kernel", compute, "1712195495507888.958", "2.080"),
              event("kernel", compute, "\"1712195495507891.0389\"", "0.001"),
              event("kernel", compute, "1.712195495507895e15", "1e-3"),
              event("kernel", compute, "1712195495507899", "-4"),  // taken for nothing by both
              event("gpu_memcpy", "Memcpy DtoH", "1712195495507898.9999", "0.0019"),
              event("kernel", kNames[9].name, "1712195495507890.5", "0.9999999")}));
  add(joined({event("kernel", compute, "-20.5", "10.25"), event("kernel", compute, "0", "1.5"),
              event("kernel", kNames[9].name, "-15", "17")}));
  expect_all_same();
}

// In order of the names' table, on two devices: one told by "args", the other by "pid".
TEST_F(Differential, EveryNameOnTwoDevices) {
  std::vector<std::string> events;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const std::string at = std::to_string(1'000'000 + 37 * i);
    events.push_back(event(kNames[i].category, kNames[i].name, at, "50.007", 4));
    events.push_back(R"({"args":{"stream":3},"pid":2,"tid":"stream 3","cat":")" +
                     std::string(kNames[i].category) + R"(","name":")" + kNames[i].name +
                     R"(","dur":30.5,"ts":)" + at + R"(.25,"ph":"X"})");
  }
  std::reverse(events.begin(), events.end());
  add(joined(events));
  for (const Twice& run : expect_all_same()) {
    ASSERT_EQ(run.told["devices"].size(), 2u);
    EXPECT_EQ(run.told["devices"][0]["collectives"].size(), 8u);
    EXPECT_GE(run.told["devices"][1]["gemm_ns"].size(), 4u);
  }
}

// More operations than the library's timeline holds: it folds, and must fold nothing too early. And
// more names than its table of them.
TEST_F(Differential, MoreThanTheTimelineHolds) {
  std::mt19937_64 random(1);
  std::vector<std::string> events;
  for (uint64_t i = 0; i < 30'000; ++i) {
    const Named& named = kNames[random() % std::size(kNames)];
    const uint64_t duration = i % 100 == 0 ? random() % 5'000'000 : random() % 20'000;
    events.push_back(event(named.category, named.name + (" " + std::to_string(i)),
                           microseconds(1 + i * 10'000, 0), microseconds(duration, 0), 0,
                           static_cast<int64_t>(i % 3)));
  }
  add(joined(events));
  const std::vector<Twice> runs = expect_all_same();
  // All names are different: more than the library's table holds. Sums have all of them.
  const uint64_t kernels = runs[0].told["kernels"];
  EXPECT_EQ(runs[0].recorded[0]["unlisted_kernels"], kernels - (NameTable::kMostNames - 1));
}

TEST_F(Differential, RandomTraces) {
  for (uint64_t seed = 1; seed <= 30; ++seed) add(random_trace(seed));
  size_t records = 0;
  for (const Twice& run : expect_all_same()) records += run.records.size();
  EXPECT_EQ(records, 60u);  // 1 to 3 devices, ten times each
}

TEST_F(Differential, RecordedTraces) {
  const char* shared = std::getenv("MFU_SHARED");
  const std::string folder = std::string(shared == nullptr ? "../shared" : shared) + "/data/traces";
  for (const std::string& set : names_in(folder)) {
    for (const std::string& path : names_in(set)) {
      // mfu-analyze takes an array without its ']', as the format allows; trace_script does not.
      if (path.ends_with("29-bare-array.json") || set.ends_with("/expected")) continue;
      if (path.ends_with(".json") || path.ends_with(".json.gz")) traces_.push_back(path);
    }
  }
  if (traces_.empty()) GTEST_SKIP() << "no recorded traces in " << folder;
  size_t replayed = 0;
  for (const Twice& run : run()) {
    EXPECT_EQ(run.failure, "") << run.trace;
    if (!run.replayed) continue;
    expect_same(run);
    ++replayed;
  }
  EXPECT_GE(replayed, 53u);  // the others are too long, or broken on purpose
}

}  // namespace
}  // namespace mfu
