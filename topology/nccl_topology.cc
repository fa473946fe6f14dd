#include "topology/nccl_topology.hh"

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>
#include <utility>

#include "topology/node_file.hh"
#include "topology/pcie_link.hh"

namespace mfu {
namespace {

constexpr size_t kMostDepth = 32;
constexpr size_t kMostDevices = 4096;
constexpr size_t kMostName = 64;

std::string_view attribute(pugi::xml_node node, const char* name) {
  return node.attribute(name).as_string();
}

// 0 for what is no number.
uint64_t number(std::string_view text, int base) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

// NCCL writes the bytes of a GUID in the wire's order.
uint64_t guid_of(std::string_view text) {
  const uint64_t value = number(text, 16);
  return __builtin_bswap64(value);
}

// A name of the file that may get into messages.
std::string name_of(std::string_view text) {
  std::string name(text.substr(0, kMostName));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < '!' || c > '~'; }, '?');
  return name;
}

class Parser {
 public:
  // Empty, or what is wrong.
  std::string parse(pugi::xml_node system) {
    for (const pugi::xml_node cpu : system.children("cpu")) {
      if (std::string error = parse_cpu(cpu); !error.empty()) return error;
    }
    if (map.numa.empty()) return "no <cpu> in <system>";
    join_nvlinks();
    return {};
  }

  NodeMap map;

 private:
  struct Place {
    int32_t cpu = 0;
    int32_t numa = -1;
    CpuSet cpus;
  };
  struct Link {
    size_t gpu;
    std::string target;  // bus id
    bool to_switch;      // an NVSwitch; those of one machine reach each other
  };

  std::string parse_cpu(pugi::xml_node cpu) {
    Place place;
    place.cpu = static_cast<int32_t>(map.numa.size());
    const std::string_view numa = attribute(cpu, "numaid");
    place.numa = static_cast<int32_t>(std::min<uint64_t>(number(numa, 10), INT16_MAX));
    if (numa.starts_with('-')) place.numa = -1;
    const auto cpus = CpuSet::from_mask(attribute(cpu, "affinity"));
    if (!cpus) return "a <cpu>'s affinity is no CPU mask";
    if (map.numa.size() >= kMostDevices) return "more than 4096 CPUs";
    place.cpus = *cpus;
    map.cpus |= *cpus;
    NumaNode node;
    node.os_index = place.numa;
    node.cpus = *cpus;
    map.numa.push_back(std::move(node));
    for (const pugi::xml_node child : cpu.children()) {
      const std::string_view name = child.name();
      std::string error;
      if (name == "pci") error = parse_pci(child, place);
      if (name == "nic") error = add_nic(child, device_at(place, {}), nullptr);
      if (!error.empty()) return error;
    }
    return {};
  }

  PciDevice device_at(const Place& place, const std::string& bus_id) {
    PciDevice pci;
    pci.bus_id = bus_id;
    pci.numa = place.numa;
    pci.cpus = place.cpus;
    pci.host_bridge = place.cpu;
    pci.bridges = bridges_;
    return pci;
  }

  std::string parse_pci(pugi::xml_node node, const Place& place) {
    const std::string bus_id = canonical_bus_id(attribute(node, "busid"));
    if (bus_id.empty()) {
      return "a <pci>'s busid is \"" + name_of(attribute(node, "busid")) + "\": no PCI bus id";
    }
    if (bridges_.size() >= kMostDepth) return "<pci> is nested more than 32 deep";
    if (++devices_ > kMostDevices) return "more than 4096 devices";
    PciDevice pci = device_at(place, bus_id);
    pci.pci_class = static_cast<uint16_t>(number(attribute(node, "class"), 16) >> 8);
    pci.vendor = static_cast<uint16_t>(number(attribute(node, "vendor"), 16));
    pci.device = static_cast<uint16_t>(number(attribute(node, "device"), 16));
    pci.link.speed_mts = pcie_speed_of(attribute(node, "link_speed"));
    pci.link.width =
        static_cast<uint32_t>(std::min<uint64_t>(number(attribute(node, "link_width"), 10), 32));
    const pugi::xml_node gpu = node.child("gpu");
    const bool is_gpu = gpu || pci.pci_class == 0x0302 ||
                        ((pci.pci_class == 0x0380 || pci.pci_class == 0x1200) && pci.vendor != 0);
    if (is_gpu) {
      add_gpu(gpu, std::move(pci));
      return {};
    }
    const pugi::xml_node nic = node.child("nic");
    const bool leaf = !node.child("pci");
    if (nic || pci.pci_class >> 8 == 2 || (leaf && pci.pci_class == 0)) {
      return add_nic(nic, std::move(pci), &bus_id);
    }
    bridges_.push_back(bus_id);
    std::string error;
    for (const pugi::xml_node child : node.children("pci")) {
      error = parse_pci(child, place);
      if (!error.empty()) break;
    }
    bridges_.pop_back();
    return error;
  }

