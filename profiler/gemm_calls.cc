#include "profiler/gemm_calls.hh"

#include <algorithm>

namespace mfu {
namespace {

constexpr size_t kProbes = 32;
constexpr uint64_t kMostCalls = uint64_t{1} << 60;  // no process makes as many
constexpr uint64_t kMostMega = uint64_t{1} << 60;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

// 64 bits stand for the shape: among 1024 of them two meet with a probability of 3e-14.
uint64_t key_of(const GemmShape& shape) {
  uint64_t hash = mix(1, shape.m);
  hash = mix(hash, shape.n);
  hash = mix(hash, shape.k);
  hash = mix(hash, shape.batch);
  hash = mix(hash, uint64_t{static_cast<uint8_t>(shape.precision)} << 8 | shape.complex << 2 |
                       shape.transposed_a << 1 | uint64_t{shape.transposed_b});
  return hash == 0 ? 1 : hash;
}

}  // namespace

unsigned __int128 GemmShape::flops() const {
  unsigned __int128 most = ~static_cast<unsigned __int128>(0);
  auto times = [most](unsigned __int128 product, uint64_t factor) {
    return factor != 0 && product > most / factor ? most : product * factor;
  };
  // m n and 8 k have room in any case.
  unsigned __int128 product = static_cast<unsigned __int128>(m) * n;
  return times(times(times(product, k), batch), complex ? 8 : 2);
}

void FlopSum::add(unsigned __int128 flops) {
  const uint64_t mask = (uint64_t{1} << kRestBits) - 1;
  const uint64_t low = rest + (static_cast<uint64_t>(flops) & mask);
  mega += static_cast<uint64_t>(flops >> kRestBits) + (low >> kRestBits);
  rest = low & mask;
}

uint32_t GemmTable::note(const GemmShape& shape) {
  const uint64_t order = order_.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t key = key_of(shape);
  for (size_t i = 0; i < kProbes; ++i) {
    const size_t at = (key + i) % kShapes;
    Slot& slot = slots_[at];
    uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == 0 && slot.key.compare_exchange_strong(found, key)) {
      slot.shape = shape;
      slot.first.store(order, std::memory_order_relaxed);
      slot.filled.store(true, std::memory_order_release);
      found = key;
    }
    if (found != key) continue;
    slot.last.store(order, std::memory_order_relaxed);
    return static_cast<uint32_t>(at);
  }
  return kNoNumber;
}

void GemmTable::add(const GemmShape& shape, uint32_t thread, GemmPart part) {
  const uint32_t number = note(shape);
  if (number != kNoNumber) {
    add_replays(number, thread, 1);
    if (part == GemmPart::kFurther) add_further(shape.precision, 1);
    return;
  }
  const unsigned __int128 flops = shape.flops();
  unlisted_[static_cast<size_t>(shape.precision)].add(flops, part);
  if (is_narrow(shape.precision)) return;
  const size_t column = std::min<size_t>(thread, kGemmThreads - 1);
  unlisted_by_[column][operation_of(shape)].add(flops, part);
}

void GemmTable::add_further(Precision precision, uint64_t times) {
  further_[static_cast<size_t>(precision)].fetch_add(times, std::memory_order_release);
}

void GemmTable::further(uint64_t (&out)[kPrecisions]) const {
  for (size_t i = 0; i < kPrecisions; ++i) out[i] = further_[i].load(std::memory_order_acquire);
}

void GemmTable::Unlisted::add(unsigned __int128 flops, GemmPart part) {
  FlopSum split;
  split.add(flops);
  if (part == GemmPart::kCall) calls.fetch_add(1, std::memory_order_relaxed);
  mega.fetch_add(split.mega, std::memory_order_relaxed);
  rest.fetch_add(split.rest, std::memory_order_relaxed);
}

void GemmTable::unlisted(UnlistedGemms* out) const {
  for (size_t thread = 0; thread < kGemmThreads; ++thread) {
    for (size_t operation = 0; operation < kOperations; ++operation) {
      const Unlisted& sum = unlisted_by_[thread][operation];
      FlopSum& flops = out->flops[thread][operation];
      flops = {.mega = sum.mega.load(std::memory_order_relaxed), .rest = 0};
      flops.add(sum.rest.load(std::memory_order_relaxed));
    }
  }
}

void GemmTable::add_replays(uint32_t number, uint32_t thread, uint64_t times) {
  const size_t column = std::min<size_t>(thread, kGemmThreads - 1);
  slots_[number].calls[column].fetch_add(times, std::memory_order_relaxed);
}

void GemmTable::counts(GemmCount (&out)[kShapes]) const {
  for (size_t i = 0; i < kShapes; ++i) {
    const Slot& slot = slots_[i];
    out[i] = {};
    if (!slot.filled.load(std::memory_order_acquire)) continue;
    out[i].shape = slot.shape;
    for (size_t thread = 0; thread < kGemmThreads; ++thread) {
      out[i].calls[thread] = slot.calls[thread].load(std::memory_order_relaxed);
    }
    out[i].first = slot.first.load(std::memory_order_relaxed);
    out[i].last = slot.last.load(std::memory_order_relaxed);
  }
}

void GemmTable::sum(const GemmCount (&counts)[kShapes], const uint64_t (&further)[kPrecisions],
                    GemmSums* sums) const {
  for (const GemmCount& count : counts) {
    if (count.shape.empty()) continue;
    const auto precision = static_cast<size_t>(count.shape.precision);
    ++sums->shapes;
    sums->calls[precision] += count.total();
    sums->flops[precision].add(count.shape.flops() * count.total());
  }
  for (size_t i = 0; i < kPrecisions; ++i) {
    const uint64_t calls = unlisted_[i].calls.load(std::memory_order_relaxed);
    const uint64_t mega = unlisted_[i].mega.load(std::memory_order_relaxed);
    const uint64_t rest = unlisted_[i].rest.load(std::memory_order_relaxed);
    sums->unlisted += calls;
    sums->calls[i] += calls;
    sums->flops[i].add((static_cast<unsigned __int128>(mega) << FlopSum::kRestBits) + rest);
    // What stood for a grouped call may have found no place in a graph.
    if (sums->calls[i] != 0) sums->calls[i] -= std::min(further[i], sums->calls[i] - 1);
  }
  sums->uncovered += uncovered_.load(std::memory_order_relaxed);
}

const char* gemm_sums_fault(const GemmSums& sums) {
  uint64_t calls = 0;
  for (size_t i = 0; i < kPrecisions; ++i) {
    if (sums.calls[i] > kMostCalls) return "too many GEMM calls";
    if (sums.flops[i].mega > kMostMega || sums.flops[i].rest >> FlopSum::kRestBits != 0) {
      return "impossible FLOPs of GEMMs";
    }
    if (sums.calls[i] == 0 && sums.flops[i] != FlopSum{}) return "FLOPs without a GEMM call";
    calls += sums.calls[i];
  }
  for (const uint64_t count : {sums.graph_launches, sums.captured, sums.uncovered, sums.entries}) {
    if (count > kMostCalls) return "too many GEMM calls";
  }
  if (sums.replayed > calls || sums.unlisted > calls || sums.in_no_graph > sums.captured ||
      sums.shapes > GemmTable::kShapes) {
    return "GEMM calls that contradict each other";
  }
  return nullptr;
}

}  // namespace mfu
