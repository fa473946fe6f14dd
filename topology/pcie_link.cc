#include "topology/pcie_link.hh"

#include <algorithm>
#include <charconv>

#include "topology/node_file.hh"

namespace mfu {
namespace {

uint32_t width_of(const std::string& text) {
  uint32_t width = 0;
  std::from_chars(text.data(), text.data() + text.size(), width);
  return width <= 32 ? width : 0;  // 255: the kernel's "unknown"
}

// The lesser of those that are known.
uint32_t least(uint32_t a, uint32_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

PcieLink link_of(const std::string& folder) {
  PcieLink link;
  link.speed_mts = pcie_speed_of(read_attribute(folder + "current_link_speed"));
  link.width = width_of(read_attribute(folder + "current_link_width"));
  link.max_speed_mts = pcie_speed_of(read_attribute(folder + "max_link_speed"));
  link.max_width = width_of(read_attribute(folder + "max_link_width"));
  return link;
}

}  // namespace

uint32_t pcie_speed_of(std::string_view text) {
  // "2.5 GT/s PCIe", "16 GT/s": at most one digit behind the point.
  uint32_t whole = 0, tenth = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc() || whole > 1000) return 0;
  if (at != end && *at == '.') {
    const auto [behind, wrong] = std::from_chars(at + 1, end, tenth);
    if (wrong != std::errc() || tenth > 9) return 0;
    at = behind;
  }
  if (!std::string_view(at, static_cast<size_t>(end - at)).starts_with(" GT/s")) return 0;
  return whole * 1000 + tenth * 100;
}

std::string pcie_text(uint32_t speed_mts, uint32_t width) {
  std::string speed = "?";
  if (speed_mts != 0) {
    speed = std::to_string(speed_mts / 1000);
    if (speed_mts % 1000 != 0) speed += "." + std::to_string(speed_mts % 1000 / 100);
  }
  return speed + " GT/s x" + (width == 0 ? "?" : std::to_string(width));
}

void read_pcie_links(const std::string& root, NodeMap* map) {
  const std::string devices = root + "/sys/bus/pci/devices/";
  auto read = [&devices](PciDevice* pci) {
    pci->link = {};
    if (pci->bus_id.empty()) return;
    pci->link = link_of(devices + pci->bus_id + "/");
    // The port above it: NCCL's files name a switch by its upstream port, which is no device's.
    const PcieLink slot = link_of(devices + pci->bus_id + "/../");
    pci->link.max_speed_mts = least(pci->link.max_speed_mts, slot.max_speed_mts);
    pci->link.max_width = least(pci->link.max_width, slot.max_width);
  };
  for (Gpu& gpu : map->gpus) read(&gpu.pci);
  for (Nic& nic : map->nics) read(&nic.pci);
}

}  // namespace mfu
