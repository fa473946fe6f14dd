// NVML asked by another process of this program: it may hang where hwloc does not.
#ifndef MFU_TOPOLOGY_NVML_COMMAND_HH_
#define MFU_TOPOLOGY_NVML_COMMAND_HH_

#include <chrono>
#include <string>

#include "topology/node_map.hh"

namespace mfu {

// Of `mfu-topo show --xml`, for mfu-topo step, which gives the whole discovery no more than 1500 ms
// and forgets hwloc's part with it: NVML may take 900 ms, and less where hwloc has taken so long
// that 1200 would be over. The rest is for starting and for ending (child_output.hh). 0: none is
// left.
std::chrono::milliseconds nvml_limit(std::chrono::milliseconds taken);

// What NVML tells of the map's GPUs of NVIDIA, as the text of nvml_section.hh; empty when it does
// not in time, and it is not asked when there is none.
std::string nvml_section(const NodeMap& map, std::chrono::milliseconds limit);

// The command line of that process, `mfu-topo nvml BUS-ID...`: prints the section. 0, 1 (the
// output).
int answer_nvml(int argc, char** argv);

}  // namespace mfu

#endif
