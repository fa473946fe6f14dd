// All distances by breadth-first searches from many leaves at once: a switch keeps a bit for each
// leaf that has reached it, and a step takes the union of its neighbours' bits. A three-level
// fabric of 1,024 leaves is done in four steps over all links, instead of 1,024 searches.
#include "topology/fabric_span.hh"

#include <algorithm>
#include <array>
#include <tuple>

namespace mfu {

// The switches of a fabric, numbered by themselves.
struct SwitchGraph {
  std::vector<std::vector<uint32_t>> neighbours;  // each once
  std::vector<uint32_t> leaf;                     // index of it, or kNoIndex
};

namespace {

constexpr size_t kWords = 16;  // of bits: 1,024 leaves at once
using LeafSet = std::array<uint64_t, kWords>;

SwitchGraph switches_of(const Fabric& fabric, const FabricRoles& roles) {
  SwitchGraph graph;
  std::vector<uint32_t> number(fabric.nodes.size(), kNoIndex);
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    if (fabric.nodes[i].kind != FabricKind::kSwitch) continue;
    number[i] = static_cast<uint32_t>(graph.leaf.size());
    graph.leaf.push_back(roles.leaf_of[i]);
  }
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    if (number[i] == kNoIndex) continue;
    std::vector<uint32_t>& own = graph.neighbours.emplace_back();
    for (const FabricPort& port : fabric.nodes[i].ports) {
      if (number[port.peer] != kNoIndex) own.push_back(number[port.peer]);
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
  }
  return graph;
}

// Most hosts in the k largest of them.
std::vector<uint32_t> most_hosts(std::vector<uint32_t> sizes) {
  std::sort(sizes.rbegin(), sizes.rend());
  for (size_t i = 1; i < sizes.size(); ++i) sizes[i] += sizes[i - 1];
  return sizes;
}

// Most hosts in units that have k leaves together, up to kMostLeaves.
std::vector<uint32_t> most_hosts_by_leaves(const FabricRoles& roles) {
  std::vector<std::vector<uint32_t>> sizes;  // of units with as many leaves
  for (const FabricUnit& unit : roles.units) {
    if (sizes.size() <= unit.leaves.size()) sizes.resize(unit.leaves.size() + 1);
    sizes[unit.leaves.size()].push_back(static_cast<uint32_t>(unit.hosts.size()));
  }
  std::vector<uint32_t> best(std::min(roles.leaves.size(), kMostLeaves) + 1, 0);
  for (size_t leaves = 1; leaves < sizes.size(); ++leaves) {
    if (sizes[leaves].empty()) continue;
    const std::vector<uint32_t> most = most_hosts(sizes[leaves]);
    // Of k leaves, some go to units of this size: the largest of them.
    for (size_t k = best.size(); k-- > 0;) {
      for (size_t units = 1; units <= most.size() && units * leaves <= k; ++units) {
        best[k] = std::max(best[k], best[k - units * leaves] + most[units - 1]);
      }
    }
  }
  best.erase(best.begin());
  return best;
}

// Least k with room for the hosts.
uint32_t least(const std::vector<uint32_t>& most, uint32_t hosts) {
  if (hosts == 0) return 0;
  return static_cast<uint32_t>(std::lower_bound(most.begin(), most.end(), hosts) - most.begin()) +
         1;
}

}  // namespace

LeafHops::LeafHops(const Fabric& fabric, const FabricRoles& roles) : leaves_(roles.leaves.size()) {
  if (leaves_ > kMostLeaves) return;
  hops_.assign(leaves_ * leaves_, kNoWay);
  const SwitchGraph graph = switches_of(fabric, roles);
  for (size_t begin = 0; begin < leaves_; begin += 64 * kWords) search(graph, begin);
}

