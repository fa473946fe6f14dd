#include "topology/port_state.hh"

#include <charconv>

#include "topology/node_file.hh"

namespace mfu {
namespace {

constexpr uint32_t kMostPorts = 16;  // of an adapter; real ones have one or two

uint32_t leading_number(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)".
uint32_t rate_of(const std::string& text) {
  double gigabits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gigabits);
  if (error != std::errc() || gigabits < 0 || gigabits > 1e6) return 0;
  if (!std::string_view(end).starts_with(" Gb/sec")) return 0;
  return static_cast<uint32_t>(gigabits * 1000);
}

LinkLayer layer_of(const std::string& text) {
  if (text == "InfiniBand") return LinkLayer::kInfiniBand;
  return text == "Ethernet" ? LinkLayer::kEthernet : LinkLayer::kUnknown;
}

NicPort port_of(const std::string& folder, uint32_t number, const std::string& state) {
  NicPort port;
  port.number = number;
  // "4: ACTIVE".
  port.state = state.size() > 1 && state[1] == ':' ? port_state_of(leading_number(state, 10))
                                                   : PortState::kUnknown;
  const std::string physical = read_attribute(folder + "phys_state");
  if (const size_t colon = physical.find(": "); colon != std::string::npos) {
    port.physical = physical.substr(colon + 2, 32);
  }
  port.lid = leading_number(read_attribute(folder + "lid"), 16);
  port.rate_mbps = rate_of(read_attribute(folder + "rate"));
  port.layer = layer_of(read_attribute(folder + "link_layer"));
  return port;
}

void add_ports(const std::string& root, const std::string& name, Nic* nic) {
  if (name.find('/') != std::string::npos) return;
  for (uint32_t number = 1; number <= kMostPorts; ++number) {
    const std::string folder =
        root + "/sys/class/infiniband/" + name + "/ports/" + std::to_string(number) + "/";
    const std::string state = read_attribute(folder + "state");
    if (state.empty()) break;
    nic->ports.push_back(port_of(folder, number, state));
  }
}

}  // namespace

void read_port_states(const std::string& root, NodeMap* map) {
  for (Nic& nic : map->nics) {
    if (!nic.rdma) continue;
    nic.ports.clear();
    add_ports(root, nic.name, &nic);
    for (const std::string& name : nic.os_names) {
      if (map->whole_switches && name != nic.name) add_ports(root, name, &nic);
    }
  }
}

}  // namespace mfu
