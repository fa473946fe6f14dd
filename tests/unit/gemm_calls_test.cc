#include "profiler/gemm_calls.hh"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "profiler/graph_gemms.hh"

namespace mfu {
namespace {

struct Counter {
  Counter() { graphs.attach(&table); }
  GemmSums sums() {
    GemmSums result;
    EXPECT_TRUE(graphs.sum(counts, &result));
    EXPECT_EQ(gemm_sums_fault(result), nullptr);
    return result;
  }
  uint64_t calls_of(const GemmShape& shape) {
    sums();
    for (const GemmCount& count : counts) {
      if (!count.shape.empty() && count.shape == shape) return count.total();
    }
    return 0;
  }

  GemmTable table{};
  GraphGemms graphs{};
  GemmCount counts[GemmTable::kShapes];
};

GemmShape shape_of(uint64_t m, uint64_t n, uint64_t k) {
  return {.m = m, .n = n, .k = k, .precision = Precision::kBf16};
}

constexpr auto kBf16 = static_cast<size_t>(Precision::kBf16);
constexpr int kGraph = 0, kOther = 0, kExec = 0, kOtherExec = 0;

TEST(GemmShape, CountsMultiplicationsAndAdditions) {
  GemmShape shape = shape_of(4096, 8192, 1024);
  EXPECT_TRUE(shape.flops() == 68'719'476'736u);
  shape.batch = 3;
  EXPECT_TRUE(shape.flops() == 3 * 68'719'476'736u);
  shape.complex = true;
  EXPECT_TRUE(shape.flops() == 12 * 68'719'476'736u);
  // Beyond 64 bits, and beyond 128.
  shape = shape_of(uint64_t{1} << 31, uint64_t{1} << 31, uint64_t{1} << 31);
  EXPECT_TRUE(shape.flops() == static_cast<unsigned __int128>(1) << 94);
  shape.k = shape.batch = UINT64_MAX;
  EXPECT_TRUE(shape.flops() == ~static_cast<unsigned __int128>(0));
}

TEST(FlopSum, OutgrowsSixtyFourBits) {
  FlopSum sum;
  unsigned __int128 expected = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const unsigned __int128 flops = (static_cast<unsigned __int128>(i) << 56) + 0xfffff - i;
    sum.add(flops);
    expected += flops;
  }
  EXPECT_TRUE(sum.value() == expected);
  EXPECT_LT(sum.rest, uint64_t{1} << FlopSum::kRestBits);
  EXPECT_GT(sum.value() >> 64, 0u);
}

TEST(GemmTable, CountsShapesByThreadAndOrder) {
  auto counter = std::make_unique<Counter>();
  const GemmShape a = shape_of(1, 2, 3);
  GemmShape b = a;
  b.transposed_a = true;
  counter->table.add(a, 0);
  counter->table.add(b, 1);
  counter->table.add(a, 0);
  counter->table.add(a, 77);
  const GemmSums sums = counter->sums();
  EXPECT_EQ(sums.shapes, 2u);
  EXPECT_EQ(sums.calls[kBf16], 4u);
  EXPECT_TRUE(sums.flops[kBf16].value() == 4 * 12);
  for (const GemmCount& count : counter->counts) {
    if (count.shape == a) {
      EXPECT_EQ(count.calls[0], 2u);
      EXPECT_EQ(count.calls[kGemmThreads - 1], 1u);
      EXPECT_EQ(count.first, 1u);
      EXPECT_EQ(count.last, 4u);
    } else if (count.shape == b) {
      EXPECT_EQ(count.calls[1], 1u);
      EXPECT_EQ(count.first, 2u);
    }
  }
}

// More shapes than have room: their FLOPs are exact all the same.
TEST(GemmTable, KeepsTotalsOfWhatItCannotList) {
  auto counter = std::make_unique<Counter>();
  unsigned __int128 expected = 0;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 1; i <= 5000; ++i) {
      counter->table.add(shape_of(i, 7, 11), 0);
      expected += 2 * i * 7 * 11;
    }
  }
  const GemmSums sums = counter->sums();
  EXPECT_EQ(sums.calls[kBf16], 10'000u);
  EXPECT_TRUE(sums.flops[kBf16].value() == expected);
  EXPECT_GT(sums.shapes, GemmTable::kShapes * 9 / 10);
  EXPECT_EQ(sums.unlisted, 10'000 - 2 * sums.shapes);
  // These by thread and operations; narrow inputs are not among them.
  GemmShape shape = shape_of(5001, 7, 11);
  shape.precision = Precision::kFp8;
  counter->table.add(shape, 1);
  shape.precision = Precision::kFp16;
  shape.transposed_b = true;
  counter->table.add(shape, 1);
  shape.transposed_a = true;
  counter->table.add(shape, 9);
  shape.transposed_b = false;
  counter->table.add(shape, 0);
  for (const GemmCount& count : counter->counts) expected -= count.shape.flops() * count.total();
  UnlistedGemms unlisted;
  counter->table.unlisted(&unlisted);
  EXPECT_TRUE(unlisted.flops[0][kNN].value() == expected);
  EXPECT_TRUE(unlisted.flops[1][kNT].value() == 2 * 5001 * 7 * 11);
  EXPECT_TRUE(unlisted.flops[kGemmThreads - 1][kTT].value() == 2 * 5001 * 7 * 11);
  EXPECT_TRUE(unlisted.flops[0][kTN].value() == 2 * 5001 * 7 * 11);
  EXPECT_EQ(unlisted.flops[1][kTN], FlopSum{});
}

TEST(GemmTable, LosesNothingBetweenThreads) {
  auto counter = std::make_unique<Counter>();
  constexpr uint64_t kThreads = 4, kCalls = 5000;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kCalls; ++i) counter->table.add(shape_of(i % 2000 + 1, 1, 1), t);
    });
  }
  for (int i = 0; i < 20; ++i) counter->sums();
  for (std::thread& thread : threads) thread.join();
  unsigned __int128 expected = 0;
  for (uint64_t i = 0; i < kCalls; ++i) expected += 2 * kThreads * (i % 2000 + 1);
  const GemmSums sums = counter->sums();
  EXPECT_EQ(sums.calls[kBf16], kThreads * kCalls);
  EXPECT_TRUE(sums.flops[kBf16].value() == expected);
}

