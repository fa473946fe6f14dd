// Command lines of mfu-peak and mfu-overlap: getopt_long, and numbers that are checked. The
// programs run where nothing but CUDA is installed, so Boost's parser would not do.
#ifndef MFU_KERNELS_COMMAND_LINE_HH_
#define MFU_KERNELS_COMMAND_LINE_HH_

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mfu {

// What the user got wrong: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Option {
  const char* name;      // "size" for --size
  const char* argument;  // "N"; nullptr: takes none
  const char* help;
  std::function<void(std::string_view value)> take;
};

// Takes all of them; --help and --version print to stdout and end the process. Throws UsageError
// for anything else.
void take_options(int argc, char** argv, const char* about, std::span<const Option> options);

// Throws UsageError unless all of the text is one within the limits.
double number_of(std::string_view text, double least, double most);
uint64_t whole_number_of(std::string_view text, uint64_t least, uint64_t most);
std::vector<std::string_view> split(std::string_view text, char separator);

// The program's main: runs `body` and turns what it throws into "NAME: what" on stderr and exit
// code 2 for a UsageError, 1 for the rest.
int run_program(const char* name, const std::function<int()>& body);

}  // namespace mfu

#endif
