// hwloc's objects to a NodeMap. The only file that knows hwloc.
#include "topology/node_map.hh"

#include <hwloc.h>
#include <hwloc/distances.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "topology/nvml_section.hh"

namespace mfu {
namespace {

struct TopologyDestroyer {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDestroyer>;

// Everything is kept: `important` drops bridges, and CPUs outside of our own cgroup are the node's.
Topology new_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return Topology(topology);
}

CpuSet cpus_of(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (bitmap == nullptr || hwloc_bitmap_last(bitmap) < 0) return set;  // empty or infinite
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu)) {
    if (!set.add(static_cast<uint32_t>(cpu))) break;
  }
  return set;
}

// Empty when it has none.
std::string_view info(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

uint64_t number(std::string_view text, int base) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

std::string bus_id_of(const PciAttributes& pci) {
  char text[24];
  snprintf(text, sizeof text, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), pci.bus,
           pci.dev, pci.func);
  return text;
}

bool is_gpu(const PciDevice& pci) {
  if (pci.pci_class == 0x0302) return true;  // 3D controller
  const bool display_or_accelerator =
      pci.pci_class == 0x0300 || pci.pci_class == 0x0380 || pci.pci_class == 0x1200;
  return display_or_accelerator && (pci.vendor == kNvidia || pci.vendor == 0x1002);
}

// GH200, GB200 and their kin hang below a root port of NVIDIA's own CPU.
bool is_coherent(hwloc_obj_t root_port) {
  return root_port != nullptr && root_port->attr->bridge.upstream.pci.vendor_id == kNvidia &&
         root_port->attr->bridge.upstream.pci.class_id == 0x0604;
}

class Reader {
 public:
  explicit Reader(hwloc_topology_t topology) : topology_(topology) {}

