// How far apart the nodes of a job are in the fabric.
//
// Hops are links between leaf switches: 0 on one leaf, 2 by a spine, 4 by the core. A collective's
// traffic keeps to its rail (NCCL goes to the other rails inside a node), so a job's hops are those
// between ports of one rail of different hosts.
#ifndef MFU_TOPOLOGY_FABRIC_SPAN_HH_
#define MFU_TOPOLOGY_FABRIC_SPAN_HH_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "topology/fabric.hh"
#include "topology/fabric_roles.hh"

namespace mfu {

inline constexpr uint8_t kNoWay = UINT8_MAX;
// Of more leaves than any subnet has, no distances are kept: all are kNoWay.
inline constexpr size_t kMostLeaves = 8192;

struct SwitchGraph;

// Hops between all leaves of a fabric: a byte for each pair.
class LeafHops {
 public:
  LeafHops(const Fabric& fabric, const FabricRoles& roles);
  // Indices into FabricRoles::leaves; kNoWay: they are not linked, or 255 hops and more apart.
  uint8_t between(uint32_t a, uint32_t b) const {
    return hops_.empty() ? kNoWay : hops_[size_t{a} * leaves_ + b];
  }

 private:
  void search(const SwitchGraph& graph, size_t begin);

  size_t leaves_;
  std::vector<uint8_t> hops_;
};

struct JobSpan {
  uint32_t hosts = 0;                                     // different ones
  uint32_t leaves = 0, units = 0, pods = 0, islands = 0;  // that they are in
  // The least that this many hosts of the whole fabric can be in, whoever uses them now.
  uint32_t least_leaves = 0, least_units = 0, least_pods = 0;
  uint32_t largest_hops = 0;
  double mean_hops = 0;  // of all pairs of ports of one rail that have a way; 0: no pair
  uint64_t pairs_without_way = 0;
};

// What all jobs of a fabric are measured against.
class FabricSpans {
 public:
  FabricSpans(const Fabric& fabric, const FabricRoles& roles);
  // Indices into FabricRoles::hosts, in any order. Hosts without a leaf count as hosts only.
  JobSpan span(std::span<const uint32_t> hosts) const;
  const LeafHops& hops() const { return hops_; }

 private:
  void measure_hops(std::span<const uint32_t> hosts, JobSpan* span) const;

  const FabricRoles& roles_;
  LeafHops hops_;
  // Most hosts that 1, 2, ... of them can hold.
  std::vector<uint32_t> hosts_by_leaves_, hosts_by_units_, hosts_by_pods_;
};

}  // namespace mfu

#endif
