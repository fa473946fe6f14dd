#include "topology/nvml_command.hh"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "topology/nvml_section.hh"
#include "topology/program_output.hh"

namespace mfu {
namespace {

constexpr size_t kMostText = 1 << 20;

}  // namespace

std::chrono::milliseconds nvml_limit(std::chrono::milliseconds taken) {
  constexpr std::chrono::milliseconds kNone{0}, kNvml{900}, kBoth{1200};
  return std::clamp(kBoth - taken, kNone, kNvml);
}

std::string nvml_section(const NodeMap& map, std::chrono::milliseconds limit) {
  if (limit <= limit.zero()) return {};
  std::vector<std::string> command = {own_program(), "nvml"};
  for (const Gpu& gpu : map.gpus) {
    if (gpu.pci.vendor == kNvidia) command.push_back(gpu.pci.bus_id);
  }
  if (command.size() == 2) return {};
  return program_output(command, limit, kMostText).value_or("");
}

int answer_nvml(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::cout << write_nvml_section(ask_nvml({argv + 1, argv + argc}));
  return std::cout.flush() ? 0 : 1;
}

}  // namespace mfu
