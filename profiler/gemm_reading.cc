#include "profiler/gemm_reading.hh"

#include <algorithm>

namespace mfu {
namespace {

constexpr double kNoise = kGroupNoise;

// (N,T), (T,N) and (N,N), each as often as a product and its two gradients can hold them.
double trained_products(const GemmGroup& group) {
  const double least = std::min({group.by(kTN), group.by(kNN), group.by(kNT)});
  if (group.twin < 0 || group.batched()) return least;
  // Wgrad contracts the tokens only. Where these are not the twin, the other products do not.
  // Iterations X X' X do both, of high matrices and of wide ones.
  const int other = group.twin == 0 ? 2 : 0;
  const double of_twin = group.of(group.twin, kNT);
  const double of_other = group.of(other, kNT);
  const double strange =
      of_twin > of_other ? of_other : of_twin + group.of(other, kTN) + group.of(other, kNN);
  return strange > 0 ? 0 : least;
}

}  // namespace

GemmReading read_at_large(const GemmGroup& group) {
  GemmReading reading{.most = group.total()};
  if (group.copied) {
    if (group.different < kDimensions) return reading;
    reading.least =
        3 * std::min({group.contracting(0), group.contracting(1), group.contracting(2)});
  } else if (group.by(kNT) > 0) {
    reading.least = 3 * trained_products(group);
  } else if (!group.batched() && group.different == kDimensions) {
    // Frozen weights. Two equal dimensions could be an optimizer's X X' X, a batch attention.
    reading.least = 2 * std::min(group.by(kTN), group.by(kNN));
  }
  return reading;
}

namespace {

// Calls of the backward thread, of the kinds that forward passes have (`again`: recomputed or a
// gradient) and of other kinds (`gradients`, of which the most frequent kind has `widest`).
struct Backward {
  double again = 0;
  double gradients = 0;
  double widest = 0;
  int kinds_forward = 0;  // kinds that forward passes have
  bool alike = false;     // a kind may be of both gradients of a product
};

template <int kKinds>
Backward split(const double (&forward)[kKinds], const double (&backward)[kKinds], double total) {
  Backward result;
  for (int i = 0; i < kKinds; ++i) {
    if (forward[i] > kNoise * total) {
      result.again += backward[i];
      ++result.kinds_forward;
    } else {
      result.gradients += backward[i];
      result.widest = std::max(result.widest, backward[i]);
    }
  }
  return result;
}

// `least` and `most`: gradients among `again`. `passes`: forward passes that these gradients prove.
GemmReading conclude(const Backward& backward, double forward, double least, double most,
                     double passes) {
  GemmReading reading{.most = backward.gradients + backward.again + forward};
  const double slack = 1 + kNoise;
  // No pass is recomputed twice, or has two gradients of a kind or more than two: otherwise the
  // threads are not those.
  if (least > most * slack || backward.again - most > forward * slack ||
      backward.widest > (backward.alike ? 2 : 1) * forward * slack ||
      backward.gradients + least > 2 * forward * slack) {
    return reading;
  }
  most = std::clamp(most, 0.0, backward.again);
  least = std::clamp(least, 0.0, most);
  const double gradients = backward.gradients + least;
  reading.least = gradients + std::min(forward, passes);
  reading.most = backward.gradients + most + forward;
  reading.forward = forward;
  reading.recomputed = backward.again - (least + most) / 2;
  reading.trained = gradients > 1.9 * forward;
  reading.frozen = backward.gradients + most < 1.9 * forward;
  return reading;
}

GemmReading read_transposed(const GemmGroup& group) {
  double forward[kOperations];
  double backward[kOperations];
  for (int i = 0; i < kOperations; ++i) {
    forward[i] = group.by(kForward, static_cast<GemmOperation>(i));
    backward[i] = group.by(kBackward, static_cast<GemmOperation>(i));
  }
  const double total = group.total(kForward);
  // Gradients that are computed in the forward pass, as fused losses do.
  if (forward[kNT] > kNoise * total) return read_at_large(group);
  if (total == 0) {
    // The forward pass has other dimensions: it is cut into chunks.
    const bool told = backward[kNT] == group.total() && !group.batched();
    return {.least = told ? backward[kNT] : 0, .most = group.total()};
  }
  const Backward calls = split(forward, backward, total);
  if (calls.kinds_forward == 1) {
    return conclude(calls, total, 0, 0, calls.widest);
  }
  // Attention, or weights stored both ways: operands that have wgrad have dgrad.
  const double wgrad = backward[kNT];
  const double again = calls.again;
  const double least = std::max(2 * wgrad - calls.gradients, again - total);
  const double most = wgrad > 0 ? 2 * total - calls.gradients : total;
  return conclude(calls, total, least, most, std::max(calls.widest, std::min(least, again)));
}

// How the calls of a copied group are told apart where dimensions coincide: by m, n and k.
struct Kind {
  uint64_t m, n, k;
  size_t index(const GemmGroup& group) const {
    return static_cast<size_t>(group.contracted(k) * kOperations + (m > n));
  }
};
constexpr size_t kKinds = kDimensions * kOperations;

Kind kind_at(const GemmGroup& group, size_t index) {
  const size_t contracted = index / kOperations;
  const uint64_t low = group.dimensions[contracted == 0 ? 1 : 0];
  const uint64_t high = group.dimensions[contracted == 2 ? 1 : 2];
  const bool swapped = index % kOperations != 0;
  return {swapped ? high : low, swapped ? low : high, group.dimensions[contracted]};
}

// Of a forward pass Y = X W' of [n x k] activations.
Kind dgrad_of(const Kind& forward) {
  return {forward.k, forward.n, forward.m};
}
Kind wgrad_of(const Kind& forward) {
  return {forward.k, forward.m, forward.n};
}

// `trained`: weights that could be frozen are not.
GemmReading read_coincident(const GemmGroup& group, bool trained) {
  double forward[kKinds];
  double backward[kKinds];
  for (size_t i = 0; i < kKinds; ++i) {
    forward[i] = group.calls[kForward][i / kOperations][i % kOperations];
    backward[i] = group.calls[kBackward][i / kOperations][i % kOperations];
  }
  const double total = group.total(kForward);
  Backward calls = split(forward, backward, total);
  const double again = calls.again;
  const double gradients = calls.gradients;
  // Whether gradients are of kinds that forward passes have, and which kinds they are expected in.
  bool dgrad_hidden = false;
  bool wgrad_hidden = false;
  double expected = 0;
  double wgrad = 0;
  bool of_dgrad[kKinds] = {};
  bool of_wgrad[kKinds] = {};
  for (size_t i = 0; i < kKinds; ++i) {
    if (forward[i] <= kNoise * total) continue;
    const Kind kind = kind_at(group, i);
    of_dgrad[dgrad_of(kind).index(group)] = true;
    of_wgrad[wgrad_of(kind).index(group)] = true;
  }
  for (size_t i = 0; i < kKinds; ++i) {
    const bool hidden = forward[i] > kNoise * total;
    dgrad_hidden |= hidden && of_dgrad[i];
    wgrad_hidden |= hidden && of_wgrad[i];
    calls.alike |= of_dgrad[i] && of_wgrad[i];
    if (!hidden && (of_dgrad[i] || of_wgrad[i])) expected += backward[i];
    if (!hidden && of_wgrad[i]) wgrad += backward[i];
  }
  const bool as_expected = expected >= gradients * (1 - kNoise);
  const double passes = std::max(gradients / 2, calls.alike ? 0 : calls.widest);
  if (as_expected && !dgrad_hidden && !wgrad_hidden) {
    return conclude(calls, total, 0, 0, passes);
  }
  double least = again - total;
  const double most = std::min(again, 2 * total - gradients);
  // What has wgrad has dgrad.
  if (as_expected && !wgrad_hidden && !calls.alike) {
    least = std::max(least, std::min(again, wgrad));
  }
  // With both gradients, and not recomputed.
  if (trained && most == again && again + gradients > 1.96 * total) least = most;
  return conclude(calls, total, least, most,
                  std::max(passes, (gradients + std::max(least, 0.0)) / 2));
}

GemmReading read_copied(const GemmGroup& group, bool trained) {
  const double total = group.total(kForward);
  if (total == 0) return {.most = group.total()};
  if (group.different < kDimensions) return read_coincident(group, trained);
  double forward[kDimensions];
  double backward[kDimensions];
  for (int i = 0; i < kDimensions; ++i) {
    forward[i] = group.contracting(kForward, i);
    backward[i] = group.contracting(kBackward, i);
  }
  const Backward calls = split(forward, backward, total);
  if (calls.kinds_forward == 1) {
    return conclude(calls, total, 0, 0, calls.widest);
  }
  // Two matrices, one the way of the other back: the third dimension is the tokens.
  const double wgrad = calls.gradients;
  const double least = std::max(wgrad, calls.again - total);
  const double most = wgrad > 0 ? 2 * total - wgrad : total;
  return conclude(calls, total, least, most, std::max(wgrad, std::min(least, calls.again)));
}

}  // namespace

GemmReading read_by_threads(const GemmGroup& group, bool trained) {
  return group.copied ? read_copied(group, trained) : read_transposed(group);
}

bool without_gradients(const GemmGroup& group) {
  const double total = group.total();
  if (group.by(kNT) > 0 || group.by(kTT) > 0) return false;
  int contracted = 0;
  for (int i = 0; i < kDimensions; ++i) contracted += group.contracting(i) > 0;
  if (group.batched() && !group.copied) return contracted <= 2;
  if (group.copied || group.different < kDimensions) {
    return contracted == 1 && (group.by(kTN) == total || group.by(kNN) == total);
  }
  return contracted <= 2 && (group.by(kTN) == total || group.by(kNN) == total);
}

}  // namespace mfu
