// Which of a node's network adapters carry the traffic between GPUs.
#ifndef MFU_TOPOLOGY_NIC_ROLES_HH_
#define MFU_TOPOLOGY_NIC_ROLES_HH_

#include <cstddef>
#include <string>
#include <vector>

#include "topology/node_map.hh"

namespace mfu {

enum class NicRole : uint8_t {
  kNone,      // no RDMA
  kCompute,   // the nearest, or one of them, to a GPU of the same NUMA node or nearer
  kStorage,   // RDMA, but near to no GPU while others are; or the site says so
  kEthernet,  // RDMA over Ethernet, beside InfiniBand that is for computing: BlueField, in-band
};

// By index of NodeMap::nics. Where no adapter is near to any GPU, all with RDMA are for computing.
// One without an InfiniBand port is kEthernet where another one with such a port is near to a GPU,
// unless it shares a PCIe switch with a GPU itself, as the RoCE adapters for computing of a node do
// whose InfiniBand is its storage's. Of what has no ports, nothing is known.
std::vector<NicRole> nic_roles(const NodeMap& map, const std::vector<std::string>& storage_nics);

// Indices of those with the role.
std::vector<size_t> nics_with(const std::vector<NicRole>& roles, NicRole role);

// The nearest of `from` to a GPU, all that are as near; none: no such. Indices of NodeMap::nics.
struct NearestNics {
  Distance distance = Distance::kSys;
  std::vector<size_t> nics;
};
NearestNics nearest_nics(const NodeMap& map, const Gpu& gpu, const std::vector<size_t>& from);

// "mlx5_0, mlx5_3".
std::string nic_names(const NodeMap& map, const std::vector<size_t>& nics);

}  // namespace mfu

#endif
