// The node we run on. hwloc's discovery asks drivers and has hung inside slurmstepd at other sites,
// so it is done by another program (mfu-topo show --xml) with a time limit, and what that says is
// kept in a file until the machine changes.
#ifndef MFU_TOPOLOGY_NODE_DISCOVERY_HH_
#define MFU_TOPOLOGY_NODE_DISCOVERY_HH_

#include <chrono>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "topology/node_map.hh"

namespace mfu {

struct NodeDiscovery {
  // Prints hwloc's XML, with NVML's section behind it (nvml_section.hh). By its path.
  std::vector<std::string> command = {"/usr/local/bin/mfu-topo", "show", "--xml"};
  std::chrono::milliseconds limit{5000};
  // In a folder that only we can write to. A file there is believed if it is ours and nobody else
  // can write it. Empty: none.
  std::string cache;
  // A failure is kept too, in CACHE.failed, and not tried again for as long: a driver that hangs
  // delays one job step, not each. What NVML tells of NVLink partitions, or has not told yet, is
  // asked for again after as long, and forgotten where that fails (nvml_section_ages()).
  std::chrono::seconds retry{3600};
  std::string root;  // where /sys and /proc lie, "" or a capture's
};

// From the cache, or by the command and then kept. Port states, PCIe links and the driver's names
// are always those of now. Errors say what to do. With a good cache it takes as long as reading the
// XML, under 10 ms, and about 20 small files a device.
tl::expected<NodeMap, std::string> discover_node(const NodeDiscovery& discovery);

// What a cache holds for: the boot, the PCI tree, the RDMA devices' names and the CPUs that are
// online. Printable, without "--".
std::string node_key(const std::string& root);

}  // namespace mfu

#endif
