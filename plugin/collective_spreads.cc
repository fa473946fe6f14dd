#include "plugin/collective_spreads.hh"

#include <algorithm>
#include <map>
#include <vector>

#include "plugin/bounded_sum.hh"

namespace mfu {
namespace {

constexpr uint32_t kMostHalvings = 64;

void join_spread(CollectiveSpreads::Spread* into, const CollectiveSpreads::Spread& other) {
  if (other.shortest_ns < into->shortest_ns) {
    into->shortest_ns = other.shortest_ns;
    into->last_rank = other.last_rank;
  }
  add_bounded(&into->sum_ns, other.sum_ns);
  into->ranks += std::min(other.ranks, UINT32_MAX - into->ranks);
}

bool by_key(const CollectiveSpreads::Spread& a, const CollectiveSpreads::Spread& b) {
  return a.key < b.key;
}

}  // namespace

void CollectiveSpreads::join(std::span<const Spread> more, uint32_t more_halvings) {
  std::vector<Spread> all(spreads, spreads + count);
  all.insert(all.end(), more.begin(), more.end());
  std::stable_sort(all.begin(), all.end(), by_key);
  std::vector<Spread> joined;
  for (const Spread& spread : all) {
    if (!joined.empty() && joined.back().key == spread.key) {
      join_spread(&joined.back(), spread);
    } else {
      joined.push_back(spread);
    }
  }
  halvings = std::max(halvings, more_halvings);
  const auto thin_out = [&] {
    std::erase_if(joined, [&](const Spread& s) {
      return halvings >= kMostHalvings || !CollectiveSamples::kept(s.key, halvings);
    });
  };
  thin_out();
  while (joined.size() > kMost) {
    ++halvings;
    thin_out();
  }
  count = static_cast<uint32_t>(joined.size());
  std::fill(std::copy(joined.begin(), joined.end(), spreads), spreads + kMost, Spread{});
}

void CollectiveSpreads::add(const Record& record, const Record& process) {
  if (record.communication_kernels == 0) return;
  const bool whole = process.state == State::kOk && (process.flags & kFinished) != 0 &&
                     (process.flags & (kDroppedUnknown | kFlushFailed)) == 0 &&
                     process.dropped == 0 && process.lost_ns == 0 && record.zero_times == 0 &&
                     record.reversed == 0 && record.implausible == 0;
  if (!whole || (ranks != 0 && record.communication_kernels != collectives)) unequal = 1;
  collectives = std::max(collectives, record.communication_kernels);
  ++ranks;
  for (uint64_t ns : record.collective_ns) add_bounded(&kernel_ns, ns);
  std::vector<Spread> more;
  for (uint32_t i = 0; i < record.samples.count; ++i) {
    const CollectiveSamples::Sample& sample = record.samples.samples[i];
    more.push_back({sample.key, sample.duration_ns, sample.duration_ns, 1, record.task});
  }
  join(more, record.samples.halvings);
}

void CollectiveSpreads::add(const CollectiveSpreads& other) {
  if (other.ranks == 0) return;
  if (other.unequal != 0 || (ranks != 0 && other.collectives != collectives)) unequal = 1;
  collectives = std::max(collectives, other.collectives);
  ranks += std::min(other.ranks, UINT32_MAX - ranks);
  add_bounded(&kernel_ns, other.kernel_ns);
  join({other.spreads, other.count}, other.halvings);
}

const char* CollectiveSpreads::fault() const {
  if (count > kMost || halvings > kMostHalvings || unequal > 1) return "collective spreads";
  if (kernel_ns > kMostSum) return "collective sum";
  for (uint32_t i = 0; i < count; ++i) {
    const Spread& spread = spreads[i];
    if (i != 0 && !by_key(spreads[i - 1], spread)) return "collective order";
    if (spread.sum_ns > kMostSum || spread.shortest_ns > spread.sum_ns || spread.ranks == 0) {
      return "collective spread";
    }
  }
  return nullptr;
}

Waiting waiting(const CollectiveSpreads& all) {
  Waiting result;
  if (all.ranks < 2 || all.unequal != 0) return result;
  double transfer_ns = 0;
  double total_ns = 0;
  std::map<uint32_t, double> caused_ns;
  for (const auto& spread : std::span(all.spreads, all.count)) {
    // Some ranks had no place in their tables of names: theirs is not known.
    if (spread.ranks != all.ranks) continue;
    const double transfer = static_cast<double>(spread.shortest_ns) * spread.ranks;
    ++result.sampled;
    transfer_ns += transfer;
    total_ns += static_cast<double>(spread.sum_ns);
    caused_ns[spread.last_rank] += static_cast<double>(spread.sum_ns) - transfer;
  }
  if (total_ns <= 0) return result;
  result.known = true;
  result.share = std::clamp(1 - transfer_ns / total_ns, 0.0, 1.0);
  for (const auto& [rank, ns] : caused_ns) {
    if (ns > 0 && ns * 2 >= total_ns - transfer_ns) result.slowest = rank;
  }
  return result;
}

}  // namespace mfu
