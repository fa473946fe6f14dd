// Where a command has its node from: this machine, or a file of hwloc or NCCL.
#ifndef MFU_TOPOLOGY_NODE_SOURCE_HH_
#define MFU_TOPOLOGY_NODE_SOURCE_HH_

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "topology/node_map.hh"

namespace mfu {

inline constexpr uint32_t kNodeSeconds = 20;

struct SourcedNode {
  NodeMap map;
  std::string name;  // this machine's, or the file's path
  bool live = false;
};

// Without a path this machine: another process of this program asks hwloc and is killed when it is
// not done in time (0: kNodeSeconds). A file is hwloc's or NCCL's by its first element.
tl::expected<SourcedNode, std::string> take_node(const std::string& path, uint32_t seconds);

}  // namespace mfu

#endif
