#include "tests/fake/gpu_model.hh"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace mfu::fake {
namespace {

struct Chip {
  std::string_view mark;  // part of the device name
  int sm_count;
  int major;
  int minor;
  int clock_khz;
  uint64_t memory_gib;
};

// Vendor's data sheets. The first whose mark is in the name counts; the last one fits all.
constexpr Chip kChips[] = {
    {"H100", 132, 9, 0, 1980000, 80},   {"H200", 132, 9, 0, 1980000, 141},
    {"B200", 148, 10, 0, 1965000, 180}, {"B300", 148, 10, 3, 2032000, 270},
    {"A100", 108, 8, 0, 1410000, 80},   {"V100", 80, 7, 0, 1530000, 32},
    {"", 46, 7, 5, 1590000, 16},
};

std::string text_of(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

std::string node_name() {
  if (const char* name = std::getenv("SLURMD_NODENAME")) return name;
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return host;
}

// Physical indices of the visible devices. As with the real driver the first entry that is no
// device ends the list; an entry that is a UUID stands for its position.
std::vector<int> visible_indices(const std::string& list) {
  std::vector<int> indices;
  for (size_t at = 0; at < list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string entry = list.substr(at, comma - at);
    at = comma + 1;
    if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
      indices.push_back(static_cast<int>(indices.size()));
      continue;
    }
    char* end = nullptr;
    long index = std::strtol(entry.c_str(), &end, 10);
    if (entry.empty() || *end != '\0' || index < 0) break;
    indices.push_back(static_cast<int>(index));
  }
  return indices;
}

uint64_t mix(uint64_t value) {  // splitmix64's finalizer
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

CUuuid GpuModel::uuid() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : node_name()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  uint64_t halves[2] = {mix(hash + static_cast<uint64_t>(physical)),
                        mix(hash ^ ~static_cast<uint64_t>(physical))};
  CUuuid uuid;
  static_assert(sizeof(uuid) == sizeof(halves));
  std::memcpy(&uuid, halves, sizeof(uuid));
  return uuid;
}

std::vector<GpuModel> visible_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> indices = visible != nullptr ? visible_indices(visible) : std::vector<int>{0};
  if (const char* count = std::getenv("FAKE_CUDA_DEVICES")) {
    size_t wanted = std::strtoul(count, nullptr, 10);
    while (indices.size() < wanted) indices.push_back(static_cast<int>(indices.size()));
    indices.resize(wanted);
  }
  std::string name = text_of("FAKE_CUDA_DEVICE_NAME", "NVIDIA H100 80GB HBM3");
  const Chip* chip = kChips;
  while (name.find(chip->mark) == std::string::npos) ++chip;

  std::vector<GpuModel> gpus;
  gpus.reserve(indices.size());
  for (int index : indices) {
    gpus.push_back({name, index, chip->sm_count, chip->major, chip->minor, chip->clock_khz,
                    chip->memory_gib << 30});
  }
  return gpus;
}

}  // namespace mfu::fake
