#include "profiler/steps.hh"

#include <algorithm>
#include <iterator>
#include <utility>

#include "profiler/name_search.hh"

namespace mfu {
namespace {

using std::string_view;

// Of GPU time: what holds less is no part of a step, but logging and the like.
constexpr uint64_t kLeastShare = 10'000;  // 1 / 0.01%

// Of GPU time that may go untracked, or repeat within the step, where every token matters: 1%.
constexpr uint64_t kMostShare = 100;

// Without optimizer kernels: steps before the first optimizer step are microbatches, perhaps.
constexpr uint64_t kLeastUnmarked = 16;

// Launches of a burst follow each other within so many kernels. No training step is that short.
constexpr uint32_t kBurstDistance = 8;

// So many disagreeing distances in a row, and the voted one is another.
constexpr uint32_t kMostVotes = 8;

// What a token earns when it comes again, and at most; a miss in its set costs 1. A new token gives
// its place away soon, else those that come once would fill the table.
constexpr uint16_t kNewWorth = 4;
constexpr uint16_t kHitWorth = 64;
constexpr uint16_t kMostWorth = 4096;

// Kernels of two streams change places: two more or fewer are the same distance, if it is not tiny.
bool same_distance(uint64_t a, uint64_t b) {
  const uint64_t tolerance = b < 16 ? b / 8 : std::max<uint64_t>(2, b / 64);
  return a + tolerance >= b && a <= b + tolerance;
}

bool same_count(uint64_t a, uint64_t b) {
  const uint64_t tolerance = std::max<uint64_t>(1, b / 50);
  return a + tolerance >= b && a <= b + tolerance;
}

}  // namespace

const char* step_source_name(StepSource source) {
  constexpr const char* kNames[] = {"none", "periodicity", "kernel", "nvtx"};
  const size_t index = static_cast<size_t>(source);
  return kNames[index < std::size(kNames) ? index : 0];
}

StepEstimate better_steps(const StepEstimate& a, const StepEstimate& b) {
  return b.source > a.source ? b : a;
}

// The median by small steps towards each new value, smaller and smaller ones. The first values
// include warm-up, so the smallest of four is where it begins; they are judged together afterwards.
void StepPace::add(uint64_t start_ns) {
  constexpr uint64_t kFirst = 5;
  if (count++ == 0) {
    first_ns = last_ns = start_ns;
    return;
  }
  const uint64_t gap_ns = start_ns > last_ns ? start_ns - last_ns : 0;
  last_ns += gap_ns;
  if (count <= kFirst) {
    typical_ns = count == 2 ? gap_ns : std::min(typical_ns, gap_ns);
    productive_ns += gap_ns;
    const uint64_t expected_ns = (kFirst - 1) * typical_ns;
    if (count == kFirst && productive_ns > expected_ns * 3 / 2) {
      ++stalls;
      stalled_ns = productive_ns - expected_ns;
      productive_ns = expected_ns;
    }
    return;
  }
  if (gap_ns > 2 * typical_ns) {
    ++stalls;
    stalled_ns += gap_ns - typical_ns;
    productive_ns += typical_ns;
  } else {
    productive_ns += gap_ns;
  }
  const uint64_t pace_ns = (typical_ns >> (count < 32     ? 4
                                           : count < 128  ? 6
                                           : count < 1024 ? 7
                                                          : 8)) +
                           1;
  typical_ns = std::clamp(gap_ns, typical_ns - pace_ns, typical_ns + pace_ns);
}

StepEstimate StepPace::estimate(StepSource source) const {
  StepEstimate result{};
  if (count == 0) return result;
  result.source = source;
  result.confidence = 1000;
  result.count = count;
  result.first_ns = first_ns;
  result.last_ns = last_ns;
  if (count > 1) result.period_ns = (last_ns - first_ns) / (count - 1);
  result.median_ns = typical_ns;
  result.productive_ns = productive_ns;
  result.stalled_ns = stalled_ns;
  result.stalls = stalls;
  return result;
}

uint64_t StepDetector::Beat::add(uint64_t index, uint64_t start_ns) {
  const bool begins = pace.count == 0;
  pace.add(start_ns);
  const uint64_t gap = index - last;
  last = index;
  if (begins) {
    first = index;
    return 0;
  }
  // A shorter distance weighs twice: in bursts of two, that of the burst wins.
  const uint32_t against = gap < distance ? 2 : 1;
  if (pace.count > 2 && same_distance(gap, distance)) {
    votes = std::min(votes + 1, kMostVotes);
    ++regular;
    covered += gap;
  } else if (votes >= against) {
    votes -= against;
  } else {
    distance = static_cast<uint32_t>(std::min<uint64_t>(gap, UINT32_MAX));
    votes = 1;
    // The first distance of all counts as regular: it is once the others agree with it.
    if (pace.count == 2) {
      regular = 1;
      covered = gap;
    }
  }
  return gap;
}

bool StepDetector::Beat::repeats() const {
  return pace.count >= kLeastSteps && regular * uint64_t{10} >= (pace.count - 1) * 8;
}

bool StepDetector::Beat::is_regular() const {
  return repeats() && covered * 100 >= (last - first) * 85;
}

void StepDetector::Token::add(uint64_t index, uint64_t start_ns) {
  const uint64_t gap = each.add(index, start_ns);
  if (gap == 0 || gap > 2 * uint64_t{each.distance} + 2) burst.add(index, start_ns);
}

// In bursts of two, every second distance is that of the burst.
bool StepDetector::Token::comes_in_bursts() const {
  return each.distance <= kBurstDistance && each.regular * uint64_t{2} + 2 >= each.pace.count;
}

const StepDetector::Beat* StepDetector::Token::regular_beat() const {
  if (each.distance > kBurstDistance) return each.is_regular() ? &each : nullptr;
  return comes_in_bursts() && burst.is_regular() ? &burst : nullptr;
}

StepDetector::Token* StepDetector::find(uint64_t key, bool optimizer) {
  key |= 1;  // 0 is a free place
  // Ways are tried from the key's own one on: most tokens are found at once.
  const size_t begin = (key >> 32) % kTokens;
  for (size_t i = 0; i < kWays; ++i) {
    const size_t place = begin ^ i;
    if (keys_[place] != key) continue;
    if (worth_[place] < kMostWorth)
      worth_[place] = static_cast<uint16_t>(worth_[place] + kHitWorth);
    return &tokens_[place];
  }
  const size_t place = make_place(begin, optimizer);
  if (place == kTokens) return nullptr;
  untracked_ns_ += tokens_[place].gpu_ns;
  keys_[place] = key;
  worth_[place] = optimizer ? kMostWorth : kNewWorth;
  tokens_[place] = Token{};
  tokens_[place].optimizer = optimizer;
  return &tokens_[place];
}

// In the set of `begin`; kTokens: all of it are worth more than a new one.
size_t StepDetector::make_place(size_t begin, bool optimizer) {
  size_t cheapest = begin;
  for (size_t i = 0; i < kWays; ++i) {
    const size_t place = begin ^ i;
    if (keys_[place] == 0) return place;
    if (worth_[place] > 0) --worth_[place];
    if (worth_[place] < worth_[cheapest]) cheapest = place;
  }
  // Optimizers are few and tell most.
  return worth_[cheapest] == 0 || (optimizer && !tokens_[cheapest].optimizer) ? cheapest : kTokens;
}

void StepDetector::add(uint64_t token, uint64_t start_ns, uint64_t end_ns, KernelMark mark) {
  const uint64_t duration_ns = end_ns > start_ns ? end_ns - start_ns : 0;
  if (kernels_ == 0) first_ns_ = start_ns;
  const uint64_t index = ++kernels_;
  gpu_ns_ += duration_ns;
  if (mark == KernelMark::kDeclared) declared_.add(index, start_ns);
  const bool optimizer = mark == KernelMark::kOptimizer;
  if (optimizer) optimizer_ns_ += duration_ns;
  Token* found = find(token, optimizer);
  if (found == nullptr) {
    untracked_ns_ += duration_ns;
    return;
  }
  found->gpu_ns += duration_ns;
  found->add(index, start_ns);
}

// Sorts the candidates by distance. With optimizer kernels the cluster that holds most time, if it
// is clearly ahead; without, the only one of weight.
StepDetector::Cluster StepDetector::best_cluster(Candidate* candidates, size_t count) const {
  std::sort(candidates, candidates + count, [](const Candidate& a, const Candidate& b) {
    return a.beat->distance < b.beat->distance;
  });
  Cluster best{};
  uint64_t second_ns = 0;
  const Candidate* const end = candidates + count;
  for (const Candidate* begin = candidates; begin != end;) {
    Cluster cluster{begin, begin, 0};
    while (cluster.end != end &&
           same_distance(cluster.end->beat->distance, begin->beat->distance)) {
      cluster.gpu_ns += cluster.end++->token->gpu_ns;
    }
    begin = cluster.end;
    second_ns = std::max(second_ns, std::min(best.gpu_ns, cluster.gpu_ns));
    if (best.begin == nullptr || cluster.gpu_ns > best.gpu_ns) best = cluster;
  }
  const bool clear =
      optimizer_ns_ > 0 ? best.gpu_ns >= optimizer_ns_ / 4 && second_ns <= best.gpu_ns / 2
                        : best.gpu_ns >= gpu_ns_ / kLeastShare && second_ns < gpu_ns_ / kLeastShare;
  return clear ? best : Cluster{};
}

// Without optimizer kernels: does anything run more rarely than the anchor, if only once, or recur
// regularly within it? Then the anchor may be a microbatch, or something between evaluations.
bool StepDetector::is_ambiguous(const Beat& anchor) const {
  if (anchor.pace.count < kLeastUnmarked || untracked_ns_ > gpu_ns_ / kMostShare) return true;
  uint64_t repeated_ns = 0;
  for (const Token& token : tokens_) {
    const Beat* regular = token.regular_beat();
    const Beat& beat = regular == nullptr ? token.each : *regular;
    const uint64_t count = beat.pace.count;
    // Seen once, when the anchor had begun: what came before belongs to the start-up.
    if (count == 1 && beat.first > anchor.first + 2 * uint64_t{anchor.distance}) return true;
    if (count > 1 && (beat.last - beat.first) * 2 >= (count - 1) * anchor.distance * 3) return true;
    if (regular == nullptr && beat.repeats() && beat.distance > kBurstDistance) {
      repeated_ns += token.gpu_ns;
    }
  }
  return repeated_ns > gpu_ns_ / kMostShare;
}

StepEstimate StepDetector::periodic_estimate() const {
  Candidate candidates[kTokens];
  size_t count = 0;
  for (const Token& token : tokens_) {
    if (optimizer_ns_ > 0 && !token.optimizer) continue;
    const Beat* beat = token.regular_beat();
    if (beat != nullptr) candidates[count++] = {&token, beat};
  }
  const Cluster cluster = best_cluster(candidates, count);
  if (cluster.begin == cluster.end) return {};
  const Candidate* anchor = cluster.begin;
  for (const Candidate* it = cluster.begin; it != cluster.end; ++it) {
    if (std::pair(it->beat->covered, anchor->beat->first) >
        std::pair(anchor->beat->covered, it->beat->first)) {
      anchor = it;  // the longest, or the first of these
    }
  }
  const Beat& beat = *anchor->beat;
  // Steps that are the lesser part of what ran tell nothing about it.
  if ((beat.last - beat.first + beat.distance) * 2 < kernels_) return {};
  if (optimizer_ns_ == 0 && is_ambiguous(beat)) return {};
  uint64_t agreeing_ns = 0;
  for (const Candidate* it = cluster.begin; it != cluster.end; ++it) {
    if (same_count(it->beat->pace.count, beat.pace.count)) agreeing_ns += it->token->gpu_ns;
  }
  const double agreement =
      static_cast<double>(agreeing_ns) / static_cast<double>(std::max<uint64_t>(1, cluster.gpu_ns));
  const double regularity = beat.regular / static_cast<double>(beat.pace.count - 1);
  const auto confidence = static_cast<uint32_t>(1000 * agreement * regularity);
  if (confidence < kLeastConfidence) return {};
  StepEstimate result = beat.pace.estimate(StepSource::kPeriodicity);
  result.confidence = confidence;
  return result;
}

StepEstimate StepDetector::estimate() const {
  StepEstimate result{};
  if (declared_.each.pace.count > 0) {
    const Beat& beat = declared_.comes_in_bursts() ? declared_.burst : declared_.each;
    result = beat.pace.estimate(StepSource::kKernel);
  } else {
    result = periodic_estimate();
  }
  if (result.count > 0 && result.first_ns > first_ns_)
    result.before_ns = result.first_ns - first_ns_;
  return result;
}

bool is_step_range(string_view name) {
  // Letters only, in lower case, but for the number at the end and its total ("12/100").
  constexpr size_t kLongest = 17;
  constexpr string_view kSteps[] = {
      "step", "trainstep", "trainingstep", "iteration",  "trainiteration", "trainingiteration",
      "iter", "trainiter", "trainingiter", "globalstep", "profilerstep"};
  char letters[kLongest];
  size_t count = 0;
  bool number = false;
  for (const char c : name) {
    const char low = name_search::lower(c);
    if (low >= 'a' && low <= 'z') {
      if (number || count == kLongest) return false;
      letters[count++] = low;
    } else if (name_search::is_digit(c)) {
      if (count == 0) return false;
      number = true;
    } else if (c < ' ' || c > '~') {
      return false;
    }
  }
  const string_view word(letters, count);
  return std::find(std::begin(kSteps), std::end(kSteps), word) != std::end(kSteps);
}

bool is_optimizer_kernel(string_view name) {
  // "adam" alone is in Hadamard transforms. triton_for_ is how inductor fuses foreach operators.
  constexpr name_search::Names<16> kOptimizers = {"multitensorapply",
                                                  "fusedadam",
                                                  "adamw",
                                                  "adamfunctor",
                                                  "adamoptimizer",
                                                  "adamkernel",
                                                  "applyadam",
                                                  "fusedsgd",
                                                  "sgdfunctor",
                                                  "fusedlamb",
                                                  "lambstage",
                                                  "adagradfunctor",
                                                  "applymomentum",
                                                  "applygradientdescent",
                                                  "koptimizer",
                                                  "kpreconditionoptimizer"};
  return name_search::begins(name, "triton_for_") || name_search::any_folded(name, kOptimizers);
}

}  // namespace mfu