TEST(GraphGemms, RunAsOftenAsTheyAreLaunched) {
  auto counter = std::make_unique<Counter>();
  GraphGemms& graphs = counter->graphs;
  const GemmShape a = shape_of(10, 10, 10), b = shape_of(20, 20, 20);
  graphs.capture(&kGraph, 1, a, 0);
  graphs.capture(&kGraph, 1, a, 0);
  graphs.capture(&kGraph, 1, b, 1);
  EXPECT_EQ(counter->sums().captured, 3u);
  EXPECT_EQ(counter->sums().in_no_graph, 3u);
  graphs.launch(&kExec);  // of nothing that we know
  graphs.instantiate(&kExec, &kGraph);
  EXPECT_EQ(counter->sums().in_no_graph, 0u);
  EXPECT_EQ(counter->sums().calls[kBf16], 0u);
  for (int i = 0; i < 5; ++i) graphs.launch(&kExec);
  graphs.destroy(&kGraph);  // an instance outlives it
  graphs.launch(&kExec);
  EXPECT_EQ(counter->calls_of(a), 12u);
  EXPECT_EQ(counter->calls_of(b), 6u);
  const GemmSums before = counter->sums();
  EXPECT_EQ(before.calls[kBf16], 18u);
  EXPECT_EQ(before.replayed, 18u);
  EXPECT_EQ(before.graph_launches, 6u);
  // To destroy the instance changes nothing of what was.
  graphs.destroy_exec(&kExec);
  const GemmSums after = counter->sums();
  EXPECT_EQ(memcmp(&before, &after, sizeof(before)), 0);
  graphs.launch(&kExec);
  EXPECT_EQ(counter->sums().calls[kBf16], 18u);
}

// cuBLAS may run all of it in one kernel: more calls than were made would stand for kernels that
// nobody counted.
TEST(GemmTable, AGroupedCallIsOne) {
  auto counter = std::make_unique<Counter>();
  GemmPart part = GemmPart::kCall;
  unsigned __int128 flops = 0;
  for (uint64_t i = 1; i <= 64; ++i) {
    const GemmShape shape = shape_of(i % 10 + 1, 7, 11);
    counter->table.add(shape, 1, part);
    flops += shape.flops();
    part = GemmPart::kFurther;
  }
  const GemmSums sums = counter->sums();
  EXPECT_EQ(sums.calls[kBf16], 1u);
  EXPECT_EQ(sums.shapes, 10u);
  EXPECT_TRUE(sums.flops[kBf16].value() == flops);
  EXPECT_EQ(counter->calls_of(shape_of(2, 7, 11)), 7u);
}

