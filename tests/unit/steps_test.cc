// The periodicity detector on generated streams of kernels with known steps, on the fake training
// job's steps, and on recorded traces, repeated. An estimate may be missing; it must never be
// wrong.
#include "profiler/steps.hh"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/fake/trace_events.hh"
#include "tests/fake/training_step.hh"

namespace mfu {
namespace {

// The detector lives in zeroed memory.
static_assert(std::is_trivially_default_constructible_v<StepDetector>);
static_assert(sizeof(StepDetector) < 256 << 10);

constexpr uint64_t kOrigin = 1'700'000'000'000'000'000;

struct Kernel {
  uint64_t token;
  uint64_t start_ns;
  uint64_t end_ns;
  KernelMark mark;
};

// Kernels in order of end, as CUPTI hands them out, and where steps begin: at the optimizer.
struct Stream {
  std::vector<Kernel> kernels;
  std::vector<uint64_t> steps;
};

struct Shape {
  const char* name;
  bool found;          // must be found; else it may be missing
  bool marked = true;  // the optimizer's kernels are known by name
  int layers = 12;
  int microbatches = 1;
  int steps = 60;
  double jitter = 0.05;
  bool overlapped_reduce = false;  // all-reduces on a second stream
  bool variable_grid = false;      // sequences of any length
  double variable_kernels = 0;     // a step's kernels vary by this share
  int experts = 0;                 // up to so many kernels of any grid in each layer
  int evaluation_every = 0;
  int evaluation_batches = 0;
  int pause_every = 0;  // a checkpoint takes ten steps
  int log_every = 0;
  bool slower = false;      // the second half takes 1.7 times as long
  int ramp = 0;             // microbatches that are added halfway
  int start_up = 500;       // kernels before the first step, none like another
  int single_launches = 0;  // of an optimizer that has no bursts
};

class Generator {
 public:
  explicit Generator(const Shape& shape) : shape_(shape) {}

