// Which GPUs of a node a job step and its tasks have.
#ifndef MFU_TOPOLOGY_STEP_GPUS_HH_
#define MFU_TOPOLOGY_STEP_GPUS_HH_

#include <cstddef>
#include <string>
#include <vector>

#include "topology/node_audit.hh"

namespace mfu {

// Indices into NodeMap::gpus, in the task's order; what is not found is left out.
std::vector<size_t> seen_gpus(const NodeMap& map, const TaskPlacement& task);
// Those that it computes on: what it sees, but where all tasks of the node see the same ones, as
// many as there are tasks, that of its local rank, as all frameworks have it.
std::vector<size_t> used_gpus(const NodeMap& map, const StepPlacement& step,
                              const TaskPlacement& task);
// Of the step in order of bus ids, as far as its tasks' are known; all of the node when it has no
// tasks.
std::vector<size_t> step_gpus(const NodeMap& map, const StepPlacement& step);
// The same with those that Slurm gave it and no task sees.
std::vector<size_t> owned_gpus(const NodeMap& map, const StepPlacement& step);
// There are tasks, and each of them sees GPUs of the map and no others.
bool all_gpus_known(const NodeMap& map, const StepPlacement& step);
// There are tasks, and of one of them that is not so: what all of the step's GPUs have in common is
// unknown.
bool some_gpus_unknown(const NodeMap& map, const StepPlacement& step);

// "cuda2", or the bus id where it has no name of its own.
std::string short_name(const Gpu& gpu);
// "node7 cuda2 0000:cb:00.0".
std::string place_of(const StepPlacement& step, const Gpu& gpu);
std::string place_of(const StepPlacement& step, const Nic& nic);
// "node7 rank 3".
std::string place_of(const StepPlacement& step, const TaskPlacement& task);
// "NUMA 7, socket 1"; what is unknown is left out.
std::string where_is(const PciDevice& pci);
// "a, b and 3 more" of many.
std::string listed(const std::vector<std::string>& names, const char* separator = ", ");

}  // namespace mfu

#endif