// From leaves [begin, begin + 64 x kWords).
void LeafHops::search(const SwitchGraph& graph, size_t begin) {
  const size_t switches = graph.leaf.size();
  std::vector<LeafSet> reached(switches, LeafSet{});
  for (size_t s = 0; s < switches; ++s) {
    const size_t leaf = graph.leaf[s];
    if (leaf < begin || leaf >= begin + 64 * kWords || leaf >= leaves_) continue;
    reached[s][(leaf - begin) / 64] |= uint64_t{1} << (leaf - begin) % 64;
    hops_[leaf * leaves_ + leaf] = 0;
  }
  std::vector<LeafSet> front = reached;
  std::vector<LeafSet> next(switches);
  bool moved = true;
  for (uint8_t hop = 1; hop < kNoWay && moved; ++hop) {
    moved = false;
    for (size_t s = 0; s < switches; ++s) {
      LeafSet set{};
      for (uint32_t neighbour : graph.neighbours[s]) {
        for (size_t w = 0; w < kWords; ++w) set[w] |= front[neighbour][w];
      }
      for (size_t w = 0; w < kWords; ++w) {
        set[w] &= ~reached[s][w];
        moved = moved || set[w] != 0;
        if (graph.leaf[s] == kNoIndex) continue;
        for (uint64_t bits = set[w]; bits != 0; bits &= bits - 1) {
          const size_t leaf = begin + w * 64 + static_cast<size_t>(__builtin_ctzll(bits));
          hops_[graph.leaf[s] * leaves_ + leaf] = hop;
        }
      }
      next[s] = set;
    }
    for (size_t s = 0; s < switches; ++s) {
      for (size_t w = 0; w < kWords; ++w) reached[s][w] |= next[s][w];
    }
    front.swap(next);
  }
}

FabricSpans::FabricSpans(const Fabric& fabric, const FabricRoles& roles)
    : roles_(roles), hops_(fabric, roles), hosts_by_leaves_(most_hosts_by_leaves(roles)) {
  std::vector<uint32_t> units;
  for (const FabricUnit& unit : roles.units)
    units.push_back(static_cast<uint32_t>(unit.hosts.size()));
  std::vector<uint32_t> pods(roles.pods.size(), 0);
  for (size_t i = 0; i < units.size(); ++i) pods[roles.units[i].pod] += units[i];
  hosts_by_units_ = most_hosts(std::move(units));
  hosts_by_pods_ = most_hosts(std::move(pods));
}

JobSpan FabricSpans::span(std::span<const uint32_t> hosts) const {
  std::vector<uint32_t> own(hosts.begin(), hosts.end());
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());

  JobSpan span;
  span.hosts = static_cast<uint32_t>(own.size());
  std::vector<bool> leaves(roles_.leaves.size()), units(roles_.units.size());
  std::vector<bool> pods(roles_.pods.size()), islands(roles_.islands);
  auto first = [](std::vector<bool>* seen, uint32_t index) -> uint32_t {
    if ((*seen)[index]) return 0;
    (*seen)[index] = true;
    return 1;
  };
  uint32_t placed = 0;
  for (uint32_t host : own) {
    const FabricHost& at = roles_.hosts[host];
    if (at.unit == kNoIndex) continue;
    ++placed;
    for (const HostPort& port : at.ports) span.leaves += first(&leaves, port.leaf);
    span.units += first(&units, at.unit);
    const uint32_t pod = roles_.units[at.unit].pod;
    span.pods += first(&pods, pod);
    span.islands += first(&islands, roles_.pods[pod].island);
  }
  span.least_leaves = std::min(span.leaves, least(hosts_by_leaves_, placed));
  span.least_units = least(hosts_by_units_, placed);
  span.least_pods = least(hosts_by_pods_, placed);
  measure_hops(own, &span);
  return span;
}

void FabricSpans::measure_hops(std::span<const uint32_t> hosts, JobSpan* span) const {
  // Rail and leaf of each port; two ports of a host on one leaf and rail count once.
  std::vector<uint64_t> places;
  for (uint32_t host : hosts) {
    const size_t begin = places.size();
    for (const HostPort& port : roles_.hosts[host].ports) {
      const uint64_t place = uint64_t{port.rail} << 32 | port.leaf;
      if (places.size() == begin || places.back() != place) places.push_back(place);
    }
  }
  std::sort(places.begin(), places.end());
  struct Count {
    uint32_t rail, leaf;
    uint64_t hosts;
  };
  std::vector<Count> counts;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i] != places[i - 1]) {
      counts.push_back(
          {static_cast<uint32_t>(places[i] >> 32), static_cast<uint32_t>(places[i]), 0});
    }
    ++counts.back().hosts;
  }
  uint64_t pairs = 0;
  uint64_t sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    pairs += counts[i].hosts * (counts[i].hosts - 1) / 2;
    for (size_t j = i + 1; j < counts.size() && counts[j].rail == counts[i].rail; ++j) {
      const uint8_t hops = hops_.between(counts[i].leaf, counts[j].leaf);
      const uint64_t weight = counts[i].hosts * counts[j].hosts;
      if (hops == kNoWay) {
        span->pairs_without_way += weight;
        continue;
      }
      pairs += weight;
      sum += weight * hops;
      span->largest_hops = std::max<uint32_t>(span->largest_hops, hops);
    }
  }
  if (pairs > 0) span->mean_hops = static_cast<double>(sum) / static_cast<double>(pairs);
}

}  // namespace mfu
