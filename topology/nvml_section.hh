// What NVML told of a node's GPUs, as a comment behind hwloc's XML: so it is kept with it, whoever
// reads the XML alone is not disturbed, and XML without it is as good as before.
//   <!-- mfu-nvml
//   0000:1b:00.0 uuid=GPU-... minor=0 clique=CLUSTER.ID fault=in-progress nvlinks=0000:2b:00.0,...
//   -->
// A key that is not known is left out; nvlinks=none: it has none. mig=on: it is in MIG mode.
#ifndef MFU_TOPOLOGY_NVML_SECTION_HH_
#define MFU_TOPOLOGY_NVML_SECTION_HH_

#include <string>
#include <string_view>
#include <vector>

#include "topology/node_map.hh"
#include "topology/nvml_links.hh"

namespace mfu {

// Empty when there are no GPUs.
std::string write_nvml_section(const std::vector<NvmlGpu>& gpus);

// Fills in UUID, minor number, clique and fault of the map's GPUs, and NodeMap::nvlinks where those
// of all GPUs of NVIDIA are told. Where one is in MIG mode NodeMap::nvlinks becomes unknown: what
// hwloc found was found in that mode too. Lines and values that make no sense are left out: the
// file may be anybody's.
void read_nvml_section(std::string_view text, NodeMap* map);

// What it knows may change without a boot, or there is more to be known: NVLink partitions are
// made and unmade, NVML may have been too slow, and a GPU may leave MIG mode.
bool nvml_section_ages(const NodeMap& map);

}  // namespace mfu

#endif
