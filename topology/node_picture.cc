#include "topology/node_picture.hh"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include "topology/fabric_places.hh"
#include "topology/host_list.hh"
#include "topology/nic_roles.hh"
#include "topology/pcie_link.hh"
#include "topology/step_gpus.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

constexpr size_t kMostListed = 64;  // adapters: a machine may have hundreds of virtual functions

std::vector<size_t> numbers_to(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

std::string number_or_unknown(int32_t number) {
  return number < 0 ? "?" : std::to_string(number);
}

std::string gigabytes(uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.0f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

std::string link_text(const PcieLink& link) {
  if (link.width == 0 && link.speed_mts == 0) return "?";
  std::string text = pcie_text(link.speed_mts, link.width);
  const bool less = link.width < link.max_width || link.speed_mts < link.max_speed_mts;
  if (less) text += " of " + pcie_text(link.max_speed_mts, link.max_width);
  return text;
}

std::string gigabits(uint32_t mbps) {
  char text[32];
  snprintf(text, sizeof text, "%g Gb/s", mbps / 1000.0);
  return text;
}

// What the matrix has as columns.
struct Column {
  std::string name;
  const PciDevice* pci;
  size_t gpu;  // index, or SIZE_MAX for a NIC
};

std::string cell_of(const NodeMap& map, size_t gpu, const Column& column) {
  if (column.gpu == gpu) return "X";
  const bool nvlink =
      column.gpu != SIZE_MAX && !map.nvlinks.empty() && map.nvlinked(gpu, column.gpu);
  return nvlink ? "NV" : distance_name(distance(map, map.gpus[gpu].pci, *column.pci));
}

class NodeText {
 public:
  NodeText(const NodeMap& map, size_t columns)
      : map_(map),
        columns_(columns),
        gpus_(gpu_order(map)),
        nics_(nic_order(map)),
        gpu_labels_(gpu_labels(map)),
        nic_labels_(nic_labels(map)) {}

  std::string text(const std::string& name) {
    add_head(name);
    add_matrix();
    add_gpus();
    add_nics();
    add_numa();
    return std::move(text_);
  }

 private:
  void add_head(const std::string& name) {
    const auto rdma =
        std::count_if(nics_.begin(), nics_.end(), [this](size_t i) { return map_.nics[i].rdma; });
    std::string head = "Node " + printable(name) + ": " +
                       (map_.packages == 0 ? "" : counted(map_.packages, "socket") + ", ") +
                       counted(static_cast<uint64_t>(std::count_if(
                                   map_.numa.begin(), map_.numa.end(),
                                   [](const NumaNode& node) { return !node.gpu_memory; })),
                               "NUMA node") +
                       ", " + counted(map_.cpus.count(), "CPU") + "; " +
                       counted(map_.gpus.size(), "GPU") + ", " +
                       counted(static_cast<uint64_t>(rdma), "RDMA adapter");
    const auto others = nics_.size() - static_cast<size_t>(rdma);
    if (others > 0) head += ", " + counted(others, "other adapter");
    text_ += head + "\n";
  }

  void add_matrix() {
    if (gpus_.empty()) return;
    std::vector<Column> columns;
    for (const size_t gpu : gpus_) columns.push_back({gpu_labels_[gpu], &map_.gpus[gpu].pci, gpu});
    for (const size_t nic : nics_) {
      if (!map_.nics[nic].rdma) continue;
      columns.push_back({nic_labels_[nic], &map_.nics[nic].pci, SIZE_MAX});
    }
    // In one part where it fits, else GPUs and adapters apart, as many at a time as fit.
    const bool whole = matrix(columns, 0, columns.size()).width() <= columns_;
    for (size_t begin = 0; begin < columns.size();) {
      TextTable part;
      size_t end = whole || begin >= gpus_.size() ? columns.size() : gpus_.size();
      do {
        part = matrix(columns, begin, end);
      } while (part.width() > columns_ && --end > begin);
      end = std::max(end, begin + 1);
      text_ += "\n" + part.text("");
      begin = end;
    }
    text_ += "\n";
    for (const std::string& line : wrapped(
             "X itself; PIX one PCIe switch; PXB several; PHB the same host bridge; NODE the same "
             "NUMA node; SYS across NUMA nodes; NV joined by NVLink",
             columns_)) {
      text_ += line + "\n";
    }
  }

  TextTable matrix(const std::vector<Column>& columns, size_t begin, size_t end) const {
    TextTable table;
    const bool last = end == columns.size();
    std::vector<std::string> head = {""};
    for (size_t i = begin; i < end; ++i) head.push_back(columns[i].name);
    if (last) head.insert(head.end(), {"NUMA", "CPUs"});
    table.add(std::move(head));
    for (const size_t gpu : gpus_) {
      std::vector<std::string> row = {gpu_labels_[gpu]};
      for (size_t i = begin; i < end; ++i) row.push_back(cell_of(map_, gpu, columns[i]));
      const PciDevice& pci = map_.gpus[gpu].pci;
      if (last) {
        row.insert(row.end(),
                   {number_or_unknown(pci.numa), pci.cpus.empty() ? "?" : pci.cpus.text()});
      }
      table.add(std::move(row));
    }
    return table;
  }

  std::string nearest_text(const std::vector<size_t>& nics) const {
    std::vector<std::string> names;
    for (const size_t nic : nics) names.push_back(nic_labels_[nic]);
    return listed(names);
  }

  void add_gpus() {
    if (gpus_.empty()) return;
    std::vector<size_t> rdma;
    for (const size_t nic : nics_) {
      if (map_.nics[nic].rdma) rdma.push_back(nic);
    }
    TextTable table;
    table.add({"GPU", "BUS ID", "SOCKET", "PCIE", "NEAREST NICS", "MODEL"});
    for (const size_t index : gpus_) {
      const Gpu& gpu = map_.gpus[index];
      const NearestNics nearest = nearest_nics(map_, gpu, rdma);
      const bool far = nearest.distance == Distance::kSys;
      std::string model = gpu.model;
      if (gpu.mig_instances > 0) model += " (" + counted(gpu.mig_instances, "MIG instance") + ")";
      table.add({gpu_labels_[index], gpu.pci.bus_id, number_or_unknown(gpu.pci.package),
                 link_text(gpu.pci.link),
                 rdma.empty() ? "none"
                 : far        ? "none nearer than SYS"
                              : nearest_text(nearest.nics) + " " + distance_name(nearest.distance),
                 model});
    }
    text_ += "\n" + table.text("");
  }

  void add_nics() {
    if (nics_.empty()) return;
    TextTable table;
    table.add({"NIC", "BUS ID", "SOCKET", "NUMA", "PCIE", "PORT", "NODE GUID"});
    size_t shown = 0;
    for (const size_t index : nics_) {
      if (++shown > kMostListed) continue;
      const Nic& nic = map_.nics[index];
      table.add({nic_labels_[index], nic.pci.bus_id, number_or_unknown(nic.pci.package),
                 number_or_unknown(nic.pci.numa), link_text(nic.pci.link),
                 nic.rdma ? ports_text(nic) : "no RDMA",
                 nic.node_guid == 0 ? "" : guid_text(nic.node_guid)});
    }
    text_ += "\n" + table.text("");
    if (shown > kMostListed) text_ += "and " + counted(shown - kMostListed, "more NIC") + "\n";
  }

  void add_numa() {
    TextTable table;
    table.add({"NUMA", "MEMORY", "CPUS"});
    for (const NumaNode& node : map_.numa) {
      table.add({std::to_string(node.os_index), node.bytes == 0 ? "?" : gigabytes(node.bytes),
                 node.gpu_memory ? "memory of a GPU" : node.cpus.text()});
    }
    if (!map_.numa.empty()) text_ += "\n" + table.text("");
  }

  const NodeMap& map_;
  size_t columns_;
  std::vector<size_t> gpus_, nics_;
  std::vector<std::string> gpu_labels_, nic_labels_;
  std::string text_;
};

}  // namespace

std::vector<size_t> gpu_order(const NodeMap& map) {
  std::vector<size_t> order = numbers_to(map.gpus.size());
  const bool numbered = std::all_of(map.gpus.begin(), map.gpus.end(),
                                    [](const Gpu& gpu) { return gpu.cuda_index >= 0; });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Gpu& x = map.gpus[a];
    const Gpu& y = map.gpus[b];
    return numbered ? x.cuda_index < y.cuda_index : x.pci.bus_id < y.pci.bus_id;
  });
  return order;
}