  NodeMap read() {
    map_.cpus = cpus_of(hwloc_get_root_obj(topology_)->cpuset);
    map_.packages =
        static_cast<uint32_t>(std::max(hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_PACKAGE), 0));
    read_numa();
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_pcidev(topology_, object)) != nullptr) read_device(object);
    read_nvlinks();
    return std::move(map_);
  }

 private:
  void read_numa() {
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, object)) !=
           nullptr) {
      NumaNode node;
      node.os_index = static_cast<int32_t>(object->os_index);
      node.cpus = cpus_of(object->cpuset);
      node.bytes = object->attr->numanode.local_memory;
      // hwloc 1 knew no subtype, but gave such nodes no CPU.
      node.gpu_memory =
          object->subtype != nullptr && std::strcmp(object->subtype, "GPUMemory") == 0;
      if (!node.gpu_memory && node.cpus.empty()) node.gpu_memory = true;
      // hwloc 2 gives a node without CPUs those that are near to it.
      map_.numa.push_back(std::move(node));
    }
  }

  PciDevice place(hwloc_obj_t object) {
    const PciAttributes& attributes = object->attr->pcidev;
    PciDevice pci;
    pci.bus_id = bus_id_of(attributes);
    pci.pci_class = attributes.class_id;
    pci.vendor = attributes.vendor_id;
    pci.device = attributes.device_id;
    for (hwloc_obj_t up = object->parent; up != nullptr && up->type == HWLOC_OBJ_BRIDGE;
         up = up->parent) {
      if (up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
        pci.host_bridge = static_cast<int32_t>(up->logical_index);
      } else {
        pci.bridges.push_back(bus_id_of(up->attr->bridge.upstream.pci));
      }
    }
    std::reverse(pci.bridges.begin(), pci.bridges.end());
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology_, object);
    pci.cpus = cpus_of(near->cpuset);
    // The only node whose CPUs these are among.
    for (const NumaNode& node : map_.numa) {
      if (node.gpu_memory || !node.cpus.intersects(pci.cpus)) continue;
      if (pci.numa != -1) {
        pci.numa = -1;
        break;
      }
      pci.numa = node.os_index;
    }
    for (hwloc_obj_t up = near; up != nullptr; up = up->parent) {
      if (up->type == HWLOC_OBJ_PACKAGE) pci.package = static_cast<int32_t>(up->os_index);
    }
    if (pci.package < 0) pci.package = package_by_cpus(pci.cpus);
    return pci;
  }

  // A group may lie beside its package's object, as in files of hwloc 1.
  int32_t package_by_cpus(const CpuSet& cpus) {
    int32_t found = -1;
    hwloc_obj_t object = nullptr;
    while (!cpus.empty() &&
           (object = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, object)) != nullptr) {
      if (cpus.within(cpus_of(object->cpuset))) found = static_cast<int32_t>(object->os_index);
    }
    return found;
  }

  void read_device(hwloc_obj_t object) {
    PciDevice pci = place(object);
    if (is_gpu(pci)) {
      read_gpu(object, std::move(pci));
    } else if (pci.pci_class >> 8 == 2 || has_network(object)) {
      read_nic(object, std::move(pci));
    }
  }

  static bool is_network(hwloc_obj_t os_device) {
    return os_device->type == HWLOC_OBJ_OS_DEVICE &&
           (os_device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
            os_device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS);
  }
  static bool has_network(hwloc_obj_t object) {
    hwloc_obj_t child = object->io_first_child;
    while (child != nullptr && !is_network(child)) child = child->next_sibling;
    return child != nullptr;
  }

  // The CUDA name where there is one; the others name the same GPU less well.
  static int rank_of_name(std::string_view name) {
    constexpr std::string_view kBest[] = {"cuda", "rsmi", "nvml", "ve", "opencl", "card"};
    for (size_t i = 0; i < std::size(kBest); ++i) {
      if (name.starts_with(kBest[i])) return static_cast<int>(i);
    }
    return static_cast<int>(std::size(kBest));
  }

  void read_gpu(hwloc_obj_t object, PciDevice pci) {
    Gpu gpu;
    for (hwloc_obj_t child = object->io_first_child; child != nullptr;
         child = child->next_sibling) {
      if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
      const std::string_view name = child->name;
      gpu.os_names.emplace_back(name);
      if (gpu.name.empty() || rank_of_name(name) < rank_of_name(gpu.name)) gpu.name = name;
      if (const std::string_view model = info(child, "GPUModel"); !model.empty()) gpu.model = model;
      if (const std::string_view uuid = info(child, "NVIDIAUUID"); !uuid.empty()) gpu.uuid = uuid;
      if (name.starts_with("cuda")) {
        gpu.cuda_index = static_cast<int32_t>(number(name.substr(4), 10));
      }
    }
    if (gpu.name.empty()) gpu.name = "pci:" + pci.bus_id;
    hwloc_obj_t root_port = nullptr;
    for (hwloc_obj_t up = object->parent; up != nullptr && up->type == HWLOC_OBJ_BRIDGE;
         up = up->parent) {
      if (up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) root_port = up;
    }
    gpu.coherent = is_coherent(root_port);
    gpu.pci = std::move(pci);
    map_.gpus.push_back(std::move(gpu));
    gpu_objects_.push_back(object);
  }

  void read_nic(hwloc_obj_t object, PciDevice pci) {
    Nic nic;
    for (hwloc_obj_t child = object->io_first_child; child != nullptr;
         child = child->next_sibling) {
      if (!is_network(child) || child->name == nullptr) continue;
      nic.os_names.emplace_back(child->name);
      if (child->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS) {
        if (nic.name.empty()) nic.name = child->name;
        continue;
      }
      if (!nic.rdma) nic.name = child->name;
      nic.rdma = true;
      nic.node_guid = guid(info(child, "NodeGUID"));
      nic.system_guid = guid(info(child, "SysImageGUID"));
      read_ports(child, &nic);
    }
    if (nic.os_names.empty()) return;  // a virtual function that nobody has
    nic.pci = std::move(pci);
    map_.nics.push_back(std::move(nic));
  }

  static uint64_t guid(std::string_view text) {
    std::string digits(text);
    std::erase(digits, ':');
    return number(digits, 16);
  }

  static void read_ports(hwloc_obj_t object, Nic* nic) {
    for (uint32_t port_number = 1; port_number <= 8; ++port_number) {
      const std::string prefix = "Port" + std::to_string(port_number);
      const std::string_view state = info(object, (prefix + "State").c_str());
      const std::string_view lid = info(object, (prefix + "LID").c_str());
      if (state.empty() && lid.empty()) continue;
      NicPort port;
      port.number = port_number;
      if (!state.empty()) port.state = port_state_of(static_cast<uint32_t>(number(state, 10)));
      port.lid = static_cast<uint32_t>(number(lid, 16));
      // An InfiniBand port has a LID, or 0xffff while it has none.
      if (port.lid != 0) port.layer = LinkLayer::kInfiniBand;
      nic->ports.push_back(std::move(port));
    }
  }

  // NVML's bandwidths between GPUs, and between GPUs and NVSwitches. The switches of one machine
  // reach each other, though NVML does not say so: DGX-2 has two boards of them.
  void read_nvlinks() {
    unsigned found = 1;
    hwloc_distances_s* matrix = nullptr;
    if (hwloc_distances_get_by_name(topology_, "NVLinkBandwidth", &found, &matrix, 0) != 0 ||
        found == 0) {
      return;
    }
    const size_t n = map_.gpus.size();
    const unsigned objects = matrix->nbobjs;
    std::vector<int> gpu_of(objects, -1);
    for (unsigned i = 0; i < objects; ++i) {
      hwloc_obj_t pci = matrix->objs[i];
      while (pci != nullptr && pci->type != HWLOC_OBJ_PCI_DEVICE) pci = pci->parent;
      const auto at = std::find(gpu_objects_.begin(), gpu_objects_.end(), pci);
      if (pci != nullptr && at != gpu_objects_.end()) {
        gpu_of[i] = static_cast<int>(at - gpu_objects_.begin());
      }
    }
    map_.nvlinks.assign(n * n, 0);
    auto value = [matrix, objects](unsigned a, unsigned b) {
      return matrix->values[size_t{a} * objects + b];
    };
    std::vector<bool> on_switch(objects, false);
    for (unsigned i = 0; i < objects; ++i) {
      for (unsigned k = 0; k < objects; ++k) {
        const hwloc_obj_t other = matrix->objs[k];
        if (other != nullptr && is_nvswitch(other) && value(i, k) != 0) on_switch[i] = true;
      }
    }
    for (unsigned i = 0; i < objects; ++i) {
      for (unsigned j = 0; j < objects; ++j) {
        if (i == j || gpu_of[i] < 0 || gpu_of[j] < 0) continue;
        if (value(i, j) == 0 && !(on_switch[i] && on_switch[j])) continue;
        map_.nvlinks[static_cast<size_t>(gpu_of[i]) * n + static_cast<size_t>(gpu_of[j])] = 1;
      }
    }
    hwloc_distances_release(topology_, matrix);
  }
  static bool is_nvswitch(hwloc_obj_t object) {
    return object->subtype != nullptr && std::strcmp(object->subtype, "NVSwitch") == 0;
  }

  hwloc_topology_t topology_;
  NodeMap map_;
  std::vector<hwloc_obj_t> gpu_objects_;
};

