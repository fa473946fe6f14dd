// Inferred model FLOPs against those of the formula (model_flops.hh), over generated training
// steps. At 50% MFU a point of MFU is 2% of the FLOPs: what is said may be wrong by that much.
#include "profiler/model_inference.hh"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/training_gemms.hh"

namespace mfu {
namespace {

constexpr double kPoint = 0.02;

const ModelShape kDense = {.layers = 12, .hidden = 2048, .heads = 16, .ffn = 8192, .vocab = 50304};
const ModelShape kGqa = {.layers = 16,
                         .hidden = 4096,
                         .heads = 32,
                         .kv_heads = 8,
                         .ffn = 14336,
                         .vocab = 128256,
                         .gated = true};
const ModelShape kMoe = {.layers = 8,
                         .hidden = 4096,
                         .heads = 32,
                         .kv_heads = 8,
                         .ffn = 14336,
                         .vocab = 32000,
                         .gated = true,
                         .experts = 8,
                         .active_experts = 2};
const ModelShape kMla = {.layers = 12,
                         .hidden = 2048,
                         .heads = 16,
                         .head_dim = 192,
                         .value_head_dim = 128,
                         .ffn = 10944,
                         .vocab = 102400,
                         .gated = true,
                         .kv_rank = 512,
                         .rope_dim = 64};

struct Outcome {
  Inference verdict;
  double ratio;  // inferred to expected FLOPs of whole steps, where known
  uint32_t recomputed_permille;
  double most;  // expected FLOPs with the step that is under way to those without
};

Outcome outcome_of(const Training& training) {
  const TrainingGemms gemms(training);
  const InferredFlops inferred = gemms.infer();
  EXPECT_EQ(inferred_flops_fault(inferred), nullptr);
  const double ratio = inferred.flops.approximate() *
                       static_cast<double>(training.tensor_parallel) /
                       static_cast<double>(gemms.expected());
  return {inferred.verdict, ratio, inferred.recomputed_permille,
          static_cast<double>(gemms.expected(true)) / static_cast<double>(gemms.expected())};
}

void expect_known(const Training& training, uint32_t recomputed = 0, double within = 0.001) {
  const Outcome outcome = outcome_of(training);
  ASSERT_EQ(outcome.verdict, Inference::kKnown);
  EXPECT_NEAR(outcome.ratio, 1, within);
  EXPECT_NEAR(outcome.recomputed_permille, recomputed, 12);
}

void expect_unknown(const Training& training, Inference verdict = Inference::kAmbiguous) {
  const Outcome outcome = outcome_of(training);
  EXPECT_EQ(inference_reason(outcome.verdict), std::string(inference_reason(verdict)))
      << outcome.ratio;
}

// ---- plain training

TEST(ModelInference, DenseModels) {
  for (const ModelShape& shape : {kDense, kGqa, kMla}) {
    for (const bool one_thread : {false, true}) {
      for (const bool batched : {false, true}) {
        SCOPED_TRACE(testing::Message() << shape.hidden << one_thread << batched);
        Training training{.shape = shape, .length = 1024, .batched_attention = batched};
        training.one_thread = one_thread;
        expect_known(training);
        training.fused = false;
        expect_known(training);
        training.weights = Weights::kConv1D;
        expect_known(training);
      }
    }
  }
}

TEST(ModelInference, ForwardPassesExecutedOnceMore) {
  for (const ModelShape& shape : {kDense, kGqa}) {
    for (const Weights weights : {Weights::kLinear, Weights::kConv1D}) {
      Training training{.shape = shape, .length = 2048, .batched_attention = true};
      training.weights = weights;
      training.again = Again::kFull;
      Outcome outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
      EXPECT_GT(outcome.recomputed_permille, 850u);  // all but the LM head
      training.again_layers = 5;
      outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
      for (const Again again : {Again::kAttention, Again::kMlp}) {
        training.again = again;
        outcome = outcome_of(training);
        EXPECT_EQ(outcome.verdict, Inference::kKnown);
        EXPECT_NEAR(outcome.ratio, 1, 0.001);
        EXPECT_GT(outcome.recomputed_permille, 10u);
      }
    }
  }
}

// In one thread a forward pass that runs twice may be two.
TEST(ModelInference, RecomputationInOneThreadIsAmbiguous) {
  Training training{.shape = kGqa, .length = 2048, .one_thread = true};
  training.again = Again::kFull;
  expect_unknown(training);
  training.again = Again::kMlp;
  expect_unknown(training);
  training.again = Again::kNone;
  training.frozen_layers = 8;  // the same calls as half of the layers recomputed
  expect_unknown(training);
  training.frozen_layers = 0;
  training.reference_forwards = 1;
  expect_unknown(training);
}

TEST(ModelInference, ThreadsOfTheBackwardPass) {
  for (const Again again : {Again::kNone, Again::kMlp, Again::kFull}) {
    Training training{.shape = kGqa, .length = 2048, .again = again, .two_devices = true};
    Outcome outcome = outcome_of(training);
    EXPECT_EQ(outcome.verdict, Inference::kKnown);
    EXPECT_NEAR(outcome.ratio, 1, 0.001);
    training.two_devices = false;
    training.late_wgrad = true;
    outcome = outcome_of(training);
    EXPECT_EQ(outcome.verdict, again == Again::kNone ? Inference::kKnown : Inference::kAmbiguous);
    if (outcome.verdict == Inference::kKnown) {
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
    }
  }
}

// In 8 bits nothing else tells that the thread which computes gradients of weights is the main one.
TEST(ModelInference, GradientsComeAfterForwardPasses) {
  Training training{.length = 1536, .weights = Weights::kCopied, .late_wgrad = true};
  training.shape = {.layers = 2, .hidden = 512, .heads = 8, .ffn = 2048, .vocab = 4096};
  for (const Again again : {Again::kNone, Again::kFull}) {
    training.again = again;
    expect_unknown(training);
  }
}

TEST(ModelInference, ParallelModels) {
  for (const uint64_t tp : {2, 4, 8}) {
    for (const Again again : {Again::kNone, Again::kFull}) {
      Training training{.shape = kGqa, .length = 8192, .again = again};
      training.batched_attention = true;
      training.tensor_parallel = tp;
      const Outcome outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
    }
  }
  // Stages of a pipeline, each with what it executes.
  for (const bool forward_first : {false, true}) {
    double sum = 0;
    double expected = 0;
    for (const uint64_t first : {0, 8}) {
      Training training{.shape = kGqa, .length = 2048, .forward_first = forward_first};
      training.again = Again::kFull;
      training.first_layer = first;
      training.end_layer = first + 8;
      const TrainingGemms stage(training);
      const InferredFlops inferred = stage.infer();
      EXPECT_EQ(inferred.verdict, Inference::kKnown);
      sum += inferred.flops.approximate();
      expected = static_cast<double>(stage.expected());
    }
    EXPECT_NEAR(sum / expected, 1, 0.001);
  }
}

TEST(ModelInference, Adapters) {
  for (const ModelShape& shape : {kDense, kGqa}) {
    for (const Again again : {Again::kNone, Again::kFull}) {
      for (const uint64_t rank : {0, 16}) {
        Training training{.shape = shape, .length = 2048, .again = again, .fused = false};
        training.batched_attention = true;
        training.lora = {true, 16, rank};
        training.lowest_dgrad = again == Again::kFull;
        const Outcome outcome = outcome_of(training);
        EXPECT_EQ(outcome.verdict, Inference::kKnown);
        EXPECT_NEAR(outcome.ratio, 1, 0.012);
      }
    }
  }
}

TEST(ModelInference, Experts) {
  for (const Again again : {Again::kNone, Again::kFull, Again::kMlp}) {
    for (const Weights weights : {Weights::kLinear, Weights::kConv1D}) {
      Training training{.shape = kMoe, .length = 2048, .again = again};
      training.weights = weights;
      Outcome outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
      training.routed = true;
      training.unbalanced = true;  // more shapes than are listed
      outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.005);
      training.unbalanced = false;
      training.steps = 10;
      outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
    }
  }
}

TEST(ModelInference, GradientsOfTheLossInTheForwardPass) {
  Training training{.shape = kGqa, .length = 2048, .fused_loss = true};
  expect_known(training);
  training.again = Again::kFull;
  const Outcome outcome = outcome_of(training);
  EXPECT_EQ(outcome.verdict, Inference::kKnown);
  EXPECT_NEAR(outcome.ratio, 1, 0.001);
}

TEST(ModelInference, ChunksOfForwardPasses) {
  Training training{.shape = kGqa, .length = 5120, .chunks = 4};
  expect_known(training);
  training.one_thread = true;
  expect_unknown(training);
}

TEST(ModelInference, LengthsThatVary) {
  Training training{.shape = kDense, .batch = 8};
  for (uint64_t length = 128; length < 1024; length += 16) training.lengths.push_back(length);
  for (const Again again : {Again::kNone, Again::kFull}) {
    training.again = again;
    training.steps = 60;
    const Outcome outcome = outcome_of(training);
    EXPECT_EQ(outcome.verdict, Inference::kKnown);
    EXPECT_NEAR(outcome.ratio, 1, 0.001);
  }
  training.lengths.clear();
  for (uint64_t length = 128; length < 1024; ++length) training.lengths.push_back(length);
  training.steps = 400;
  for (const Again again : {Again::kNone, Again::kMlp, Again::kFull}) {
    training.again = again;
    const TrainingGemms gemms(training);
    EXPECT_GT(gemms.sums().unlisted, 1000u);
    const InferredFlops inferred = gemms.infer();
    EXPECT_EQ(inferred.verdict, Inference::kKnown);
    EXPECT_NEAR(inferred.flops.approximate() / static_cast<double>(gemms.expected()), 1, 0.001);
    EXPECT_EQ(infer_model_flops(gemms.counts(), gemms.sums()).verdict, Inference::kShapes);
  }
  training.muon = true;  // whose shapes come too late for the table
  training.microbatches = 100;
  training.steps = 10;
  expect_unknown(training, Inference::kShapes);
  training.muon = false;
  training.again = Again::kNone;
  training.one_thread = true;
  expect_unknown(training, Inference::kShapes);
  training.one_thread = false;
  training.weights = Weights::kCopied;
  expect_unknown(training, Inference::kShapes);
}

// ---- dimensions that coincide

TEST(ModelInference, AsManyTokensAsFeatures) {
  for (const ModelShape& shape : {kDense, kGqa}) {
    for (const uint64_t length : {shape.hidden, shape.ffn, shape.hidden * 3, shape.ffn * 2}) {
      for (const Again again : {Again::kNone, Again::kFull, Again::kMlp}) {
        Training training{.shape = shape, .length = length, .again = again};
        for (const bool fused : {false, true}) {
          training.fused = fused;
          const Outcome outcome = outcome_of(training);
          EXPECT_EQ(outcome.verdict, Inference::kKnown);
          EXPECT_NEAR(outcome.ratio, 1, 0.001);
        }
      }
    }
  }
}

TEST(ModelInference, EightBitsWithoutTranspositions) {
  for (const ModelShape& shape : {kDense, kGqa}) {
    for (const Again again : {Again::kNone, Again::kMlp, Again::kFull}) {
      Training training{.shape = shape, .length = 1536, .weights = Weights::kCopied};
      training.again = again;
      Outcome outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_NEAR(outcome.ratio, 1, 0.001);
      // A stage without the LM head, which has 16 bits.
      training.end_layer = shape.layers / 2;
      const TrainingGemms stage(training);
      EXPECT_EQ(stage.infer().verdict, Inference::kKnown);
      training.end_layer = UINT64_MAX;
      for (const uint64_t length : {shape.hidden, shape.ffn}) {
        training.length = length;
        outcome = outcome_of(training);
        if (outcome.verdict == Inference::kKnown) {
          EXPECT_NEAR(outcome.ratio, 1, 0.01) << shape.hidden << " " << length;
        }
      }
    }
    Training training{.shape = shape, .length = 1536, .weights = Weights::kCopied};
    training.one_thread = true;
    training.again = Again::kFull;
    expect_unknown(training);
  }
}

// Forward pass and dgrad of a square matrix are one shape.
TEST(ModelInference, EightBitsAndSquareMatrices) {
  ModelShape shape = kDense;
  shape.ffn = shape.hidden;
  for (const Again again : {Again::kNone, Again::kFull}) {
    Training training{.shape = shape, .length = 3072, .weights = Weights::kCopied, .fused = false};
    training.again = again;
    expect_known(training, again == Again::kFull ? 744 : 0);
    training.lora = {true, 16, 16};
    const Outcome outcome = outcome_of(training);
    EXPECT_NE(outcome.verdict, Inference::kKnown);
  }
}

// ---- work that is not the model's, or not for sure

TEST(ModelInference, Evaluation) {
  // A little does not matter, with the same shapes or with others.
  for (const uint64_t length : {0, 1024}) {
    Training training{.shape = kGqa, .length = 2048, .steps = 100};
    training.evaluate_every = 50;
    training.evaluate_length = length;
    training.again = Again::kFull;
    const Outcome outcome = outcome_of(training);
    EXPECT_EQ(outcome.verdict, Inference::kKnown);
    EXPECT_NEAR(outcome.ratio, 1, 0.011);
    training.evaluate_every = 4;
    expect_unknown(training);
  }
}

TEST(ModelInference, FrozenLayersAndReferences) {
  Training training{.shape = kGqa, .length = 2048};
  training.frozen_layers = 8;
  expect_unknown(training);
  training.frozen_layers = 0;
  training.reference_forwards = 1;
  expect_unknown(training);
}

TEST(ModelInference, OptimizersThatMultiplyMatrices) {
  for (const ModelShape& shape : {kDense, kGqa, kMla}) {
    for (const bool one_thread : {false, true}) {
      Training training{.shape = shape, .length = 1536, .muon = true};
      training.one_thread = one_thread;
      expect_known(training);
      // As many tokens as the matrices are wide.
      training.length = shape.hidden;
      for (const uint64_t microbatches : {4, 64, 1024}) {
        training.microbatches = microbatches;
        training.steps = 5;
        const Outcome outcome = outcome_of(training);
        if (outcome.verdict == Inference::kKnown) {
          EXPECT_NEAR(outcome.ratio, 1, kPoint);
        }
      }
    }
  }
}

// Gradients of which some shapes are not listed look like an optimizer's products.
TEST(ModelInference, OptimizersAmongLengthsThatVary) {
  Training training{.batch = 4, .steps = 30, .weights = Weights::kConv1D, .fused = false};
  training.shape = {.layers = 4, .hidden = 1024, .heads = 8, .head_dim = 64, .ffn = 4096};
  training.shape.vocab = 4096;
  training.shape.gated = true;
  for (uint64_t length = 128; length < 2048; length += 8) training.lengths.push_back(length);
  training.tensor_parallel = 4;
  training.muon = true;
  for (const bool one_thread : {false, true}) {
    training.one_thread = one_thread;
    for (training.seed = 0; training.seed < 10; ++training.seed) {
      const Outcome outcome = outcome_of(training);
      if (outcome.verdict != Inference::kKnown) continue;
      EXPECT_NEAR(outcome.ratio, 1, kPoint / 2);
    }
  }
}

// Half of such an optimizer: the square products are another library's.
TEST(ModelInference, ProductsThatLookTrained) {
  Training training{.shape = kDense, .length = 1536, .one_thread = true};
  const uint64_t h = kDense.hidden, f = kDense.ffn;
  auto call = [](uint64_t m, uint64_t n, uint64_t k, bool a, bool b) {
    GemmShape shape{.m = m, .n = n, .k = k, .precision = Precision::kBf16};
    shape.transposed_a = a;
    shape.transposed_b = b;
    return std::pair(shape, 6);
  };
  training.others = {call(h, h, f, false, true), call(f, h, h, true, false),    // high matrices
                     call(h, h, f, true, false), call(f, h, h, false, false)};  // wide ones
  expect_unknown(training);
}

// The calls of the backward pass that the others do not explain.
TEST(ModelInference, ForwardPassesThatAreNotCounted) {
  for (const Weights weights : {Weights::kLinear, Weights::kCopied}) {
    const TrainingGemms gemms({.shape = kGqa, .length = 1536, .weights = weights});
    std::vector<GemmCount> counts(std::begin(gemms.counts()), std::end(gemms.counts()));
    GemmSums sums;
    for (GemmCount& count : counts) {
      count.calls[0] /= 2;
      if (count.shape.empty()) continue;
      const auto precision = static_cast<size_t>(count.shape.precision);
      sums.calls[precision] += count.total();
      sums.flops[precision].add(count.shape.flops() * count.total());
    }
    const auto& table = *reinterpret_cast<const GemmCount(*)[GemmTable::kShapes]>(counts.data());
    EXPECT_EQ(infer_model_flops(table, sums).verdict, Inference::kAmbiguous);
  }
}

TEST(ModelInference, ForwardPassesOnly) {
  Training training{.shape = kGqa, .length = 1536, .steps = 1};
  training.microbatches = 0;
  training.evaluate_every = 1;
  training.evaluate_passes = 20;
  expect_unknown(training, Inference::kFewSteps);  // training may be about to begin
  training.evaluate_passes = 100;
  for (const ModelShape& shape : {kDense, kGqa, kMoe, kMla}) {
    for (const bool batched : {false, true}) {
      for (const Weights weights : {Weights::kLinear, Weights::kConv1D, Weights::kCopied}) {
        SCOPED_TRACE(testing::Message() << shape.hidden << batched << static_cast<int>(weights));
        training.shape = shape;
        training.batched_attention = batched;
        training.weights = weights;
        const TrainingGemms gemms(training);
        const InferredFlops inferred = gemms.infer();
        const bool up_and_down = !shape.gated && weights == Weights::kCopied;
        EXPECT_EQ(inferred.verdict, up_and_down ? Inference::kAmbiguous : Inference::kKnown);
        if (inferred.verdict != Inference::kKnown) continue;
        FlopSum all;
        for (const FlopSum& each : gemms.sums().flops) all.add(each.value());
        EXPECT_NEAR(inferred.flops.approximate() / all.approximate(), 1, 1e-9);
      }
    }
  }
}

// ---- how much has been seen

TEST(ModelInference, NothingCounted) {
  static const GemmCount counts[GemmTable::kShapes] = {};
  GemmSums sums;
  EXPECT_EQ(infer_model_flops(counts, sums).verdict, Inference::kNothing);
  sums.uncovered = 1;
  EXPECT_EQ(infer_model_flops(counts, sums).verdict, Inference::kUncovered);
}

TEST(ModelInference, UncoveredCalls) {
  const TrainingGemms gemms({.shape = kGqa});
  GemmSums sums = gemms.sums();
  sums.uncovered = 1;
  EXPECT_EQ(infer_model_flops(gemms.counts(), sums).verdict, Inference::kKnown);
  sums.uncovered = sums.calls[static_cast<size_t>(Precision::kBf16)] / 100;
  EXPECT_EQ(infer_model_flops(gemms.counts(), sums).verdict, Inference::kUncovered);
}

TEST(ModelInference, TheMiddleOfAStep) {
  for (const bool forward_first : {false, true}) {
    for (double cut = 0.05; cut < 1; cut += 0.1) {
      SCOPED_TRACE(cut);
      Training training{.shape = kGqa, .length = 2048, .forward_first = forward_first};
      training.again = Again::kFull;
      training.cut = cut;
      training.steps = 1;
      EXPECT_NE(outcome_of(training).verdict, Inference::kAmbiguous);
      training.steps = 100;
      const Outcome outcome = outcome_of(training);
      EXPECT_EQ(outcome.verdict, Inference::kKnown);
      EXPECT_GT(outcome.ratio, 1 - 0.005);
      EXPECT_LT(outcome.ratio, 1.01 + 0.005);
    }
  }
  Training training{.shape = kGqa, .microbatches = 1, .steps = 1};
  expect_unknown(training, Inference::kFewSteps);
  training.cut = 0.3;
  expect_unknown(training, Inference::kFewSteps);
}

// ---- what comes from files

TEST(ModelInference, HostileBytes) {
  InferredFlops inferred{.verdict = Inference::kKnown};
  inferred.flops = {.mega = 5, .rest = 7};
  EXPECT_EQ(inferred_flops_fault(inferred), nullptr);
  InferredFlops wrong = inferred;
  wrong.verdict = static_cast<Inference>(kInferences);
  EXPECT_NE(inferred_flops_fault(wrong), nullptr);
  wrong = inferred;
  wrong.verdict = Inference::kAmbiguous;
  EXPECT_NE(inferred_flops_fault(wrong), nullptr);
  wrong = inferred;
  wrong.recomputed_permille = 1001;
  EXPECT_NE(inferred_flops_fault(wrong), nullptr);
  wrong = inferred;
  wrong.flops.rest = uint64_t{1} << FlopSum::kRestBits;
  EXPECT_NE(inferred_flops_fault(wrong), nullptr);
}

// ---- anything at all

// Random models and circumstances: whatever is known is right.
class Anything {
 public:
  explicit Anything(uint64_t seed) : random_(seed) {}

