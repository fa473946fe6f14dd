#include "topology/visible_gpus.hh"

#include <algorithm>

namespace mfu {
namespace {

// By CUDA's number; -1s where the order is not known.
std::vector<int> cuda_order(const NodeMap& map, std::vector<int> gpus, bool pci_order) {
  auto gpu = [&map](int index) -> const Gpu& { return map.gpus[static_cast<size_t>(index)]; };
  std::sort(gpus.begin(), gpus.end(),
            [&gpu](int a, int b) { return gpu(a).pci.bus_id < gpu(b).pci.bus_id; });
  const bool one_kind = std::all_of(gpus.begin(), gpus.end(), [&](int index) {
    return gpu(index).pci.device == gpu(gpus[0]).pci.device &&
           gpu(index).pci.vendor == gpu(gpus[0]).pci.vendor;
  });
  if (!pci_order && !one_kind) std::fill(gpus.begin(), gpus.end(), -1);
  return gpus;
}

// GPUs whose place in PCI order is among those of the list. Slurm numbers them as gres.conf lists
// them: where the driver's numbers are in another order than the bus, both may be meant.
std::vector<int> allocated_gpus(const NodeMap& map, std::string_view allocated) {
  const auto numbers = CpuSet::from_list(allocated);
  std::vector<int> order;
  for (size_t i = 0; i < map.gpus.size(); ++i) order.push_back(static_cast<int>(i));
  if (allocated.empty() || !numbers) return order;
  order = cuda_order(map, order, true);
  std::vector<int> chosen;
  for (size_t place = 0; place < order.size(); ++place) {
    const int minor = map.gpus[static_cast<size_t>(order[place])].minor;
    if (minor >= 0 && static_cast<size_t>(minor) != place) return {};
    if (numbers->has(static_cast<uint32_t>(place))) chosen.push_back(order[place]);
  }
  return chosen;
}

}  // namespace

std::vector<std::string> visible_gpus(const NodeMap& map, std::optional<std::string_view> devices,
                                      std::string_view allocated, bool confined, bool pci_order) {
  const std::vector<int> openable = allocated_gpus(map, confined ? allocated : std::string_view());
  const std::vector<int> order = cuda_order(map, openable, pci_order);
  std::vector<std::string> visible;
  if (!devices) {
    for (const int gpu : order) {
      if (gpu >= 0) visible.push_back(map.gpus[static_cast<size_t>(gpu)].pci.bus_id);
    }
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
    int gpu = -1;
    if (item.starts_with("GPU-")) {
      gpu = map.find_gpu(item);
    } else {
      const auto number = CpuSet::from_list(item);
      if (!number || number->count() != 1) break;
      size_t place = 0;
      while (place < order.size() && !number->has(static_cast<uint32_t>(place))) ++place;
      if (place == order.size()) break;
      gpu = order[place];
    }
    if (gpu < 0) break;
    visible.push_back(map.gpus[static_cast<size_t>(gpu)].pci.bus_id);
  }
  return visible;
}

}  // namespace mfu
