#include "profiler/model_inference.hh"

#include <algorithm>

#include "profiler/gemm_groups.hh"
#include "profiler/gemm_reading.hh"

namespace mfu {
namespace {

constexpr double kWidest = 0.02;          // most - least of most: the mean is wrong by 1% at most
constexpr double kUncoveredMost = 0.001;  // of the calls
constexpr double kSignificant = 0.01;     // share of FLOPs from which on a group's calls must recur
constexpr double kPasses = 4;             // of the model, before anything is said
constexpr double kManyPasses = 64;        // in which a step that is under way matters no more
constexpr double kForwardPasses = 32;     // before there is no backward pass to come
constexpr double kForwardCalls = 1000;
constexpr uint64_t kMostMega = uint64_t{1} << 60;

// Scratch: one call at a time.
constinit GemmGroups groups;

// ---- optimizers: Newton-Schulz iterations X <- a X + (b A + c A A) X with A = X X'

// Products of square matrices, none of them in the backward thread: A A for every X, and A and A X
// of square X.
struct Squares {
  uint64_t width;
  uint64_t batch;
  double calls;
  double square;       // X X' among them: the only ones that are transposed
  double rectangular;  // iterations of X that are not square
};
constexpr size_t kMostSquares = 16;
constinit Squares squares[kMostSquares] = {};

bool nearly(double a, double b) {
  return a <= b * (1 + kGroupNoise) && b <= a * (1 + kGroupNoise);
}

bool may_be_square(const GemmGroup& group) {
  return group.different == 1 && !group.copied && group.total(kBackward) == 0;
}

// As often X X' as A X.
bool may_orthogonalize(const GemmGroup& group) {
  if (group.total(kBackward) > 0 || group.twin < 0 || group.copied) return false;
  const int other = group.twin == 0 ? 2 : 0;
  return nearly(group.contracting(group.twin), group.contracting(other));
}

Squares* squares_of(const GemmGroup& group, size_t count) {
  const uint64_t width = group.dimensions[std::max(group.twin, 0)];
  for (size_t i = 0; i < count; ++i) {
    if (squares[i].width == width && squares[i].batch == group.batch) return &squares[i];
  }
  return nullptr;
}

size_t find_squares() {
  size_t count = 0;
  GemmGroup group;
  for (const bool rectangular : {false, true}) {
    if (rectangular && count == 0) break;
    for (size_t position = 0; groups.next(&position, &group);) {
      if (rectangular && may_orthogonalize(group)) {
        Squares* const found = squares_of(group, count);
        if (found != nullptr) found->rectangular += group.contracting(group.twin);
      } else if (!rectangular && may_be_square(group) && count < kMostSquares) {
        squares[count++] = {group.dimensions[0], group.batch, group.total(),
                            group.total() - group.by(kNN), 0};
      }
    }
  }
  return count;
}

bool is_optimizer(const GemmGroup& group, size_t count) {
  if (!may_be_square(group) && !may_orthogonalize(group)) return false;
  const Squares* const found = squares_of(group, count);
  return found != nullptr && nearly(found->calls, found->rectangular + 3 * found->square);
}

// FLOPs of all groups.
struct Sum {
  double least = 0, most = 0, forward = 0, recomputed = 0, trained = 0, frozen = 0;
  double unlisted = 0;  // most - least of what is not listed
  bool without_gradients = true;
  double calls = 0;
  double passes = 1e300;  // of the significant group with the fewest calls of a kind
};

// Without a backward thread an optimizer's calls may pass for gradients among `unlisted`.
Sum read_all(bool trained, double all, GemmGroup unlisted) {
  Sum sum;
  const bool completes = unlisted.total() > 0 && groups.threads_tell();
  GemmGroup group;
  const size_t count = find_squares();
  for (size_t position = 0; groups.next(&position, &group);) {
    // Without its unlisted calls a gradient may look like one.
    if (unlisted.total() == 0 && is_optimizer(group, count)) continue;
    const GemmReading reading =
        groups.threads_tell() ? read_by_threads(group, trained) : read_at_large(group);
    const double flops = group.call_flops;
    // Some of its calls may be unlisted.
    const bool complete = reading.trained && reading.most - reading.least <= kWidest * reading.most;
    if (completes && !complete && !group.copied && !group.batched()) {
      unlisted.add_flops(group);
      continue;
    }
    sum.least += flops * reading.least;
    sum.most += flops * reading.most;
    sum.forward += flops * reading.forward;
    sum.recomputed += flops * reading.recomputed;
    if (reading.trained && !group.batched()) sum.trained += flops * reading.most;
    if (reading.frozen) sum.frozen += flops * reading.most;
    sum.calls += group.total();
    sum.without_gradients &= without_gradients(group);
    if (flops * group.total() < kSignificant * all) continue;
    double widest = 0;
    for (int kind = 0; kind < kOperations; ++kind) {
      widest = std::max(widest, group.by(static_cast<GemmOperation>(kind)));
    }
    sum.passes = std::min(sum.passes, widest);
  }
  if (unlisted.total() == 0) return sum;
  GemmReading reading{.most = unlisted.total()};
  if (completes && unlisted.by(kForward, kNT) == 0) reading = read_by_threads(unlisted, false);
  sum.unlisted = reading.most - reading.least;
  sum.least += reading.least;
  sum.most += reading.most;
  sum.forward += reading.forward;
  sum.recomputed += reading.recomputed;
  sum.without_gradients &= without_gradients(unlisted);
  return sum;
}

InferredFlops known(double flops, double recomputed) {
  const double unit = 1 << FlopSum::kRestBits;
  flops = std::min(flops, unit * static_cast<double>(kMostMega));
  InferredFlops result{.verdict = Inference::kKnown};
  result.flops.mega = static_cast<uint64_t>(flops / unit);
  result.flops.rest = static_cast<uint64_t>(flops - static_cast<double>(result.flops.mega) * unit);
  result.recomputed_permille =
      static_cast<uint32_t>(std::clamp(recomputed * 1000 + 0.5, 0.0, 1000.0));
  return result;
}

}  // namespace

const char* inference_reason(Inference inference) {
  switch (inference) {
    case Inference::kNothing:
      return "no-gemms";
    case Inference::kKnown:
      return "";
    case Inference::kFewSteps:
      return "few-steps";
    case Inference::kUncovered:
      return "uncovered-calls";
    case Inference::kShapes:
      return "many-shapes";
    case Inference::kAmbiguous:
      return "ambiguous-shapes";
  }
  return "ambiguous-shapes";
}

const char* inferred_flops_fault(const InferredFlops& inferred) {
  if (static_cast<uint32_t>(inferred.verdict) >= kInferences) return "inference";
  if (inferred.flops.mega > kMostMega || inferred.flops.rest >> FlopSum::kRestBits != 0) {
    return "impossible FLOPs of a model";
  }
  if (inferred.verdict != Inference::kKnown && inferred.flops != FlopSum{}) {
    return "FLOPs of a model without a verdict";
  }
  return inferred.recomputed_permille > 1000 ? "recomputed share" : nullptr;
}

InferredFlops infer_model_flops(const GemmCount (&counts)[GemmTable::kShapes], const GemmSums& sums,
                                const UnlistedGemms& unlisted_calls) {
  double calls = 0;
  double all = 0;
  for (size_t i = 0; i < kPrecisions; ++i) {
    calls += static_cast<double>(sums.calls[i]);
    all += sums.flops[i].approximate();
  }
  const auto uncovered = static_cast<double>(sums.uncovered);
  if (calls + uncovered == 0) return {};
  if (uncovered > kUncoveredMost * (calls + uncovered)) {
    return {.verdict = Inference::kUncovered};
  }
  groups.collect(counts);
  const GemmGroup unlisted = groups.of_unlisted(unlisted_calls);
  const double unknown = std::max(0.0, all - groups.flops() - unlisted.total());
  if (sums.unlisted > 0 && unknown > kWidest * all) return {.verdict = Inference::kShapes};

  Sum sum = read_all(false, all, unlisted);
  if (sum.passes < kPasses) return {.verdict = Inference::kFewSteps};
  if (sum.without_gradients) {
    const bool long_enough = sum.passes >= kForwardPasses && sum.calls >= kForwardCalls;
    if (!long_enough) return {.verdict = Inference::kFewSteps};
    return known(all, 0);
  }
  if (sum.trained > 0.2 * sum.most && sum.frozen < kWidest * sum.most) {
    sum = read_all(true, all, unlisted);
  }
  sum.most += unknown;
  if (sum.most - sum.least <= kWidest * sum.most) {
    return known((sum.least + sum.most) / 2, sum.forward > 0 ? sum.recomputed / sum.forward : 0);
  }
  if (unknown + sum.unlisted > kWidest * all) return {.verdict = Inference::kShapes};
  return {.verdict = sum.passes < kManyPasses ? Inference::kFewSteps : Inference::kAmbiguous};
}

}  // namespace mfu
