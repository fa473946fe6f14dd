// What a program prints, within limits of time and size.
#ifndef MFU_TOPOLOGY_CHILD_OUTPUT_HH_
#define MFU_TOPOLOGY_CHILD_OUTPUT_HH_

#include <chrono>
#include <cstddef>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace mfu {

// Runs command[0], a path, with nothing but our standard streams' places (its input and errors are
// /dev/null), a clean environment and a process group of its own, and returns its standard output.
// An error when it cannot be started, fails, prints more than `most` bytes, or is not done in time;
// then the whole group is killed. Comes back within `limit` and a fifth of a second, also when the
// kernel does not let go of the child: such a one is left behind. Safe in a program with threads,
// and in one that reaps all children itself.
tl::expected<std::string, std::string> child_output(const std::vector<std::string>& command,
                                                    std::chrono::milliseconds limit, size_t most);

}  // namespace mfu

#endif