  void add_gpu(pugi::xml_node node, PciDevice pci) {
    Gpu gpu;
    if (const pugi::xml_attribute dev = node.attribute("dev")) {
      gpu.cuda_index = static_cast<int32_t>(std::min<uint64_t>(number(dev.as_string(), 10), 255));
    }
    gpu.name = gpu.cuda_index >= 0 ? "cuda" + std::to_string(gpu.cuda_index) : "pci:" + pci.bus_id;
    gpu.coherent = static_cast<bool>(node.child("c2c"));
    for (const pugi::xml_node child : node.children()) {
      const std::string_view name = child.name();
      if (name != "nvlink" && name != "xgmi") continue;
      const std::string target = canonical_bus_id(attribute(child, "target"));
      // A virtual machine with GPUs of H100 on does not see the switches, whose bus id is
      // "fffffff:ffff:ff" then.
      const bool to_switch = number(attribute(child, "tclass"), 16) >> 8 == 0x0680;
      if ((target.empty() && !to_switch) || links_.size() >= kMostDevices) continue;
      links_.push_back({map.gpus.size(), target, to_switch});
    }
    gpu.pci = std::move(pci);
    map.gpus.push_back(std::move(gpu));
  }

  // One NIC a PCI function: the ports of a card share it.
  std::string add_nic(pugi::xml_node node, PciDevice pci, const std::string* bus_id) {
    Nic nic;
    // RDMA NICs are all that these files are written for, but for the plain sockets of a machine
    // without any, which have no bus id or no GUID.
    nic.rdma = bus_id != nullptr;
    for (const pugi::xml_node net : node.children("net")) {
      if (++devices_ > kMostDevices) return "more than 4096 devices";
      nic.os_names.push_back(name_of(attribute(net, "name")));
      nic.node_guid = guid_of(attribute(net, "guid"));
      NicPort port;
      port.number =
          static_cast<uint32_t>(std::min<uint64_t>(number(attribute(net, "port"), 10), 255));
      port.rate_mbps = static_cast<uint32_t>(
          std::min<uint64_t>(number(attribute(net, "speed"), 10), 100'000'000));
      nic.ports.push_back(std::move(port));
    }
    nic.system_guid = nic.node_guid;
    if (!nic.os_names.empty()) nic.name = nic.os_names.front();
    if (nic.name.empty()) nic.name = pci.bus_id;
    if (nic.name.empty()) return {};  // neither a place nor a name
    nic.pci = std::move(pci);
    map.nics.push_back(std::move(nic));
    return {};
  }

  void join_nvlinks() {
    const size_t n = map.gpus.size();
    if (links_.empty()) return;
    map.nvlinks.assign(n * n, 0);
    for (const Link& a : links_) {
      for (const Link& b : links_) {
        const bool through_switches = a.to_switch && b.to_switch && a.gpu != b.gpu;
        const bool direct = a.gpu != b.gpu && a.target == map.gpus[b.gpu].pci.bus_id;
        if (!through_switches && !direct) continue;
        map.nvlinks[a.gpu * n + b.gpu] = map.nvlinks[b.gpu * n + a.gpu] = 1;
      }
    }
  }

  std::vector<std::string> bridges_;
  std::vector<Link> links_;
  size_t devices_ = 0;
};

// pugixml's parser does not recurse; our walk does, over <pci> only, and counts.
std::string load(std::string_view text, pugi::xml_document* document) {
  const pugi::xml_parse_result result =
      document->load_buffer(text.data(), text.size(), pugi::parse_minimal);
  if (result) return {};
  const size_t at =
      std::min(static_cast<size_t>(std::max<ptrdiff_t>(result.offset, 0)), text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  return "line " + std::to_string(line) + ": " + result.description();
}

}  // namespace

tl::expected<NodeMap, std::string> parse_nccl_topology(std::string_view text,
                                                       const std::string& where) {
  auto failed = [&where](const std::string& reason) {
    return tl::make_unexpected(where + ": " + reason);
  };
  if (text.size() > kMostTopologyBytes) {
    return failed("larger than " + std::to_string(kMostTopologyBytes) + " bytes");
  }
  pugi::xml_document document;
  if (const std::string error = load(text, &document); !error.empty()) return failed(error);
  const pugi::xml_node system = document.child("system");
  if (!system) {
    return failed("no NCCL topology: no <system> element; write one with NCCL_TOPO_DUMP_FILE");
  }
  Parser parser;
  parser.map.whole_switches = true;
  if (const std::string error = parser.parse(system); !error.empty()) return failed(error);
  return std::move(parser.map);
}

tl::expected<NodeMap, std::string> read_nccl_topology(const std::string& path) {
  const auto text = read_node_file(path, kMostTopologyBytes);
  if (!text) return tl::make_unexpected(text.error());
  return parse_nccl_topology(*text, path);
}

}  // namespace mfu
