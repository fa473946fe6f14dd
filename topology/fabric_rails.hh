// Which rail of its unit a leaf is.
//
// The device that most hosts have on a leaf tells its rail, and all units count by one list of
// devices: a unit that lacks the leaf of mlx5_4 has rails 0, 1 and 3 where its peers have 0 to 3.
// One host whose devices are named in another order, or whose cables are swapped, changes nothing.
#ifndef MFU_TOPOLOGY_FABRIC_RAILS_HH_
#define MFU_TOPOLOGY_FABRIC_RAILS_HH_

#include "topology/fabric_roles.hh"

namespace mfu {

// Fills device and rail of leaves, rails of hosts' ports and of the whole; orders a unit's leaves
// and a host's ports by them. Units must be known.
void find_rails(const Fabric& fabric, FabricRoles* roles);

}  // namespace mfu

#endif