  Stream run() {
    for (int i = 0; i < shape_.start_up; ++i) launch(1'000'000 + i, 20'000, 1 + i);
    for (int step = 0; step < shape_.steps; ++step) {
      scale_ = shape_.slower && step * 2 >= shape_.steps ? 1.7 : 1.0;
      int microbatches = shape_.microbatches;
      if (step * 2 >= shape_.steps) microbatches += shape_.ramp;
      for (int i = 0; i < microbatches; ++i) microbatch();
      optimize();
      if (due(step, shape_.log_every)) launch(900, 1'500, 1);
      if (due(step, shape_.pause_every)) now_ns_ += 400'000'000;
      if (due(step, shape_.evaluation_every)) evaluate();
    }
    std::stable_sort(stream_.kernels.begin(), stream_.kernels.end(),
                     [](const Kernel& a, const Kernel& b) { return a.end_ns < b.end_ns; });
    return std::move(stream_);
  }

 private:
  static bool due(int step, int every) { return every > 0 && step % every == every - 1; }

  double between(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  uint64_t spread(double ns) {
    return static_cast<uint64_t>(ns * scale_ * between(1 - shape_.jitter, 1 + shape_.jitter));
  }
  void launch(uint64_t name, double ns, uint32_t grid, KernelMark mark = KernelMark::kNone) {
    const uint64_t length = spread(ns);
    add(name, now_ns_, now_ns_ + length, grid, mark);
    now_ns_ += length + spread(2'000);
  }
  void add(uint64_t name, uint64_t start, uint64_t end, uint32_t grid, KernelMark mark) {
    const uint32_t grids[3] = {grid, 1, 1};
    stream_.kernels.push_back({step_token(name * 0x9e3779b97f4a7c15, grids), start, end, mark});
  }

  void layer(uint64_t first_name, int kernels) {
    for (int i = 0; i < kernels; ++i) launch(first_name + static_cast<uint64_t>(i), 150'000, grid_);
    const int experts = shape_.experts > 0 ? static_cast<int>(random_() % shape_.experts) : 0;
    for (int i = 0; i < experts; ++i) launch(first_name + 90, 40'000, 1 + random_() % 500);
  }

  void forward(uint64_t first_name, int layers) {
    launch(first_name, 60'000, grid_);
    for (int i = 0; i < layers; ++i) layer(first_name + 100, 8);
    launch(first_name + 1, 200'000, grid_);
    launch(first_name + 2, 90'000, grid_);
  }

  void microbatch() {
    grid_ = shape_.variable_grid ? 1 + random_() % 1000 : 64;
    const double share = between(1 - shape_.variable_kernels, 1 + shape_.variable_kernels);
    const int layers = std::max(1, static_cast<int>(shape_.layers * share));
    forward(1000, layers);
    for (int i = 0; i < layers; ++i) {
      layer(2000, 12);
      if (!shape_.overlapped_reduce) continue;
      const uint64_t start = now_ns_ + random_() % 100'000;
      add(3000, start, start + spread(1'500'000), 24, KernelMark::kNone);
    }
    grid_ = 64;
  }

  void optimize() {
    const KernelMark mark = shape_.marked ? KernelMark::kOptimizer : KernelMark::kNone;
    stream_.steps.push_back(now_ns_);
    launch(800, 20'000, 7, mark);  // the gradients' norm
    launch(801, 5'000, 1);
    for (int i = 0; i < shape_.single_launches; ++i) launch(5000 + i, 5'000, 1 + i);
    if (shape_.single_launches > 0) return;
    for (int i = 0; i < 10; ++i) launch(802, 40'000, 320, mark);
    launch(802, 10'000, 71, mark);
  }

  void evaluate() {
    for (int i = 0; i < shape_.evaluation_batches; ++i) forward(4000, shape_.layers);
    launch(4999, 30'000, 1);
  }

  const Shape& shape_;
  std::mt19937_64 random_{7};
  Stream stream_;
  uint64_t now_ns_ = kOrigin;
  uint32_t grid_ = 64;
  double scale_ = 1;
};

std::unique_ptr<StepDetector> feed(const std::vector<Kernel>& kernels) {
  auto detector = std::make_unique<StepDetector>();
  for (const Kernel& kernel : kernels) {
    detector->add(kernel.token, kernel.start_ns, kernel.end_ns, kernel.mark);
  }
  return detector;
}

void expect_nothing(const StepEstimate& estimate) {
  EXPECT_EQ(estimate.source, StepSource::kNone);
  EXPECT_EQ(estimate.count, 0u);
  EXPECT_EQ(estimate.period_ns, 0u);
  EXPECT_EQ(estimate.confidence, 0u);
  EXPECT_EQ(estimate.productive_ns + estimate.stalled_ns + estimate.stalls, 0u);
}

// Within 2%, or one step at the end that began.
void expect_right(const StepEstimate& estimate, uint64_t count, double period_ns) {
  EXPECT_NEAR(static_cast<double>(estimate.count), static_cast<double>(count),
              std::max(1.0, 0.02 * static_cast<double>(count)));
  EXPECT_NEAR(static_cast<double>(estimate.period_ns), period_ns, 0.02 * period_ns);
  EXPECT_GE(estimate.confidence, kLeastConfidence);
  EXPECT_LE(estimate.confidence, 1000u);
  EXPECT_EQ(estimate.productive_ns + estimate.stalled_ns, estimate.last_ns - estimate.first_ns);
}

class Generated : public testing::TestWithParam<Shape> {};

TEST_P(Generated, steps_are_right_or_absent) {
  const Stream stream = Generator(GetParam()).run();
  const auto detector = feed(stream.kernels);
  const StepEstimate estimate = detector->estimate();
  const uint64_t count = stream.steps.size();
  if (GetParam().found) {
    EXPECT_EQ(estimate.source, StepSource::kPeriodicity);
  }
  if (estimate.source == StepSource::kNone) return expect_nothing(estimate);
  const double period = static_cast<double>(stream.steps.back() - stream.steps.front()) /
                        static_cast<double>(count - 1);
  // The anchor may begin a step or end it, and evaluation falls into the one gap or the other.
  const double anchored = static_cast<double>(estimate.last_ns - estimate.first_ns) /
                          static_cast<double>(estimate.count - 1);
  expect_right(estimate, count, GetParam().evaluation_every > 0 ? anchored : period);
}

// Asked every few kernels, it must not have been wrong on the way either, from the first optimizer
// step on. Before it, nothing tells microbatches from steps.
TEST_P(Generated, estimates_on_the_way_are_right_or_absent) {
  const Stream stream = Generator(GetParam()).run();
  StepDetector detector{};
  size_t answers = 0;
  for (size_t i = 0; i < stream.kernels.size(); ++i) {
    const Kernel& kernel = stream.kernels[i];
    detector.add(kernel.token, kernel.start_ns, kernel.end_ns, kernel.mark);
    if (i % 97 != 0 || kernel.start_ns < stream.steps.front()) continue;
    const StepEstimate estimate = detector.estimate();
    if (estimate.source == StepSource::kNone) continue;
    ++answers;
    const auto begun = std::upper_bound(stream.steps.begin(), stream.steps.end(), kernel.start_ns) -
                       stream.steps.begin();
    ASSERT_NEAR(static_cast<double>(estimate.count), static_cast<double>(begun),
                std::max(1.0, 0.02 * static_cast<double>(begun)));
  }
  if (GetParam().found) {
    EXPECT_GT(answers, 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Steps, Generated,
    testing::Values(
        Shape{.name = "plain", .found = true},
        Shape{.name = "plain_unmarked", .found = true, .marked = false, .layers = 1},
        Shape{.name = "layers_unmarked", .found = false, .marked = false},
        Shape{.name = "no_start_up", .found = true, .start_up = 0},
        Shape{.name = "long_start_up", .found = true, .steps = 100, .start_up = 8000},
        Shape{.name = "deep", .found = true, .layers = 96},
        Shape{.name = "accumulation", .found = true, .layers = 4, .microbatches = 8},
        Shape{.name = "long_accumulation", .found = true, .layers = 2, .microbatches = 64},
        Shape{.name = "accumulation_unmarked",
              .found = false,
              .marked = false,
              .layers = 1,
              .microbatches = 8},
        Shape{.name = "more_microbatches_halfway",
              .found = true,
              .layers = 3,
              .microbatches = 4,
              .steps = 100,
              .ramp = 4},
        Shape{.name = "overlapped_reduce", .found = true, .overlapped_reduce = true},
        Shape{.name = "strong_jitter", .found = true, .jitter = 0.5},
        Shape{.name = "variable_sequences", .found = true, .variable_grid = true},
        Shape{.name = "variable_sequences_unmarked",
              .found = false,
              .marked = false,
              .variable_grid = true},
        Shape{.name = "variable_kernels", .found = false, .layers = 30, .variable_kernels = 0.25},
        Shape{.name = "variable_kernels_unmarked",
              .found = false,
              .marked = false,
              .layers = 30,
              .variable_kernels = 0.25},
        Shape{.name = "experts", .found = false, .steps = 200, .experts = 6},
        Shape{.name = "experts_unmarked", .found = false, .marked = false, .experts = 6},
        Shape{.name = "evaluation",
              .found = true,
              .steps = 400,
              .evaluation_every = 50,
              .evaluation_batches = 10},
        Shape{.name = "evaluation_of_one_batch",
              .found = true,
              .steps = 200,
              .evaluation_every = 10,
              .evaluation_batches = 1},
        Shape{.name = "evaluation_unmarked",
              .found = false,
              .marked = false,
              .layers = 1,
              .steps = 400,
              .evaluation_every = 50,
              .evaluation_batches = 10},
        Shape{.name = "mostly_evaluation",
              .found = false,
              .layers = 3,
              .steps = 200,
              .evaluation_every = 10,
              .evaluation_batches = 40},
        Shape{.name = "mostly_evaluation_unmarked",
              .found = false,
              .marked = false,
              .layers = 1,
              .steps = 200,
              .evaluation_every = 10,
              .evaluation_batches = 40},
        Shape{.name = "evaluation_without_bursts",
              .found = false,
              .layers = 3,
              .steps = 200,
              .evaluation_every = 10,
              .evaluation_batches = 20,
              .single_launches = 9},
        Shape{.name = "checkpoints", .found = true, .pause_every = 20},
        Shape{.name = "logging", .found = true, .layers = 1, .steps = 200, .log_every = 10},
        Shape{.name = "logging_unmarked",
              .found = false,
              .marked = false,
              .layers = 1,
              .steps = 200,
              .log_every = 10},
        Shape{.name = "slower_halfway", .found = true, .steps = 100, .slower = true},
        Shape{.name = "few", .found = false, .steps = 4, .start_up = 0},
        Shape{.name = "few_with_accumulation",
              .found = false,
              .layers = 2,
              .microbatches = 12,
              .steps = 4,
              .start_up = 0}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- what is no step

TEST(Steps, nothing_ran) {
  expect_nothing(StepDetector{}.estimate());
}

TEST(Steps, one_kernel_over_and_over) {
  std::vector<Kernel> kernels;
  for (uint64_t i = 0; i < 10'000; ++i) {
    kernels.push_back({5, kOrigin + i * 10, kOrigin + i * 10 + 9, KernelMark::kNone});
  }
  expect_nothing(feed(kernels)->estimate());
}

TEST(Steps, random_kernels) {
  std::mt19937_64 random(3);
  for (const uint64_t names : {2, 5, 20, 300, 5000}) {
    std::vector<Kernel> kernels;
    for (uint64_t i = 0; i < 50'000; ++i) {
      const uint64_t name = random() % names;
      kernels.push_back({step_token(name * 77, {1, 1, 1}), kOrigin + i * 10, kOrigin + i * 10 + 9,
                         name == 0 ? KernelMark::kOptimizer : KernelMark::kNone});
    }
    expect_nothing(feed(kernels)->estimate());
  }
}

// Prompts of any length, then as many decodings as the answer needs.
TEST(Steps, inference) {
  std::mt19937_64 random(5);
  std::vector<Kernel> kernels;
  uint64_t now_ns = kOrigin;
  auto launch = [&](uint64_t name, uint32_t grid) {
    kernels.push_back({step_token(name, {grid, 1, 1}), now_ns, now_ns + 8'000, KernelMark::kNone});
    now_ns += 10'000;
  };
  for (int request = 0; request < 300; ++request) {
    const uint32_t prompt = 1 + random() % 2000;
    launch(1, prompt);
    for (int layer = 0; layer < 24; ++layer) {
      for (uint64_t i = 0; i < 10; ++i) launch(100 + i, prompt);
    }
    const size_t tokens = 1 + random() % 40;
    for (size_t token = 0; token < tokens; ++token) {
      const uint32_t batch = 1 + random() % 16;
      for (int layer = 0; layer < 24; ++layer) {
        for (uint64_t i = 0; i < 12; ++i) launch(200 + i, batch);
      }
      launch(300, batch);
      launch(301, 1);
    }
  }
  expect_nothing(feed(kernels)->estimate());
}

// Steps that are long over, and something else runs since.
TEST(Steps, a_lesser_part_of_what_ran) {
  Stream stream = Generator(Shape{.name = "", .found = true, .start_up = 0}).run();
  const size_t in_steps = stream.kernels.size();
  const uint64_t end_ns = stream.kernels.back().end_ns;
  for (uint64_t i = 0; i < in_steps * 2; ++i) {
    stream.kernels.push_back({step_token(9'000'000 + i, {1, 1, 1}), end_ns + i * 1000,
                              end_ns + i * 1000 + 900, KernelMark::kNone});
  }
  expect_nothing(feed(stream.kernels)->estimate());
  stream.kernels.resize(in_steps + in_steps / 2);
  EXPECT_EQ(feed(stream.kernels)->estimate().source, StepSource::kPeriodicity);
}

// ---- other ways to make steps

// One graph a step: the same kernels without any jitter, and no optimizer known.
TEST(Steps, graph_replays) {
  std::vector<Kernel> kernels;
  for (uint64_t step = 0; step < 50; ++step) {
    for (uint64_t i = 0; i < 300; ++i) {
      const uint64_t start = kOrigin + step * 4'000'000 + i * 10'000;
      kernels.push_back({step_token(i * 31, {8, 1, 1}), start, start + 9'500, KernelMark::kNone});
    }
  }
  const StepEstimate estimate = feed(kernels)->estimate();
  EXPECT_EQ(estimate.source, StepSource::kPeriodicity);
  EXPECT_EQ(estimate.count, 50u);
  EXPECT_EQ(estimate.period_ns, 4'000'000u);
  EXPECT_EQ(estimate.median_ns, 4'000'000u);
  EXPECT_EQ(estimate.first_ns, kOrigin);
  EXPECT_EQ(estimate.last_ns, kOrigin + 49 * 4'000'000);
  EXPECT_EQ(estimate.productive_ns, 49u * 4'000'000);
  EXPECT_EQ(estimate.stalls, 0u);
  EXPECT_EQ(estimate.before_ns, 0u);
  EXPECT_EQ(estimate.confidence, 1000u);
}

// Forward and backward of microbatches alternate, more and more, then evenly, then fewer.
TEST(Steps, pipeline) {
  Stream stream;
  uint64_t now_ns = kOrigin;
  auto pass = [&](uint64_t name, int kernels) {
    for (int i = 0; i < kernels; ++i) {
      stream.kernels.push_back({step_token(name + static_cast<uint64_t>(i % 8), {4, 1, 1}), now_ns,
                                now_ns + 90'000, KernelMark::kNone});
      now_ns += 100'000;
    }
  };
  for (int step = 0; step < 40; ++step) {
    for (int i = 0; i < 3; ++i) pass(10, 32);
    for (int i = 0; i < 5; ++i) pass(10, 32), pass(50, 48);
    for (int i = 0; i < 3; ++i) pass(50, 48);
    stream.steps.push_back(now_ns);
    for (int i = 0; i < 6; ++i) {
      stream.kernels.push_back(
          {step_token(99, {320, 1, 1}), now_ns, now_ns + 90'000, KernelMark::kOptimizer});
      now_ns += 100'000;
    }
  }
  const StepEstimate estimate = feed(stream.kernels)->estimate();
  EXPECT_EQ(estimate.source, StepSource::kPeriodicity);
  expect_right(estimate, 40, static_cast<double>(stream.steps[1] - stream.steps[0]));
}

// Of a burst of two, every second distance is the step's.
TEST(Steps, an_optimizer_of_two_launches) {
  std::vector<Kernel> kernels;
  for (uint64_t i = 0; i < 50 * 200; ++i) {
    const bool optimizer = i % 200 == 100 || i % 200 == 101;
    kernels.push_back({optimizer ? 1 : 2 + i % 7, kOrigin + i * 1000, kOrigin + i * 1000 + 900,
                       optimizer ? KernelMark::kOptimizer : KernelMark::kNone});
  }
  // Seen from the middle of a burst on, too.
  for (const auto begin : {kernels.begin(), kernels.begin() + 101}) {
    const StepEstimate estimate = feed({begin, kernels.end()})->estimate();
    EXPECT_EQ(estimate.source, StepSource::kPeriodicity);
    EXPECT_NEAR(static_cast<double>(estimate.count), 50, 1);
  }
}

// An optimizer that runs in each layer's backward has the layer's distance, for a part of the step.
TEST(Steps, an_optimizer_in_the_backward) {
  for (const bool together : {false, true}) {
    std::vector<Kernel> kernels;
    uint64_t now_ns = kOrigin;
    auto launch = [&](uint64_t name, KernelMark mark) {
      kernels.push_back({name * 1'000'003, now_ns, now_ns + 900, mark});
      now_ns += 1000;
    };
    for (int step = 0; step < 50; ++step) {
      for (uint64_t i = 0; i < 12 * 10; ++i) launch(100 + i % 10, KernelMark::kNone);
      for (uint64_t i = 0; i < 12 * 20; ++i) {
        const bool optimizer = i % 20 == 19;
        launch(optimizer ? 7 : 200 + i % 20,
               optimizer ? KernelMark::kOptimizer : KernelMark::kNone);
      }
      if (together) launch(8, KernelMark::kOptimizer);
    }
    const StepEstimate estimate = feed(kernels)->estimate();
    if (estimate.source != StepSource::kNone) {
      EXPECT_EQ(estimate.count, 50u);
    }
  }
}

// Thousands of tokens that come once must not drive out those that come again.
TEST(Steps, a_flood_of_tokens) {
  Stream stream;
  uint64_t now_ns = kOrigin;
  uint64_t unique = 1'000'000;
  for (int step = 0; step < 400; ++step) {
    for (int i = 0; i < 3000; ++i) {
      stream.kernels.push_back(
          {step_token(++unique, {1, 1, 1}), now_ns, now_ns + 900, KernelMark::kNone});
      now_ns += 1000;
    }
    stream.kernels.push_back(
        {step_token(7, {1, 1, 1}), now_ns, now_ns + 90'000, KernelMark::kOptimizer});
    now_ns += 100'000;
  }
  const StepEstimate estimate = feed(stream.kernels)->estimate();
  EXPECT_EQ(estimate.count, 400u);
  EXPECT_EQ(estimate.period_ns, 3'100'000u);
}

TEST(Steps, declared_kernel) {
  Stream stream =
      Generator(Shape{.name = "", .found = true, .layers = 3, .variable_kernels = 0.5}).run();
  const uint64_t token = step_token(801 * 0x9e3779b97f4a7c15, {1, 1, 1});
  for (Kernel& kernel : stream.kernels) {
    if (kernel.token == token) kernel.mark = KernelMark::kDeclared;
  }
  const StepEstimate estimate = feed(stream.kernels)->estimate();
  EXPECT_EQ(estimate.source, StepSource::kKernel);
  EXPECT_EQ(estimate.count, stream.steps.size());
  EXPECT_EQ(estimate.confidence, 1000u);
  EXPECT_EQ(estimate.before_ns, estimate.first_ns - stream.kernels.front().start_ns);
}

// Ten launches a step are one step.
TEST(Steps, declared_kernel_in_bursts) {
  Stream stream =
      Generator(Shape{.name = "", .found = true, .layers = 3, .variable_kernels = 0.5}).run();
  const uint64_t token = step_token(802 * 0x9e3779b97f4a7c15, {320, 1, 1});
  for (Kernel& kernel : stream.kernels) {
    if (kernel.token == token) kernel.mark = KernelMark::kDeclared;
  }
  const StepEstimate estimate = feed(stream.kernels)->estimate();
  EXPECT_EQ(estimate.source, StepSource::kKernel);
  EXPECT_EQ(estimate.count, stream.steps.size());
}

TEST(Steps, one_declared_kernel_is_one_step) {
  StepDetector detector{};
  detector.add(1, kOrigin, kOrigin + 5, KernelMark::kDeclared);
  const StepEstimate estimate = detector.estimate();
  EXPECT_EQ(estimate.source, StepSource::kKernel);
  EXPECT_EQ(estimate.count, 1u);
  EXPECT_EQ(estimate.first_ns, kOrigin);
  EXPECT_EQ(estimate.period_ns, 0u);
}

TEST(Steps, the_better_source_wins) {
  const StepEstimate none{};
  const StepEstimate periodic{.source = StepSource::kPeriodicity, .count = 1};
  const StepEstimate kernel{.source = StepSource::kKernel, .count = 2};
  const StepEstimate nvtx{.source = StepSource::kNvtx, .count = 3};
  EXPECT_EQ(better_steps(none, periodic).count, 1u);
  EXPECT_EQ(better_steps(kernel, periodic).count, 2u);
  EXPECT_EQ(better_steps(kernel, nvtx).count, 3u);
  EXPECT_EQ(better_steps(nvtx, none).count, 3u);
  EXPECT_STREQ(step_source_name(StepSource::kNvtx), "nvtx");
  EXPECT_STREQ(step_source_name(StepSource::kNone), "none");
}

// ---- pace

StepPace pace_of(const std::vector<uint64_t>& gaps) {
  StepPace pace{};
  uint64_t now = 1000;
  pace.add(now);
  for (const uint64_t gap : gaps) pace.add(now += gap);
  return pace;
}

TEST(Pace, nothing_yet) {
  expect_nothing(StepPace{}.estimate(StepSource::kNvtx));
}

TEST(Pace, stalls_count_apart) {
  const StepPace pace = pace_of({100, 100, 100, 100, 100, 500, 100, 200, 250, 100});
  EXPECT_EQ(pace.stalls, 2u);
  EXPECT_NEAR(static_cast<double>(pace.stalled_ns), 400 + 150, 12);
  EXPECT_EQ(pace.productive_ns + pace.stalled_ns, 1650u);
  const StepEstimate estimate = pace.estimate(StepSource::kKernel);
  EXPECT_EQ(estimate.count, 11u);
  EXPECT_EQ(estimate.period_ns, 165u);
  EXPECT_NEAR(static_cast<double>(estimate.median_ns), 100, 8);
}

TEST(Pace, a_slow_first_step_is_a_stall) {
  const StepPace pace = pace_of({5000, 100, 100, 100, 100, 100});
  EXPECT_EQ(pace.stalls, 1u);
  EXPECT_EQ(pace.stalled_ns, 4900u);
  EXPECT_EQ(pace.productive_ns, 600u);
  EXPECT_EQ(pace.typical_ns, 100u);
}

TEST(Pace, the_median_follows_a_change) {
  std::vector<uint64_t> gaps(300, 10'000);
  gaps.resize(600, 17'000);
  const StepPace pace = pace_of(gaps);
  EXPECT_NEAR(static_cast<double>(pace.typical_ns), 17'000, 340);
  EXPECT_EQ(pace.stalls, 0u);
}

TEST(Pace, the_median_of_spread_steps) {
  std::mt19937_64 random(11);
  std::vector<uint64_t> gaps;
  for (int i = 0; i < 2000; ++i) gaps.push_back(90'000 + random() % 20'000);
  EXPECT_NEAR(static_cast<double>(pace_of(gaps).typical_ns), 100'000, 2'000);
}

TEST(Pace, time_that_goes_back_is_no_time) {
  StepPace pace{};
  for (const uint64_t start : {1000, 900, 1100, 1100}) pace.add(start);
  EXPECT_EQ(pace.count, 4u);
  EXPECT_EQ(pace.last_ns, 1100u);
  EXPECT_EQ(pace.productive_ns + pace.stalled_ns, 100u);
}

// ---- names

TEST(StepNames, steps) {
  for (const char* name : {"step",
                           "Step",
                           "train_step",
                           "train step",
                           "TrainStep",
                           "training_step",
                           "iteration",
                           "Iteration 12",
                           "iteration_12",
                           "iter",
                           "iter-3",
                           "global_step",
                           "global_step=100",
                           "ProfilerStep#5",
                           "ProfilerStep*",
                           "step 12",
                           "Step#5",
                           "step 12/100",
                           "[step 3]",
                           "STEP:0007",
                           "train_iter",
                           "step12",
                           "training iteration (4)"}) {
    EXPECT_TRUE(is_step_range(name)) << name;
  }
}

TEST(StepNames, others) {
  for (const char* name : {"",
                           " ",
                           "12",
                           "#5",
                           "optimizer_step",
                           "Optimizer.step#AdamW.step",
                           "optimizer.step",
                           "lr_scheduler.step",
                           "zero_grad",
                           "steps",
                           "iterations",
                           "footstep",
                           "step_fn",
                           "substep",
                           "micro_step",
                           "forward",
                           "forward_step",
                           "step forward",
                           "step 3 forward",
                           "12 steps",
                           "epoch",
                           "epoch 3",
                           "batch",
                           "iter_dataloader",
                           "timestep",
                           "time_step",
                           "12 step",
                           "step\n",
                           "sch\xc3\xa4ritt",
                           "eval_step",
                           "validation_step",
                           "stepstepstepstepstepstepstepstepstep"}) {
    EXPECT_FALSE(is_step_range(name)) << name;
  }
}

TEST(OptimizerNames, known_and_unknown) {
  for (const char* name :
       {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
        "namespace)::FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >",
        "_ZN2at6native54_GLOBAL__N__25multi_tensor_apply_kernelIE", "triton_for_fused__foreach_0",
        "void kOptimizer32bit1State<float, 1>(float*, float*)",
        "multi_tensor_apply_kernel<AdamFunctorMaster>"}) {
    EXPECT_TRUE(is_optimizer_kernel(name)) << name;
  }
  for (const char* name : {"", "fast_hadamard_transform_kernel<64>", "ampere_sgemm_128x64_nn",
                           "triton_poi_fused_add_0", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"}) {
    EXPECT_FALSE(is_optimizer_kernel(name)) << name;
  }
}

// ---- the fake training job

TEST(Steps, fake_training) {
  constexpr uint64_t kStep = 40'000'000;
  const fake::ModelShape shape{12, 1024, 16, 2048, 4, 50'000};
  for (const int ranks : {1, 8}) {
    fake::Layout layout(0, kOrigin);
    StepDetector detector{};
    for (uint64_t step = 0; step < 60; ++step) {
      fake::lay_out_step(shape, kStep, ranks, step, &layout);
      for (const fake::GpuOperation& operation : layout.take()) {
        if (operation.work != fake::GpuWork::kKernel) continue;
        const std::string name(operation.name);
        detector.add(step_token(std::hash<std::string>()(name), operation.grid), operation.start_ns,
                     operation.end_ns,
                     is_optimizer_kernel(name) ? KernelMark::kOptimizer : KernelMark::kNone);
      }
    }
    const StepEstimate estimate = detector.estimate();
    EXPECT_EQ(estimate.source, StepSource::kPeriodicity);
    expect_right(estimate, 60, static_cast<double>(layout.truth().end_ns - kOrigin) / 60);
  }
}

// ---- recorded traces, repeated

std::string shared() {
  const char* folder = std::getenv("MFU_SHARED");
  return std::string(folder == nullptr ? "../shared" : folder) + "/data/traces/";
}

struct Recorded {
  const char* file;
  uint64_t steps;  // in the file
  bool found;      // must be found
};

// Steps by the files' ProfilerStep marks; resnet-2080ti has 30 calls of its optimizer,
// gpu-user-annotation is five times the same 26 kernels, and the rest are single steps. Of torchrec
// the last step is cut off, so that repeated it is irregular. Those of inference (sglang, vllm, hf)
// repeat one pass.
class Traces : public testing::TestWithParam<Recorded> {};

TEST_P(Traces, steps_are_right_or_absent) {
  struct stat status;
  if (stat(shared().c_str(), &status) != 0) GTEST_SKIP() << "no " << shared();
  const Recorded& recorded = GetParam();
  std::vector<fake::TraceOperation> operations = fake::read_trace(shared() + recorded.file);
  std::erase_if(operations, [](const fake::TraceOperation& operation) {
    return operation.operation.work != fake::GpuWork::kKernel;
  });
  uint64_t span_ns = 0;
  for (const auto& [operation, name] : operations) span_ns = std::max(span_ns, operation.end_ns);
  span_ns += span_ns / 50;
  struct Way {
    bool grids;  // trace files may lack them
    bool marked;
    bool by_end;
  };
  for (const Way& way : {Way{true, true, false}, Way{true, false, false}, Way{false, true, false},
                         Way{false, false, false}, Way{true, true, true}}) {
    SCOPED_TRACE(testing::Message() << "grids " << way.grids << ", marked " << way.marked
                                    << ", by end " << way.by_end);
    std::vector<Kernel> kernels;
    for (const auto& [operation, name] : operations) {
      const uint64_t hash = std::hash<std::string>()(name);
      const bool optimizer = way.marked && is_optimizer_kernel(name);
      kernels.push_back({way.grids ? step_token(hash, operation.grid) : hash,
                         kOrigin + operation.start_ns, kOrigin + operation.end_ns,
                         optimizer ? KernelMark::kOptimizer : KernelMark::kNone});
    }
    if (way.by_end) {
      std::stable_sort(kernels.begin(), kernels.end(),
                       [](const Kernel& a, const Kernel& b) { return a.end_ns < b.end_ns; });
    }
    constexpr uint64_t kTimes = 20;
    StepDetector detector{};
    for (uint64_t time = 0; time < kTimes; ++time) {
      for (Kernel& kernel : kernels) {
        detector.add(kernel.token, kernel.start_ns, kernel.end_ns, kernel.mark);
        kernel.start_ns += span_ns;
        kernel.end_ns += span_ns;
      }
    }
    const StepEstimate estimate = detector.estimate();
    if (recorded.found && way.grids && way.marked) {
      EXPECT_EQ(estimate.source, StepSource::kPeriodicity);
    }
    if (estimate.source == StepSource::kNone) {
      expect_nothing(estimate);
    } else {
      const double period = static_cast<double>(span_ns) / static_cast<double>(recorded.steps);
      expect_right(estimate, kTimes * recorded.steps, period);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recorded, Traces,
    testing::Values(Recorded{"dlrm-8rank-v100/rank0.json.gz", 1, true},
                    Recorded{"dlrm-8rank-v100/rank3.json.gz", 1, true},
                    Recorded{"gpu-user-annotation-gp100/rank0.json.gz", 5, true},
                    Recorded{"hf-bertsmall-h100/rank0.json.gz", 1, false},
                    Recorded{"hf-qwen15-h100/rank0.json.gz", 1, false},
                    Recorded{"hf-timesformer-h100/rank0.json.gz", 1, false},
                    Recorded{"kineto-resnet50-v100-2021/rank0.json.gz", 6, false},
                    Recorded{"megatron-tp2-v100-meta/rank0.json.gz", 1, true},
                    Recorded{"megatron-tp8-a100/rank0.json.gz", 1, false},
                    Recorded{"megatron-tp8-a100/rank7.json.gz", 1, false},
                    Recorded{"ns-resolution-v100/rank0.json.gz", 5, true},
                    Recorded{"resnet-2080ti/rank0.json.gz", 30, false},
                    Recorded{"resnet-ddp2-a100-meta/rank0.json.gz", 3, true},
                    Recorded{"sglang-qwen3-30b-b300-cudagraph/rank0.json.gz", 1, false},
                    Recorded{"torchrec-4rank-v100-qcomm/rank0.json.gz", 3, false},
                    Recorded{"torchrec-4rank-v100-qcomm/rank2.json.gz", 3, false},
                    Recorded{"tracediff-control-a100/rank3.json.gz", 6, true},
                    Recorded{"vllm-b200-tp8-eager/rank0.json.gz", 1, false}),
    [](const auto& info) {
      std::string name = info.param.file;
      name.resize(name.find('.'));
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

}  // namespace
}  // namespace mfu
