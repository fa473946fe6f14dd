// What is wrong with a fabric, and with the place of a job in it. Each rule is a function, and
// measures things against their peers' majority: a fabric says nowhere how it was meant.
//
// Adaptive routing cannot be told from discovery, so there is no rule for it.
#ifndef MFU_TOPOLOGY_FABRIC_AUDIT_HH_
#define MFU_TOPOLOGY_FABRIC_AUDIT_HH_

#include <span>
#include <vector>

#include "topology/fabric.hh"
#include "topology/fabric_roles.hh"
#include "topology/fabric_span.hh"
#include "topology/finding.hh"

namespace mfu {

struct FabricFinding {
  Finding finding;
  uint32_t host = kNoIndex;  // index into FabricRoles::hosts, if it is about one
  uint32_t leaf = kNoIndex;  // index into FabricRoles::leaves, if it is about one and no host
};

// "rail-swapped", high: a host's device is on the leaf where its peers have another one. Hosts with
// half of their unit's rails or fewer have none to swap.
std::vector<FabricFinding> find_swapped_rails(const Fabric& fabric, const FabricRoles& roles);
// "rail-elsewhere", high: a port of a host is linked to a leaf of another unit. Not of a machine
// without a Slurm name that has less than half of the rails of its own unit: it is taken for
// something else than a compute node.
std::vector<FabricFinding> find_rails_elsewhere(const Fabric& fabric, const FabricRoles& roles);
// "rail-missing", high: a host has fewer rails than most of its unit, or its unit has no leaf for a
// rail that its peers have. Not of such a machine either; and half of them or fewer on three hosts
// and a quarter of the unit are how these were built.
std::vector<FabricFinding> find_missing_rails(const Fabric& fabric, const FabricRoles& roles);
// "link-slower", high: width or speed below those of most links of its kind. A half or a quarter of
// it on three links and a quarter of all is how these are cabled: splitters.
std::vector<FabricFinding> find_slower_links(const Fabric& fabric, const FabricRoles& roles);
// "leaf-uplinks", warning: fewer than most leaves of its pod.
std::vector<FabricFinding> find_weak_leaves(const Fabric& fabric, const FabricRoles& roles);
// "adapter-unnamed", information: a finding for those without a name, and one for those with a name
// that is nobody's.
std::vector<FabricFinding> find_unnamed_adapters(const Fabric& fabric, const FabricRoles& roles);
// "sharp-absent", information: switches that can aggregate, and have no aggregation node.
std::vector<FabricFinding> find_absent_sharp(const Fabric& fabric, const FabricRoles& roles);

// All of these, the most severe first.
std::vector<FabricFinding> audit_fabric(const Fabric& fabric, const FabricRoles& roles);

// "job-unconnected", high: hosts of the job have no way to each other.
std::vector<Finding> find_unconnected_job(const JobSpan& span);
// "job-leaves" and "job-pods", warning: more of them than so many hosts need.
std::vector<Finding> find_spread_job(const JobSpan& span);

// Those of the job's span, and those of the fabric that are about its hosts or its leaves.
std::vector<Finding> audit_job(const FabricRoles& roles, const JobSpan& span,
                               std::span<const uint32_t> hosts,
                               std::span<const FabricFinding> fabric_findings);

}  // namespace mfu

#endif