// Also where no shape of it has a place.
TEST(GemmTable, AnUnlistedGroupedCallIsOne) {
  auto counter = std::make_unique<Counter>();
  for (uint64_t i = 1; i <= 4000; ++i) counter->table.add(shape_of(i, 1, 1), 0);
  const GemmSums before = counter->sums();
  GemmPart part = GemmPart::kCall;
  uint64_t groups = 0;
  unsigned __int128 flops = 0;
  for (uint64_t i = 1; groups < 64; ++i) {
    const GemmShape shape = shape_of(5000 + i, 1, 1);
    if (counter->table.note(shape) != GemmTable::kNoNumber) continue;
    counter->table.add(shape, 0, part);
    flops += shape.flops();
    part = GemmPart::kFurther;
    ++groups;
  }
  const GemmSums after = counter->sums();
  EXPECT_EQ(after.calls[kBf16], before.calls[kBf16] + 1);
  EXPECT_EQ(after.unlisted, before.unlisted + 1);
  EXPECT_TRUE(after.flops[kBf16].value() == before.flops[kBf16].value() + flops);
}

TEST(GraphGemms, AGroupedCallIsOneALaunch) {
  auto counter = std::make_unique<Counter>();
  GemmPart part = GemmPart::kCall;
  unsigned __int128 flops = 0;
  for (uint64_t i = 1; i <= 64; ++i) {
    const GemmShape shape = shape_of(i % 10 + 1, 7, 11);
    counter->graphs.capture(&kGraph, 1, shape, 0, part);
    flops += shape.flops();
    part = GemmPart::kFurther;
  }
  counter->graphs.capture(&kGraph, 1, shape_of(4, 7, 11), 0);
  flops += shape_of(4, 7, 11).flops();
  EXPECT_EQ(counter->sums().captured, 2u);
  EXPECT_EQ(counter->sums().in_no_graph, 2u);
  counter->graphs.instantiate(&kExec, &kGraph);
  for (int i = 0; i < 3; ++i) counter->graphs.launch(&kExec);
  for (const bool destroyed : {false, true}) {
    SCOPED_TRACE(destroyed);
    const GemmSums sums = counter->sums();
    EXPECT_EQ(sums.calls[kBf16], 6u);
    EXPECT_EQ(sums.replayed, 6u);
    EXPECT_EQ(sums.uncovered + sums.in_no_graph, 0u);
    EXPECT_TRUE(sums.flops[kBf16].value() == 3 * flops);
    EXPECT_EQ(counter->calls_of(shape_of(2, 7, 11)), 21u);
    counter->graphs.destroy_exec(&kExec);
  }
}

TEST(GraphGemms, FollowChildrenClonesAndUpdates) {
  auto counter = std::make_unique<Counter>();
  GraphGemms& graphs = counter->graphs;
  const GemmShape a = shape_of(10, 10, 10), b = shape_of(20, 20, 20);
  const int parent = 0, copy = 0;
  graphs.capture(&kGraph, 1, a, 0);
  graphs.add_child(&parent, &kGraph);
  graphs.add_child(&parent, &kGraph);
  graphs.clone(&copy, &parent);
  graphs.instantiate(&kExec, &copy);
  graphs.launch(&kExec);
  EXPECT_EQ(counter->calls_of(a), 2u);
  graphs.capture(&kOther, 2, b, 0);
  graphs.instantiate(&kExec, &kOther);  // an update
  graphs.launch(&kExec);
  graphs.launch(&kExec);
  EXPECT_EQ(counter->calls_of(a), 2u);
  EXPECT_EQ(counter->calls_of(b), 2u);
  graphs.lose(&kExec);
  graphs.launch(&kExec);
  EXPECT_EQ(counter->calls_of(b), 2u);
  EXPECT_EQ(counter->sums().uncovered, 1u);
}

