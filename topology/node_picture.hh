// A node for people's eyes: as text, as an SVG, and as JSON for their scripts.
#ifndef MFU_TOPOLOGY_NODE_PICTURE_HH_
#define MFU_TOPOLOGY_NODE_PICTURE_HH_

#include <cstddef>
#include <string>
#include <vector>

#include "topology/node_map.hh"

namespace mfu {

// Indices of NodeMap::gpus by CUDA's numbers where all are known, else by bus id.
std::vector<size_t> gpu_order(const NodeMap& map);
// Indices of NodeMap::nics: those with RDMA first, each kind by name, numbers in it by value.
std::vector<size_t> nic_order(const NodeMap& map);

// By index of NodeMap::gpus and nics: short_name and name; "GPU0" and "NIC0" by the orders above
// for those that have no name but their bus id, as nvidia-smi calls them.
std::vector<std::string> gpu_labels(const NodeMap& map);
std::vector<std::string> nic_labels(const NodeMap& map);

// "ACTIVE 400 Gb/s InfiniBand", "DOWN (Polling)"; "unknown" without ports. Several ports are
// separated by "; ".
std::string ports_text(const Nic& nic);
// "ACTIVE", "DOWN" or "unknown", of all its ports together.
const char* nic_state(const Nic& nic);

// The matrix of GPUs with GPUs and RDMA adapters in nvidia-smi's words, then each GPU, adapter and
// NUMA node. `name` is the node's or a file's. Lines have at most `columns` characters where the
// names allow it: a wide matrix is told in several parts.
std::string draw_node(const NodeMap& map, const std::string& name, size_t columns);

// A self-contained SVG: sockets with their NUMA nodes, PCIe switches, GPUs and adapters.
std::string draw_node_svg(const NodeMap& map, const std::string& name);

// {"node": NAME, "sockets": N, "cpus": "0-127", "numa": [...], "gpus": [...], "nics": [...]}, what
// is unknown is null.
std::string node_json(const NodeMap& map, const std::string& name);

}  // namespace mfu

#endif
