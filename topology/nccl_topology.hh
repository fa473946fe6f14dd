// NCCL's topology XML: what NCCL_TOPO_DUMP_FILE writes, and the files that clouds ship because
// their virtual machines hide the PCI tree.
#ifndef MFU_TOPOLOGY_NCCL_TOPOLOGY_HH_
#define MFU_TOPOLOGY_NCCL_TOPOLOGY_HH_

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "topology/node_map.hh"

namespace mfu {

// <system> of <cpu> of nested <pci>, some with <gpu> or <nic>. Any bytes are safe: at most
// kMostTopologyBytes, 32 levels of PCI, 4,096 devices, and every number is checked. Errors begin
// with `where`.
//
// The files know of no host bridges: devices of the same CPU are PHB apart, as NCCL itself says.
// A <pci> without a class (AWS p5) is a NIC when it holds nothing. An RCCL file counts <xgmi> as
// NVLink.
tl::expected<NodeMap, std::string> parse_nccl_topology(std::string_view text,
                                                       const std::string& where);
tl::expected<NodeMap, std::string> read_nccl_topology(const std::string& path);

}  // namespace mfu

#endif
