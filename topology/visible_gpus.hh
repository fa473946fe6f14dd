// The GPUs that a task sees, by its environment.
#ifndef MFU_TOPOLOGY_VISIBLE_GPUS_HH_
#define MFU_TOPOLOGY_VISIBLE_GPUS_HH_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/node_map.hh"

namespace mfu {

// Bus ids (or "MIG-..." as they are) in the order of CUDA's device numbers, for
// TaskPlacement::gpus. `devices` is CUDA_VISIBLE_DEVICES, as CUDA reads it: numbers, beginnings of
// UUIDs, and nothing behind the first one that is wrong; nullopt: not set, all. `allocated` is
// SLURM_STEP_GPUS or SLURM_JOB_GPUS: numbers in PCI order; empty: unknown, all. `confined`
// says that the task can open those only (ConstrainDevices=yes in cgroup.conf): CUDA then counts
// from 0 among them. GPUs of one model are in PCI order; of several models CUDA's order is unknown,
// and so is the answer, unless `pci_order` (CUDA_DEVICE_ORDER=PCI_BUS_ID) or the UUIDs say it.
std::vector<std::string> visible_gpus(const NodeMap& map, std::optional<std::string_view> devices,
                                      std::string_view allocated, bool confined, bool pci_order);

}  // namespace mfu

#endif