  Training training() {
    Training t;
    ModelShape& s = t.shape;
    bool parallel = true;
    const uint64_t head_dim = one_of({64, 128});
    s.heads = one_of({8, 16, 32});
    s.hidden = s.heads * head_dim * (chance(8) ? 2 : 1);
    s.head_dim = head_dim;
    s.kv_heads = chance(2) ? s.heads : s.heads / one_of({2, 4, 8});
    s.gated = chance(2);
    s.ffn = s.hidden * one_of({1, 2, 3, 4, 4, 4}) + (chance(3) ? 256 * one_of({1, 3, 5}) : 0);
    s.vocab = one_of({4096, 32000, 50304, 128256});
    s.layers = one_of({2, 4, 8, 24});
    if (chance(5)) {
      s.experts = one_of({4, 8});
      s.active_experts = one_of({1, 2});
      s.expert_ffn = one_of({512, 1024, 4096});
      parallel = false;  // routers and latent projections are on all ranks
      s.moe_layers = s.layers - random_() % 2;
      t.routed = chance(3);
      t.unbalanced = chance(2);
    }
    if (s.experts == 0 && chance(10)) {
      s.kv_heads = s.heads;
      s.rope_dim = head_dim / 2;
      s.kv_rank = 512;
      s.q_rank = chance(2) ? 768 : 0;
      parallel = false;
    }
    t.batch = one_of({1, 1, 2, 4});
    const uint64_t lengths[] = {
        512, 1024, 1536, 2048, s.hidden, s.ffn, head_dim, s.hidden / t.batch, s.hidden * 3};
    t.length = lengths[random_() % std::size(lengths)];
    t.microbatches = one_of({1, 2, 4, 8});
    t.steps = one_of({2, 8, 17, 30});
    t.weights = static_cast<Weights>(random_() % 3);
    t.again = static_cast<Again>(random_() % 4);
    if (chance(3)) t.again_layers = s.layers / 2;
    t.batched_attention = chance(2);
    t.fused = chance(2);
    t.one_thread = chance(3);
    t.two_devices = chance(8);
    t.late_wgrad = chance(10);
    t.forward_first = chance(3);
    t.fused_loss = chance(6);
    if (chance(4) && parallel) t.tensor_parallel = std::min<uint64_t>(s.kv_heads, one_of({2, 4}));
    if (chance(5) && s.experts == 0 && s.kv_rank == 0) {
      t.tensor_parallel = 1;
      t.fused = false;
      t.lora = {true, one_of({4, 64}), one_of({0, 4, 64})};
    }
    t.lowest_dgrad = !chance(4);
    if (chance(6)) {
      t.evaluate_every = one_of({1, 5, 20, 50});
      t.evaluate_length = chance(2) ? 0 : 768;
    }
    if (chance(12)) t.reference_forwards = 1;
    if (chance(8)) t.chunks = 4;
    if (chance(8)) t.lengths = {512, 640, t.length};
    if (chance(12)) {
      t.lengths.clear();
      for (uint64_t length = 128; length < 2048; length += 8) t.lengths.push_back(length);
    }
    if (chance(8)) t.muon = true;
    if (chance(3)) t.cut = 0.01 * static_cast<double>(random_() % 100);
    t.seed = random_();
    return t;
  }