// The format of the file by its root element; empty: hwloc 1's, which has no version.
std::string_view format_of(std::string_view text) {
  const size_t begin = text.find("<topology");
  if (begin == std::string_view::npos) return {};
  const std::string_view element = text.substr(begin, text.substr(begin).find('>'));
  const size_t version = element.find("version=\"");
  if (version == std::string_view::npos) return {};
  const std::string_view value = element.substr(version + 9, 16);
  return value.substr(0, value.find('"'));
}

}  // namespace

tl::expected<NodeMap, std::string> node_map_from_xml(std::string_view text,
                                                     const std::string& where) {
  auto failed = [&where](const std::string& reason) {
    return tl::make_unexpected(where + ": " + reason);
  };
  if (text.size() > kMostTopologyBytes) {
    return failed("larger than " + std::to_string(kMostTopologyBytes) + " bytes");
  }
  if (text.find("<topology") == std::string_view::npos) {
    return failed("no hwloc topology: no <topology> element; write one with lstopo FILE.xml");
  }
  // Ours would be parsed by libxml2 where hwloc is built with it.
  if (text.find("<!ENTITY") != std::string_view::npos)
    return failed("has entities; hwloc's has none");
  const std::string_view format = format_of(text);
  uint32_t major = 0;
  std::from_chars(format.data(), format.data() + format.size(), major);
  if (major > 2) {
    return failed("is of hwloc's XML format " + std::to_string(major) +
                  ".0, and this program's hwloc reads up to 2.0; write it with "
                  "lstopo --export-xml-flags v2 FILE.xml");
  }
  const Topology topology = new_topology();
  const std::string copy(text);  // hwloc wants its end to be 0
  if (topology == nullptr ||
      hwloc_topology_set_xmlbuffer(topology.get(), copy.c_str(),
                                   static_cast<int>(copy.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return failed(std::string("hwloc cannot read it (") + std::strerror(errno) +
                  "): not XML, cut short, or of another version");
  }
  NodeMap map = Reader(topology.get()).read();
  read_nvml_section(text, &map);
  return map;
}

tl::expected<std::string, std::string> discover_node_xml(const std::string& root) {
  // CUDA's and OpenCL's back ends would open every GPU, which an exclusive GPU forbids and takes
  // seconds; GL's would look for X servers.
  setenv("HWLOC_COMPONENTS", "-cuda,-opencl,-gl,-levelzero", 1);
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  if (!root.empty()) setenv("HWLOC_FSROOT", root.c_str(), 1);
  const Topology topology = new_topology();
  if (topology == nullptr || hwloc_topology_load(topology.get()) != 0) {
    return tl::make_unexpected(std::string("hwloc's discovery failed: ") + std::strerror(errno));
  }
  char* text = nullptr;
  int bytes = 0;
  if (hwloc_topology_export_xmlbuffer(topology.get(), &text, &bytes, 0) != 0) {
    return tl::make_unexpected(std::string("hwloc's export failed: ") + std::strerror(errno));
  }
  std::string xml(text, static_cast<size_t>(std::max(bytes - 1, 0)));
  hwloc_free_xmlbuffer(topology.get(), text);
  return xml;
}

}  // namespace mfu