std::vector<size_t> nic_order(const NodeMap& map) {
  std::vector<size_t> order = numbers_to(map.nics.size());
  std::stable_sort(order.begin(), order.end(), [&map](size_t a, size_t b) {
    const Nic& x = map.nics[a];
    const Nic& y = map.nics[b];
    return x.rdma != y.rdma ? x.rdma : host_before(x.name, y.name);
  });
  return order;
}

std::vector<std::string> gpu_labels(const NodeMap& map) {
  std::vector<std::string> labels(map.gpus.size());
  size_t number = 0;
  for (const size_t index : gpu_order(map)) {
    const std::string name = short_name(map.gpus[index]);
    labels[index] = name == map.gpus[index].pci.bus_id ? "GPU" + std::to_string(number) : name;
    ++number;
  }
  return labels;
}

std::vector<std::string> nic_labels(const NodeMap& map) {
  std::vector<std::string> labels(map.nics.size());
  size_t number = 0;
  for (const size_t index : nic_order(map)) {
    const Nic& nic = map.nics[index];
    labels[index] = nic.name == nic.pci.bus_id ? "NIC" + std::to_string(number) : nic.name;
    ++number;
  }
  return labels;
}

std::string ports_text(const Nic& nic) {
  std::string text;
  for (const NicPort& port : nic.ports) {
    if (!text.empty()) text += "; ";
    if (nic.ports.size() > 1) text += "port " + std::to_string(port.number) + " ";
    text += port_state_name(port.state);
    const bool active = port.state == PortState::kActive;
    if (!active && !port.physical.empty()) text += " (" + port.physical + ")";
    if (active && port.rate_mbps > 0) text += " " + gigabits(port.rate_mbps);
    if (port.layer == LinkLayer::kEthernet) text += " Ethernet";
    if (port.layer == LinkLayer::kInfiniBand) {
      text += port.lid == kNoLid ? ", no LID"
              : port.lid > 0     ? ", LID " + std::to_string(port.lid)
                                 : "";
    }
  }
  return text.empty() ? "unknown" : text;
}

const char* nic_state(const Nic& nic) {
  return nic.active() ? "ACTIVE" : nic.known() ? "DOWN" : "unknown";
}

std::string draw_node(const NodeMap& map, const std::string& name, size_t columns) {
  return NodeText(map, columns).text(name);
}

}  // namespace mfu
