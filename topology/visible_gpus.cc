#include "topology/visible_gpus.hh"

#include <algorithm>

namespace mfu {
namespace {

bool one_model(const NodeMap& map, const GpuSet& gpus) {
  return std::all_of(gpus.begin(), gpus.end(), [&](size_t gpu) {
    return map.gpus[gpu].pci.device == map.gpus[gpus[0]].pci.device &&
           map.gpus[gpu].pci.vendor == map.gpus[gpus[0]].pci.vendor;
  });
}

}  // namespace

GpuSet all_gpus(const NodeMap& map) {
  GpuSet gpus;
  for (size_t i = 0; i < map.gpus.size(); ++i) gpus.push_back(i);
  std::sort(gpus.begin(), gpus.end(),
            [&map](size_t a, size_t b) { return map.gpus[a].pci.bus_id < map.gpus[b].pci.bus_id; });
  return gpus;
}

std::optional<GpuSet> gpus_by_place(const NodeMap& map, std::string_view list) {
  const auto places = CpuSet::from_list(list);
  if (list.empty() || !places) return std::nullopt;
  const GpuSet order = all_gpus(map);
  GpuSet chosen;
  for (size_t place = 0; place < order.size(); ++place) {
    const int minor = map.gpus[order[place]].minor;
    if (minor >= 0 && static_cast<size_t>(minor) != place) return std::nullopt;
    if (places->has(static_cast<uint32_t>(place))) chosen.push_back(order[place]);
  }
  return chosen;
}

std::optional<GpuSet> gpus_by_minor(const NodeMap& map, const CpuSet& minors) {
  GpuSet chosen;
  for (const size_t gpu : all_gpus(map)) {
    const int minor = map.gpus[gpu].minor;
    if (minor >= 0 && minors.has(static_cast<uint32_t>(minor))) chosen.push_back(gpu);
  }
  return chosen.size() == minors.count() ? std::optional(chosen) : std::nullopt;
}

std::vector<std::string> visible_gpus(const NodeMap& map, const std::optional<GpuSet>& openable,
                                      std::optional<std::string_view> devices, bool pci_order) {
  // By CUDA's number; empty where that is not known.
  const bool ordered = openable && (pci_order || one_model(map, *openable));
  const GpuSet numbered = ordered ? *openable : GpuSet();
  std::vector<std::string> visible;
  if (!devices) {
    for (const size_t gpu : numbered) visible.push_back(map.gpus[gpu].pci.bus_id);
    return visible;
  }
  std::string_view rest = *devices;
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item.starts_with("MIG-")) {
      visible.emplace_back(item);
      continue;
    }
    size_t gpu = map.gpus.size();
    if (item.starts_with("GPU-")) {
      const int found = map.find_gpu(item);
      const auto index = static_cast<size_t>(found);
      if (found < 0) break;
      if (!openable || std::count(openable->begin(), openable->end(), index) != 0) gpu = index;
    } else {
      const auto number = CpuSet::from_list(item);
      if (!number || number->count() != 1) break;
      size_t place = 0;
      while (place < numbered.size() && !number->has(static_cast<uint32_t>(place))) ++place;
      if (place < numbered.size()) gpu = numbered[place];
    }
    if (gpu == map.gpus.size()) break;
    visible.push_back(map.gpus[gpu].pci.bus_id);
  }
  return visible;
}

}  // namespace mfu
