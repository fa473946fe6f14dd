// The PCIe links of a node's devices as they are now.
#ifndef MFU_TOPOLOGY_PCIE_LINK_HH_
#define MFU_TOPOLOGY_PCIE_LINK_HH_

#include <cstdint>
#include <string>
#include <string_view>

#include "topology/node_map.hh"

namespace mfu {

// Of sysfs's or NCCL's "32.0 GT/s PCIe", in megatransfers a second; 0 for anything else.
uint32_t pcie_speed_of(std::string_view text);
// "32 GT/s x16"; "?" for what is unknown.
std::string pcie_text(uint32_t speed_mts, uint32_t width);

// Reads every device's link from sysfs below `root` ("" or a capture). The maximum is that of both
// ends: a card of generation 5 in a slot of generation 4 has nothing wrong. What sysfs does not
// say becomes 0, also what a file of hwloc said: that is what the link was when it was written.
void read_pcie_links(const std::string& root, NodeMap* map);

}  // namespace mfu

#endif