 private:
  bool chance(uint64_t of) { return random_() % of == 0; }
  uint64_t one_of(std::initializer_list<uint64_t> values) {
    return values.begin()[random_() % values.size()];
  }
  std::mt19937_64 random_;
};

std::string described(const Training& t) {
  const ModelShape& s = t.shape;
  testing::Message m;
  m << "layers " << s.layers << " hidden " << s.hidden << " heads " << s.heads << "/" << s.kv_heads
    << "x" << s.head_dim << " ffn " << s.ffn << " gated " << s.gated << " vocab " << s.vocab
    << " experts " << s.experts << "/" << s.active_experts << "x" << s.expert_ffn << " ranks "
    << s.q_rank << " " << s.kv_rank << " batch " << t.batch << " length " << t.length << " micro "
    << t.microbatches << " steps " << t.steps << " weights " << static_cast<int>(t.weights)
    << " again " << static_cast<int>(t.again) << " of " << t.again_layers << " bmm "
    << t.batched_attention << " fused " << t.fused << " one thread " << t.one_thread
    << " two devices " << t.two_devices << " late " << t.late_wgrad << " forward first "
    << t.forward_first << " fused loss " << t.fused_loss << " tp " << t.tensor_parallel << " lora "
    << t.lora.frozen << " " << t.lora.attention_rank << " " << t.lora.mlp_rank << " lowest "
    << t.lowest_dgrad << " evaluate " << t.evaluate_every << " x " << t.evaluate_length
    << " references " << t.reference_forwards << " chunks " << t.chunks << " lengths "
    << t.lengths.size() << " routed " << t.routed << t.unbalanced << " muon " << t.muon << " cut "
    << t.cut;
  return m.GetString();
}

TEST(ModelInference, WhateverIsKnownIsRight) {
  Anything anything(20260101);
  constexpr int kTrainings = 1500;
  std::array<int, kInferences> verdicts{};
  for (int i = 0; i < kTrainings; ++i) {
    const Training training = anything.training();
    const Outcome outcome = outcome_of(training);
    ++verdicts[static_cast<size_t>(outcome.verdict)];
    if (outcome.verdict != Inference::kKnown) continue;
    // What is left out at the lowest layer is not executed, though the formula counts it.
    const double lowest =
        training.lowest_dgrad ? 0 : 0.3 / static_cast<double>(training.shape.layers);
    EXPECT_GT(outcome.ratio, 1 - kPoint - lowest) << described(training);
    EXPECT_LT(outcome.ratio, outcome.most * (1 + kPoint)) << described(training);
  }
  for (uint32_t i = 0; i < kInferences; ++i) {
    RecordProperty("verdict-" + std::to_string(i), verdicts[i]);
  }
  EXPECT_GT(verdicts[static_cast<size_t>(Inference::kKnown)], kTrainings / 4);
  EXPECT_GT(verdicts[static_cast<size_t>(Inference::kAmbiguous)], kTrainings / 10);
}

}  // namespace
}  // namespace mfu
