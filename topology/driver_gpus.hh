// What NVIDIA's kernel driver says of its GPUs in /proc, without NVML.
#ifndef MFU_TOPOLOGY_DRIVER_GPUS_HH_
#define MFU_TOPOLOGY_DRIVER_GPUS_HH_

#include <string>

#include "topology/node_map.hh"

namespace mfu {

// Fills in model, UUID, minor number and MIG instances, as far as they are told, from
// /proc/driver/nvidia below `root` ("" or a capture). Leaves the others as they are.
void read_driver_gpus(const std::string& root, NodeMap* map);

}  // namespace mfu

#endif
