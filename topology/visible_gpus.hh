// The GPUs that a task sees: what it can open, and what its environment says of that.
#ifndef MFU_TOPOLOGY_VISIBLE_GPUS_HH_
#define MFU_TOPOLOGY_VISIBLE_GPUS_HH_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/node_map.hh"

namespace mfu {

// Indices into NodeMap::gpus, in PCI order. CUDA counts from 0 among those that a task can open,
// whatever their numbers on the node are.
using GpuSet = std::vector<size_t>;

GpuSet all_gpus(const NodeMap& map);
// By their numbers in SLURM_STEP_GPUS or SLURM_JOB_GPUS: places in PCI order, as gres.conf lists
// them. None where there is no list, or where the driver counts in another order than the bus: then
// both may be meant.
std::optional<GpuSet> gpus_by_place(const NodeMap& map, std::string_view list);
// By the numbers N of /dev/nvidiaN. None where one of them is no GPU of the map.
std::optional<GpuSet> gpus_by_minor(const NodeMap& map, const CpuSet& minors);

// Bus ids (or "MIG-..." as they are) in the order of CUDA's device numbers, for
// TaskPlacement::gpus. `openable` is what the task can open; nullopt: unknown, and so are all but
// those that are named by their UUIDs. `devices` is CUDA_VISIBLE_DEVICES, as CUDA reads it: numbers
// among the openable ones, beginnings of UUIDs, and nothing behind the first one that is wrong;
// nullopt: not set, all. GPUs of one model are in PCI order; of several models CUDA's order is
// unknown, and so is the answer, unless `pci_order` (CUDA_DEVICE_ORDER=PCI_BUS_ID) or the UUIDs say
// it.
std::vector<std::string> visible_gpus(const NodeMap& map, const std::optional<GpuSet>& openable,
                                      std::optional<std::string_view> devices, bool pci_order);

}  // namespace mfu

#endif
