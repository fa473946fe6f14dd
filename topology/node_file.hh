// Small files of this floor: a topology that somebody wrote, an attribute of sysfs.
#ifndef MFU_TOPOLOGY_NODE_FILE_HH_
#define MFU_TOPOLOGY_NODE_FILE_HH_

#include <cstddef>
#include <string>
#include <tl/expected.hpp>

namespace mfu {

// The whole text of a regular file of at most `most` bytes. Errors name the path and the reason.
// Never waits: a pipe or a device is refused, not read.
tl::expected<std::string, std::string> read_node_file(const std::string& path, size_t most);

// An attribute of sysfs or procfs, without the newline behind it; empty when it is not there or
// cannot be read.
std::string read_attribute(const std::string& path);

}  // namespace mfu

#endif
