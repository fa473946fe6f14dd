// The ports of a node's RDMA adapters as they are now.
#ifndef MFU_TOPOLOGY_PORT_STATE_HH_
#define MFU_TOPOLOGY_PORT_STATE_HH_

#include <string>

#include "topology/node_map.hh"

namespace mfu {

// Reads state, physical state, LID, rate and link layer of every port from
// /sys/class/infiniband/NAME/ports below `root` ("" or a capture). An adapter that is not there has
// no ports afterwards: whatever a file of hwloc said is what was so when it was written. Of one
// that NCCL's files have under several names, the functions of a card, those of all.
void read_port_states(const std::string& root, NodeMap* map);

}  // namespace mfu

#endif
