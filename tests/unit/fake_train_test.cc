// The truth of a generated training step, which is known by construction, against a sweep over the
// operations that the step consists of.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/fake/training_step.hh"

namespace mfu::fake {
namespace {

constexpr ModelShape kSmall = {
    .layers = 3, .hidden = 512, .heads = 8, .seq = 128, .batch = 2, .vocab = 1000};

struct Step {
  std::vector<GpuOperation> operations;
  TimeTruth truth;
};

Step steps(const ModelShape& shape, uint64_t step_ns, int ranks, uint64_t seed, int count) {
  Layout layout(0, 1'000'000'007);
  Step all;
  for (int i = 0; i < count; ++i) {
    lay_out_step(shape, step_ns, ranks, seed + static_cast<uint64_t>(i), &layout);
    for (const GpuOperation& operation : layout.take()) all.operations.push_back(operation);
  }
  all.truth = layout.truth();
  return all;
}

uint32_t class_of(const GpuOperation& operation) {
  if (operation.work != GpuWork::kKernel) return kMemoryWork;
  return std::string(operation.name).starts_with("nccl") ? kCommunicationWork : kComputeWork;
}

// What runs between any two neighbouring edges, found by asking every operation.
void sweep(const std::vector<GpuOperation>& operations, uint64_t (&partition)[8]) {
  std::vector<uint64_t> edges;
  for (const GpuOperation& operation : operations) {
    edges.push_back(operation.start_ns);
    edges.push_back(operation.end_ns);
  }
  std::sort(edges.begin(), edges.end());
  for (size_t i = 1; i < edges.size(); ++i) {
    uint32_t mask = 0;
    for (const GpuOperation& operation : operations) {
      if (operation.start_ns <= edges[i - 1] && operation.end_ns >= edges[i]) {
        mask |= class_of(operation);
      }
    }
    partition[mask] += edges[i] - edges[i - 1];
  }
}

TEST(FakeTrain, TruthEqualsASweep) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    int ranks = seed % 5 == 0 ? 1 : 8;
    Step step = steps(kSmall, 3'000'000 + seed * 12'345, ranks, seed, 2);
    uint64_t expected[8] = {};
    sweep(step.operations, expected);
    uint64_t sum = 0;
    for (int mask = 0; mask < 8; ++mask) {
      EXPECT_EQ(step.truth.partition_ns[mask], expected[mask])
          << "seed " << seed << " mask " << mask;
      sum += expected[mask];
    }
    EXPECT_EQ(step.truth.end_ns - step.truth.start_ns, sum);
    uint64_t counts[5] = {};
    for (const GpuOperation& operation : step.operations) ++counts[class_of(operation)];
    EXPECT_EQ(step.truth.compute_kernels, counts[kComputeWork]);
    EXPECT_EQ(step.truth.communication_kernels, counts[kCommunicationWork]);
    EXPECT_EQ(step.truth.copies, counts[kMemoryWork]);
    EXPECT_EQ(counts[kCommunicationWork], ranks == 1 ? 0u : 2 * kSmall.layers);
  }
}

TEST(FakeTrain, EveryOverlapOccurs) {
  Step step = steps(kSmall, 3'000'000, 8, 1, 1);
  for (uint32_t mask : {0u, 1u, 2u, 3u, 4u, 5u, 6u}) {
    EXPECT_GT(step.truth.partition_ns[mask], 0u) << mask;
  }
}

TEST(FakeTrain, OperationsAreInOrderOfStart) {
  Step step = steps(kSmall, 3'000'000, 8, 7, 3);
  EXPECT_TRUE(std::is_sorted(
      step.operations.begin(), step.operations.end(),
      [](const GpuOperation& a, const GpuOperation& b) { return a.start_ns < b.start_ns; }));
}

TEST(FakeTrain, StepTakesAboutAsLongAsAsked) {
  Step step = steps(kSmall, 10'000'000, 8, 1, 20);
  double mean = static_cast<double>(step.truth.end_ns - step.truth.start_ns) / 20;
  EXPECT_NEAR(mean, 10e6, 0.5e6);
}

TEST(FakeTrain, EqualSeedsGiveEqualSteps) {
  Step a = steps(kSmall, 3'000'000, 8, 3, 1);
  Step b = steps(kSmall, 3'000'000, 8, 3, 1);
  Step c = steps(kSmall, 3'000'000, 8, 4, 1);
  EXPECT_EQ(a.truth.end_ns, b.truth.end_ns);
  EXPECT_NE(a.truth.end_ns, c.truth.end_ns);
}

// 12 layers, 768 hidden, 1024 tokens, 50257 words: GPT-2 small.
TEST(FakeTrain, FlopsAreThoseOfTheFormula) {
  ModelShape gpt2 = {
      .layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .batch = 1, .vocab = 50257};
  // Per token: 6 * (12 * 12 * 768^2 + 768 * 50257) + 12 * 12 * 768 * 1024.
  EXPECT_EQ(gpt2.step_flops(), 1024ull * (6ull * (84934656 + 38597376) + 113246208));
}

}  // namespace
}  // namespace mfu::fake
