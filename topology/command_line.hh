// What the commands of mfu-topo have in common: options, --help, errors and exit statuses.
#ifndef MFU_TOPOLOGY_COMMAND_LINE_HH_
#define MFU_TOPOLOGY_COMMAND_LINE_HH_

#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace mfu {

// Thrown by a command.
struct WrongUsage {
  std::string text;
};
struct CommandFailed {
  std::string text;
};

template <typename Value>
Value value_or_fail(tl::expected<Value, std::string> value, const std::string& where = "") {
  if (!value) throw CommandFailed{where + value.error()};
  return std::move(*value);
}

struct CommandForm {
  const char* name;          // "show"
  const char* introduction;  // for --help, above the options
  int failed = 1;            // exit statuses
  int usage = 2;
  std::vector<std::string>* words = nullptr;  // takes those beside options; null: none are allowed
};

// Parses argv (argv[0] is the command's name) into `shown`, to which it adds --help, and runs.
// Messages go to standard error as "mfu-topo NAME: what".
int run_command(int argc, char** argv, const CommandForm& form,
                boost::program_options::options_description* shown,
                const std::function<int()>& run);

}  // namespace mfu

#endif
