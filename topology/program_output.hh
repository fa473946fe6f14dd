// What another program of the user's prints: Slurm's commands, or this one.
#ifndef MFU_TOPOLOGY_PROGRAM_OUTPUT_HH_
#define MFU_TOPOLOGY_PROGRAM_OUTPUT_HH_

#include <chrono>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace mfu {

// As child_output, but with those of our variables that such a program needs to find its libraries
// and its cluster.
tl::expected<std::string, std::string> program_output(const std::vector<std::string>& command,
                                                      std::chrono::milliseconds limit, size_t most);

// The path of this program.
std::string own_program();
// The path of a program by PATH's absolute folders; empty: there is none.
std::string find_program(const std::string& name);

}  // namespace mfu

#endif
