// What the parts of a fabric are for: hosts, leaves, rails, units, pods.
//
//   island   what no link joins to the rest
//   pod      leaves that are joined by links of leaves (below the core; a Dragonfly group) or by a
//            unit; in a fabric without core switches that is the island
//   unit     leaves that serve the same hosts, one for each rail ("scalable unit"); where all
//            adapters of a host go to one leaf, a unit is that leaf
//   rail     number of a leaf within its unit, comparable between units
//
// Leaves are joined into a unit by overlap, so that a host with a missing rail or a stray cable
// neither splits a unit nor joins two.
#ifndef MFU_TOPOLOGY_FABRIC_ROLES_HH_
#define MFU_TOPOLOGY_FABRIC_ROLES_HH_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "topology/fabric.hh"

namespace mfu {

inline constexpr uint32_t kNoIndex = UINT32_MAX;

// Names from outside: NodeGUID -> Slurm node name. They win over descriptions, and who has one is
// a host.
using NodeNames = std::unordered_map<uint64_t, std::string>;

enum class AdapterRole : uint8_t {
  kNone,         // a switch or a router
  kHost,         // of a host that has a name
  kUnnamed,      // of a host that is not known: no name, a name of the installer ("localhost"), or
                 // one that two machines have
  kService,      // of a machine that runs the fabric: UFM, a subnet manager
  kAggregation,  // SHARP's aggregation node, inside a switch
};

// A linked port of a host.
struct HostPort {
  uint32_t adapter = 0;  // index into Fabric::nodes
  uint32_t port = 0;     // its number
  uint32_t leaf = 0;     // index into FabricRoles::leaves
  uint32_t leaf_port = 0;
  uint32_t rail =
      kNoIndex;  // the leaf's; where leaves have none, by the order of the host's devices
};

struct FabricHost {
  std::string name;          // Slurm's where given, else from the description
  bool slurm_name = false;   // given from outside
  uint32_t unit = kNoIndex;  // that most of its ports are in; none: no port is linked to a leaf
  std::vector<uint32_t> adapters;  // indices into Fabric::nodes, in its order
  std::vector<HostPort> ports;     // those linked to a leaf, by rail and leaf
};

struct FabricLeaf {
  uint32_t node = 0;  // index into Fabric::nodes
  uint32_t unit = 0;
  uint32_t rail = kNoIndex;  // within the unit, from 0; none: its ports are of several rails
  std::string device;        // that most of its hosts have here: "mlx5_4"; empty: no majority
  uint32_t host_ports = 0;   // its ports to adapters of hosts, unnamed ones included
  uint32_t uplinks = 0;      // its ports to other switches
};

struct FabricUnit {
  std::vector<uint32_t> leaves;  // indices into FabricRoles::leaves, by rail
  std::vector<uint32_t> hosts;   // indices into FabricRoles::hosts, in the hosts' order
  uint32_t pod = 0;
  uint32_t rails =
      0;  // that it counts by: more than its leaves if its peers have one that it lacks
};

struct FabricPod {
  std::vector<uint32_t> units;
  uint32_t island = 0;
};

struct FabricRoles {
  std::vector<AdapterRole> adapters;  // of each node of the fabric
  std::vector<std::string> devices;   // of each node: "mlx5_4" (also for "HCA-5"), empty if unknown
  std::vector<uint32_t> levels;  // of each node: 0 no switch, or no way to a leaf; 1 leaf, 2 spine,
                                 // 3 and above core: links to the nearest leaf, plus 1
  std::vector<uint32_t> leaf_of;  // of each node: index into leaves, or kNoIndex
  std::vector<uint32_t> host_of;  // of each node: index into hosts, or kNoIndex
  std::vector<FabricHost> hosts;  // by name, numbers in it by value: node9, node10
  std::vector<FabricHost> service_hosts;
  std::vector<FabricLeaf> leaves;  // in the fabric's order
  std::vector<FabricUnit> units;   // by their first host; without hosts last
  std::vector<FabricPod> pods;     // by their first unit
  uint32_t islands = 0;            // that have a leaf; they are numbered from 0 in the pods' order
  uint32_t rails = 0;              // of the unit that has most

  // Index by name, or kNoIndex.
  uint32_t find_host(const std::string& name) const {
    const auto found = host_by_name.find(name);
    return found == host_by_name.end() ? kNoIndex : found->second;
  }
  std::unordered_map<std::string, uint32_t> host_by_name;
};

// Two leaves are of one unit if they share more than `overlap` of the hosts of the smaller one.
FabricRoles find_roles(const Fabric& fabric, const NodeNames& names = {}, double overlap = 0.5);

}  // namespace mfu

#endif
