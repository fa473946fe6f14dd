#include "topology/driver_gpus.hh"

#include <dirent.h>

#include <charconv>

#include "topology/node_file.hh"

namespace mfu {
namespace {

constexpr size_t kMostValue = 96;

// Of "Model: \t\t NVIDIA H100 80GB HBM3"; empty when the key is not there.
std::string value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(key)) continue;
    const size_t begin = line.find_first_not_of(" \t", key.size());
    if (begin == std::string_view::npos) return {};
    return std::string(line.substr(begin, kMostValue));
  }
  return {};
}

uint32_t instances_in(const std::string& folder) {
  uint32_t count = 0;
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return 0;
  while (const dirent* entry = readdir(open)) {
    if (std::string_view(entry->d_name).starts_with("gi")) ++count;
  }
  closedir(open);
  return count;
}

}  // namespace

void read_driver_gpus(const std::string& root, NodeMap* map) {
  const std::string driver = root + "/proc/driver/nvidia/";
  for (Gpu& gpu : map->gpus) {
    const std::string text = read_attribute(driver + "gpus/" + gpu.pci.bus_id + "/information");
    if (text.empty()) continue;
    if (const std::string model = value_of(text, "Model:"); !model.empty()) gpu.model = model;
    // Question marks until somebody has opened the GPU.
    const std::string uuid = value_of(text, "GPU UUID:");
    if (!uuid.empty() && uuid.find('?') == std::string::npos) gpu.uuid = uuid;
    const std::string minor = value_of(text, "Device Minor:");
    std::from_chars(minor.data(), minor.data() + minor.size(), gpu.minor);
    if (gpu.minor < 0) continue;
    gpu.mig_instances =
        instances_in(driver + "capabilities/gpu" + std::to_string(gpu.minor) + "/mig");
  }
}

}  // namespace mfu