// A handle may lie where an older one lay, whose end was not seen.
TEST(GraphGemms, BeginAnewWithEveryCapture) {
  auto counter = std::make_unique<Counter>();
  GraphGemms& graphs = counter->graphs;
  const GemmShape a = shape_of(10, 10, 10), b = shape_of(20, 20, 20);
  graphs.capture(&kGraph, 1, a, 0);
  graphs.capture(&kGraph, 2, b, 0);
  graphs.instantiate(&kExec, &kGraph);
  graphs.launch(&kExec);
  EXPECT_EQ(counter->calls_of(a), 0u);
  EXPECT_EQ(counter->calls_of(b), 1u);
  EXPECT_EQ(counter->sums().in_no_graph, 1u);
  // What nobody knows is instantiated in its place.
  graphs.instantiate(&kExec, &kOtherExec);
  graphs.launch(&kExec);
  EXPECT_EQ(counter->calls_of(b), 1u);
}

// Piecewise captured models make and destroy thousands; memory is given back.
TEST(GraphGemms, ThousandsOfThem) {
  auto counter = std::make_unique<Counter>();
  GraphGemms& graphs = counter->graphs;
  std::vector<uint64_t> handles(20'000);
  uint64_t captured = 0, launched = 0;
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 5000; ++i) {
      const void* graph = &handles[i * 2];
      const void* exec = &handles[i * 2 + 1];
      for (uint64_t g = 0; g < 4; ++g) {
        graphs.capture(graph, ++captured, shape_of(g + 1, i % 100 + 1, 1), 0);
      }
      graphs.instantiate(exec, graph);
      graphs.destroy(graph);
      graphs.launch(exec);
      ++launched;
    }
    const GemmSums sums = counter->sums();
    EXPECT_EQ(sums.uncovered, 0u);
    EXPECT_EQ(sums.graph_launches, launched);
    for (size_t i = 0; i < 5000; ++i) graphs.destroy_exec(&handles[i * 2 + 1]);
  }
  // Each capture of another number began the graph anew.
  EXPECT_EQ(counter->sums().calls[kBf16], launched);
  // What finds no place is said to be uncovered.
  for (const uint64_t& handle : handles) graphs.capture(&handle, 1, shape_of(1, 1, 1), 0);
  const GemmSums sums = counter->sums();
  EXPECT_GT(sums.uncovered, 0u);
  EXPECT_EQ(sums.uncovered + sums.captured, captured + handles.size());
}

TEST(GraphGemms, LaunchedByAllThreadsAtOnce) {
  auto counter = std::make_unique<Counter>();
  GraphGemms& graphs = counter->graphs;
  const GemmShape shape = shape_of(10, 10, 10);
  graphs.capture(&kGraph, 1, shape, 0);
  constexpr uint64_t kThreads = 4, kLaunches = 2000;
  std::vector<int> execs(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kLaunches; ++i) {
        graphs.instantiate(&execs[t], &kGraph);
        graphs.launch(&execs[t]);
        graphs.destroy_exec(&execs[t]);
      }
    });
  }
  for (int i = 0; i < 20; ++i) counter->sums();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter->calls_of(shape), kThreads * kLaunches);
}

TEST(GemmSums, AreNotBelieved) {
  GemmSums sound;
  sound.calls[kBf16] = 3;
  sound.flops[kBf16] = {5, 7};
  sound.captured = 2;
  EXPECT_EQ(gemm_sums_fault(sound), nullptr);
  EXPECT_EQ(gemm_sums_fault({}), nullptr);
  auto faulty = [&](auto&& change) {
    GemmSums sums = sound;
    change(sums);
    return gemm_sums_fault(sums) != nullptr;
  };
  EXPECT_TRUE(faulty([](GemmSums& s) { s.calls[kBf16] = UINT64_MAX; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.calls[kBf16] = 0; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.flops[kBf16].rest = 1 << 20; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.flops[kBf16].mega = UINT64_MAX; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.replayed = 4; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.unlisted = 4; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.in_no_graph = 3; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.shapes = 1025; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.captured = UINT64_MAX; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.uncovered = UINT64_MAX; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.graph_launches = UINT64_MAX; }));
  EXPECT_TRUE(faulty([](GemmSums& s) { s.entries = UINT64_MAX; }));
}

}  // namespace
}  // namespace mfu
