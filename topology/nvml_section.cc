#include "topology/nvml_section.hh"

#include <algorithm>
#include <charconv>

namespace mfu {
namespace {

constexpr std::string_view kBegin = "\n<!-- mfu-nvml\n";
constexpr std::string_view kEnd = "-->\n";
constexpr std::string_view kNone = "none";
constexpr size_t kMostGpus = 1024;  // no node has more, and a hostile file would cost their square

// Cuts the part before `separator` off.
std::string_view next_of(std::string_view* text, char separator) {
  const std::string_view part = text->substr(0, text->find(separator));
  text->remove_prefix(std::min(part.size() + 1, text->size()));
  return part;
}

// UUIDs, cliques and faults.
bool is_plain(std::string_view value) {
  constexpr size_t kMost = 96;
  return value.size() <= kMost && std::all_of(value.begin(), value.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '.';
         });
}

// Of the GPU at `index`; a row of NodeMap::nvlinks goes to `row`.
void read_value(std::string_view key, std::string_view value, size_t index, NodeMap* map,
                std::vector<uint8_t>* row) {
  Gpu& gpu = map->gpus[index];
  std::string* text = key == "uuid"     ? &gpu.uuid
                      : key == "clique" ? &gpu.clique
                      : key == "fault"  ? &gpu.fabric_fault
                                        : nullptr;
  if (text != nullptr && is_plain(value)) *text = value;
  if (key == "minor") {
    int32_t minor = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), minor);
    if (error == std::errc() && end == value.data() + value.size() && minor >= 0) gpu.minor = minor;
  }
  if (key != "nvlinks") return;
  row->assign(map->gpus.size(), 0);
  while (!value.empty() && value != kNone) {
    const int other = map->find_gpu(next_of(&value, ','));
    if (other >= 0 && static_cast<size_t>(other) != index) (*row)[static_cast<size_t>(other)] = 1;
  }
}

}  // namespace

std::string write_nvml_section(const std::vector<NvmlGpu>& gpus) {
  if (gpus.empty()) return {};
  std::string text(kBegin);
  const auto add = [&text](const char* key, const std::string& value) {
    // "--" would end the comment.
    if (!value.empty() && value.find("--") == value.npos) {
      text.append(" ").append(key).append("=").append(value);
    }
  };
  for (const NvmlGpu& gpu : gpus) {
    text += gpu.bus_id;
    add("uuid", gpu.uuid);
    if (gpu.minor >= 0) add("minor", std::to_string(gpu.minor));
    add("clique", gpu.clique);
    add("fault", gpu.fabric_fault);
    if (gpu.mig) add("mig", "on");
    if (gpu.nvlinked) {
      std::string list;
      for (const std::string& other : *gpu.nvlinked) list += (list.empty() ? "" : ",") + other;
      add("nvlinks", list.empty() ? std::string(kNone) : list);
    }
    text += '\n';
  }
  return text.append(kEnd);
}

void read_nvml_section(std::string_view text, NodeMap* map) {
  const size_t begin = text.rfind(kBegin);
  if (begin == text.npos || map->gpus.size() > kMostGpus) return;
  text.remove_prefix(begin + kBegin.size());
  text = text.substr(0, text.find(kEnd));
  std::vector<std::vector<uint8_t>> rows(map->gpus.size());
  bool sliced = false;
  while (!text.empty()) {
    std::string_view line = next_of(&text, '\n');
    const int index = map->find_gpu(next_of(&line, ' '));
    while (index >= 0 && !line.empty()) {
      std::string_view value = next_of(&line, ' ');
      const std::string_view key = next_of(&value, '=');
      sliced = sliced || (key == "mig" && value == "on");
      read_value(key, value, static_cast<size_t>(index), map, &rows[static_cast<size_t>(index)]);
    }
  }
  if (sliced) {
    map->nvlinks.clear();
    return;
  }
  std::vector<uint8_t> links;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty() && map->gpus[i].pci.vendor == kNvidia) return;
    rows[i].resize(rows.size());
    links.insert(links.end(), rows[i].begin(), rows[i].end());
  }
  map->nvlinks = std::move(links);
}

bool nvml_section_ages(const NodeMap& map) {
  return std::any_of(map.gpus.begin(), map.gpus.end(), [&map](const Gpu& gpu) {
    const bool untold = map.nvlinks.empty() && gpu.pci.vendor == kNvidia;
    return untold || !gpu.clique.empty() || !gpu.fabric_fault.empty();
  });
}

}  // namespace mfu
