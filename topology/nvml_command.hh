// NVML asked by another process of this program: it may hang where hwloc does not.
#ifndef MFU_TOPOLOGY_NVML_COMMAND_HH_
#define MFU_TOPOLOGY_NVML_COMMAND_HH_

#include <chrono>
#include <string>

#include "topology/node_map.hh"

namespace mfu {

// Less than mfu-topo step has for the whole discovery.
inline constexpr std::chrono::milliseconds kNvmlLimit{900};

// What NVML tells of the map's GPUs of NVIDIA, as the text of nvml_section.hh; empty when it does
// not in time.
std::string nvml_section(const NodeMap& map, std::chrono::milliseconds limit);

// The command line of that process, `mfu-topo nvml BUS-ID...`: prints the section. 0, 1 (the
// output).
int answer_nvml(int argc, char** argv);

}  // namespace mfu

#endif
