#include "topology/program_output.hh"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "topology/child_output.hh"

namespace mfu {
namespace {

constexpr char kSetter[] = "/usr/bin/env";
// Not all of them: arguments of a process can be read by everybody. The last three are those of
// ibsim, the simulator of fabrics.
constexpr const char* kVariables[] = {"SLURM_CONF", "LD_LIBRARY_PATH", "LD_PRELOAD",
                                      "IBSIM_SOCKNAME", "SIM_HOST"};

}  // namespace

tl::expected<std::string, std::string> program_output(const std::vector<std::string>& command,
                                                      std::chrono::milliseconds limit,
                                                      size_t most) {
  std::vector<std::string> whole;
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    if (value != nullptr) whole.push_back(std::string(name) + "=" + value);
  }
  if (!whole.empty()) whole.insert(whole.begin(), kSetter);
  whole.insert(whole.end(), command.begin(), command.end());
  auto output = child_output(whole, limit, most);
  if (output) return output;
  // The error names the program, not who started it.
  std::string reason = output.error();
  if (whole.size() > command.size() && reason.starts_with(kSetter)) {
    reason = command[0] + reason.substr(sizeof kSetter - 1);
  }
  return tl::unexpected(std::move(reason));
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : std::string();
}

std::string find_program(const std::string& name) {
  const char* told = std::getenv("PATH");
  std::string_view folders = told == nullptr ? "/usr/bin:/bin" : told;
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string folder(folders.substr(0, end));
    folders.remove_prefix(std::min(end + 1, folders.size()));
    if (!folder.starts_with("/")) continue;
    std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

}  // namespace mfu
