// A node as a job sees it: its GPUs, network adapters, NUMA nodes, and how far they are apart.
// One type, whatever it comes from: hwloc's XML, a capture of sysfs, the live machine by way of a
// child (node_discovery.hh), or NCCL's topology XML (nccl_topology.hh). What changes while a node
// runs is read into it from sysfs (port_state.hh, pcie_link.hh) and from the driver
// (driver_gpus.hh); NVML's word comes with the XML (nvml_section.hh).
#ifndef MFU_TOPOLOGY_NODE_MAP_HH_
#define MFU_TOPOLOGY_NODE_MAP_HH_

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/cpu_set.hh"

namespace mfu {

// nvidia-smi's words, nearest first: the same switch, several switches, the same host bridge, the
// same NUMA node, across NUMA nodes. SYS may still be the same socket: compare packages.
enum class Distance : uint8_t { kSelf, kPix, kPxb, kPhb, kNode, kSys };
// "SELF", "PIX", "PXB", "PHB", "NODE", "SYS".
const char* distance_name(Distance distance);

// 0: unknown, as in virtual machines.
struct PcieLink {
  uint32_t speed_mts = 0;  // a lane's megatransfers a second: 2500 to 64000
  uint32_t width = 0;      // lanes
  uint32_t max_speed_mts = 0;
  uint32_t max_width = 0;
};

inline constexpr uint16_t kNvidia = 0x10de;  // a PCI vendor

struct PciDevice {
  std::string bus_id;      // "0000:4e:00.0", lower case
  uint16_t pci_class = 0;  // 0x0302
  uint16_t vendor = 0;
  uint16_t device = 0;
  int32_t numa = -1;     // os_index of the NUMA node with CPUs; -1: unknown or more than one
  int32_t package = -1;  // os_index of the socket; -1: unknown
  CpuSet cpus;           // nearest ones; empty: unknown
  // Host bridge, equal for devices of the same one; -1: unknown.
  int32_t host_bridge = -1;
  // PCI bridges on the way from the host bridge, the root port first.
  std::vector<std::string> bridges;
  PcieLink link;
};

struct Gpu {
  PciDevice pci;
  std::string name;                   // "cuda0", or the best that is known: "card1", "pci:0000:.."
  std::vector<std::string> os_names;  // of hwloc's OS devices
  int32_t cuda_index = -1;            // by hwloc's CUDA back end or NCCL; -1: unknown
  std::string model;                  // "NVIDIA H100 80GB HBM3"; empty: unknown
  std::string uuid;                   // "GPU-..."; empty: unknown
  bool coherent = false;              // its CPU is behind NVLink-C2C: GH200, GB200
  int32_t minor = -1;                 // N of /dev/nvidiaN; -1: unknown
  uint32_t mig_instances = 0;         // GPU instances that it is cut into
  // GPUs of one NVLink clique reach each other by NVLink, also from node to node (NVL72):
  // "<cluster UUID>.<clique id>". Empty: unknown, or it is in no NVLink fabric beyond the node.
  std::string clique;
  std::string fabric_fault;  // why a GPU of such a fabric has no clique now; empty: none known
};

enum class PortState : uint8_t { kUnknown, kNoState, kDown, kInit, kArmed, kActive };
// "unknown", "NOP", "DOWN", "INIT", "ARMED", "ACTIVE".
const char* port_state_name(PortState state);
// By the number that InfiniBand gives it: 0 NOP, 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE.
PortState port_state_of(uint32_t number);

enum class LinkLayer : uint8_t { kUnknown, kInfiniBand, kEthernet };

inline constexpr uint32_t kNoLid = 0xffff;

struct NicPort {
  uint32_t number = 1;
  PortState state = PortState::kUnknown;
  std::string physical;  // "LinkUp", "Polling", "Disabled"; empty: unknown
  uint32_t lid = 0;      // kNoLid: none assigned; 0 on Ethernet, or unknown
  uint32_t rate_mbps = 0;
  LinkLayer layer = LinkLayer::kUnknown;
};

struct Nic {
  PciDevice pci;     // bus_id is empty for NCCL's virtual ones
  std::string name;  // the RDMA device's ("mlx5_0"), else the network interface's, else the bus id
  std::vector<std::string> os_names;
  bool rdma = false;         // else plain Ethernet, or another network
  uint64_t node_guid = 0;    // 0: none, as EFA has, or unknown
  uint64_t system_guid = 0;  // the same for all functions of a card
  std::vector<NicPort> ports;

  bool active() const;  // a port is ACTIVE
  bool known() const;   // a port's state is known
};

struct NumaNode {
  int32_t os_index = 0;
  CpuSet cpus;
  uint64_t bytes = 0;
  bool gpu_memory = false;  // memory of a GPU, which the operating system shows as a node
};

struct NodeMap {
  std::vector<Gpu> gpus;  // as found: neither PCI order nor CUDA's
  std::vector<Nic> nics;
  std::vector<NumaNode> numa;
  uint32_t packages = 0;
  CpuSet cpus;
  // Of pairs of GPUs, row by row: 1 with NVLink between them, also through an NVSwitch, else 0.
  // Empty: unknown.
  std::vector<uint8_t> nvlinks;
  // PciDevice::bridges names a switch once, as NCCL's files do, not by its upstream and its
  // downstream port.
  bool whole_switches = false;

  bool nvlinked(size_t a, size_t b) const { return nvlinks[a * gpus.size() + b] != 0; }
  // Index by bus id (domains of 4 or 8 digits, any case) or UUID (also its beginning, as CUDA
  // allows), or -1.
  int find_gpu(std::string_view id) const;
  // Index of the NIC of this name, -1 for none.
  int find_nic(std::string_view name) const;
};

Distance distance(const NodeMap& map, const PciDevice& a, const PciDevice& b);

// Whether they are known to be on two sockets; where a socket is unknown, on two NUMA nodes. SYS
// alone is not: a virtual machine shows each device on a PCI domain of its own, near to no CPU.
bool on_two_sockets(const PciDevice& a, const PciDevice& b);

// "0000:4e:00.0" of any spelling of it; empty when it is none.
std::string canonical_bus_id(std::string_view text);

inline constexpr size_t kMostTopologyBytes = 16 << 20;

// From the text of a file that hwloc 2 wrote. Errors begin with `where` and say what to do: of
// hwloc 3's format the version. The text should come from somebody trusted: hwloc checks its
// grammar, little else; the plugin reads only what root wrote. Takes under 10 ms.
tl::expected<NodeMap, std::string> node_map_from_xml(std::string_view text,
                                                     const std::string& where);
// From a file, of at most kMostTopologyBytes and by anybody: a child of ours, by fork, tries it
// first, so that hwloc's crash is an error. For programs with one thread.
tl::expected<NodeMap, std::string> read_node_map(const std::string& path);

// hwloc's discovery of this machine as XML; with a root, of a capture of /sys and /proc under it.
// May hang where a driver does, and sets environment variables: for a process of its own
// (node_discovery.hh).
tl::expected<std::string, std::string> discover_node_xml(const std::string& root = {});

}  // namespace mfu

#endif
