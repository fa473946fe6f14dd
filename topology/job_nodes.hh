// The nodes of a job, by asking Slurm's own commands: this floor is not linked with Slurm.
#ifndef MFU_TOPOLOGY_JOB_NODES_HH_
#define MFU_TOPOLOGY_JOB_NODES_HH_

#include <chrono>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/fabric_roles.hh"
#include "topology/slurm_nodes.hh"

namespace mfu {

// "12", an array's task "12_3", a part of a heterogeneous job "12+1".
bool is_job_id(std::string_view text);

// Of a running job by squeue, of a finished one by sacct; sorted. Each has `limit`. Errors say what
// to do.
tl::expected<std::vector<std::string>, std::string> job_nodes(const std::string& job,
                                                              std::chrono::milliseconds limit);

// Indices into FabricRoles::hosts, found under name_of() as HostNames does.
struct PlacedHosts {
  std::vector<uint32_t> hosts;
  std::vector<std::string> absent;  // nodes that are none of the fabric's hosts
};
PlacedHosts find_hosts_of(const FabricRoles& roles, const NameMap& names,
                          const std::vector<std::string>& nodes);

}  // namespace mfu

#endif
