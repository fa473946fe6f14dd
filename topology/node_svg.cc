// Sockets stand side by side, in each its NUMA nodes, in each the PCIe switches with what is below
// them. GPUs are lowest, on one line, so that NVLinks have the room below.
#include <algorithm>
#include <map>

#include "topology/fabric_places.hh"
#include "topology/host_list.hh"
#include "topology/node_picture.hh"
#include "topology/pcie_link.hh"
#include "topology/step_gpus.hh"
#include "topology/svg_drawing.hh"

namespace mfu {
namespace {

constexpr double kColumn = 132;  // of a switch
constexpr double kGap = 10;
constexpr double kDevice = 40;  // height
constexpr double kHead = 34;
constexpr double kTop = 44;
constexpr size_t kMostOfSwitch = 8;  // adapters: virtual functions come in hundreds

// What hangs below one switch, or at one host bridge.
struct Branch {
  std::string name;
  std::vector<size_t> nics, gpus;
};

// The switch that a device hangs at: the port that its bridges share with others of the switch.
std::string branch_of(const NodeMap& map, const PciDevice& pci) {
  const size_t inside = map.whole_switches ? 1 : 2;
  if (pci.bridges.size() > inside || (map.whole_switches && !pci.bridges.empty())) {
    return "PCIe switch " + pci.bridges[pci.bridges.size() - inside];
  }
  return pci.host_bridge < 0 ? "PCI" : "host bridge " + std::to_string(pci.host_bridge);
}

using Branches = std::map<std::string, Branch>;
struct NumaBox {
  std::string name;
  CpuSet cpus;
  Branches branches;
  double width() const {
    const auto count = static_cast<double>(std::max<size_t>(branches.size(), 1));
    return count * (kColumn + kGap) + kGap;
  }
};
using Socket = std::map<int32_t, NumaBox>;

class NodeDrawing {
 public:
  explicit NodeDrawing(const NodeMap& map)
      : map_(map), gpu_labels_(gpu_labels(map)), nic_labels_(nic_labels(map)) {
    collect();
  }

  std::string file(const std::string& name) {
    size_t most_nics = 0, most_gpus = 0;
    for (const auto& [package, socket] : sockets_) {
      for (const auto& [numa, box] : socket) {
        for (const auto& [key, branch] : box.branches) {
          most_nics = std::max(most_nics, std::min(branch.nics.size(), kMostOfSwitch + 1));
          most_gpus = std::max(most_gpus, branch.gpus.size());
        }
      }
    }
    const double step = kDevice + kGap;
    nics_at_ = kTop + 2 * kHead + 40;
    gpus_at_ = nics_at_ + static_cast<double>(most_nics) * step;
    bottom_ = gpus_at_ + static_cast<double>(most_gpus) * step;
    double x = kGap;
    for (const auto& [package, socket] : sockets_) {
      if (package >= 0) x = draw_socket(package, socket, x) + kGap;
    }
    if (sockets_.count(-1) > 0) x = draw_socket(-1, sockets_[-1], x) + kGap;
    const double height = draw_nvlinks(x) + 20;
    drawing_.words(kGap, 24, "Node " + name, "head");
    // The title's letters are 9 pixels wide.
    const double title = 9.2 * static_cast<double>(name.size() + 5) + 2 * kGap;
    return drawing_.file(std::max(x, title), height, "Node " + name);
  }

 private:
  NumaBox& numa_of(const PciDevice& pci) { return sockets_[pci.package][pci.numa]; }

  void collect() {
    for (const NumaNode& node : map_.numa) {
      if (node.gpu_memory) continue;
      // NUMA nodes do not know their socket: a device of theirs does.
      int32_t package = -1;
      auto ask = [&](const PciDevice& pci) {
        if (pci.numa == node.os_index && pci.package >= 0) package = pci.package;
      };
      for (const Gpu& gpu : map_.gpus) ask(gpu.pci);
      for (const Nic& nic : map_.nics) ask(nic.pci);
      if (map_.packages == 1 && package < 0) package = 0;
      NumaBox& box = sockets_[package][node.os_index];
      box.cpus = node.cpus;
    }
    for (const size_t gpu : gpu_order(map_)) branch(map_.gpus[gpu].pci).gpus.push_back(gpu);
    for (const size_t nic : nic_order(map_)) branch(map_.nics[nic].pci).nics.push_back(nic);
  }

  Branch& branch(const PciDevice& pci) {
    const std::string name = branch_of(map_, pci);
    Branch& found = numa_of(pci).branches[name];
    found.name = name;
    return found;
  }

  static std::string socket_label(int32_t package, const Socket& socket) {
    if (package >= 0) return "Socket " + std::to_string(package);
    const bool bare = std::all_of(socket.begin(), socket.end(),
                                  [](const auto& box) { return box.second.branches.empty(); });
    return bare ? "NUMA nodes without devices" : "Socket unknown";
  }

  double draw_socket(int32_t package, const Socket& socket, double left) {
    double x = left + kGap;
    double width = kGap;
    for (const auto& [numa, box] : socket) width += box.width() + kGap;
    drawing_.box({left, kTop, width, bottom_ - kTop + 2 * kGap}, "outer");
    drawing_.words(left + kGap, kTop + 20, socket_label(package, socket), "name", width);
    for (const auto& [numa, box] : socket) {
      const double top = kTop + kHead;
      drawing_.box({x, top, box.width(), bottom_ - top + kGap}, "inner", "CPUs " + box.cpus.text());
      drawing_.words(x + kGap, top + 16, numa < 0 ? "NUMA ?" : "NUMA " + std::to_string(numa),
                     "name");
      if (!box.cpus.empty()) {
        drawing_.words(x + kGap, top + 30, "CPUs " + box.cpus.text(), "note",
                       box.width() - 2 * kGap);
      }
      double column = x + kGap;
      for (const auto& [key, branch] : box.branches) {
        draw_branch(branch, column);
        column += kColumn + kGap;
      }
      x += box.width() + kGap;
    }
    return left + width;
  }

  void draw_branch(const Branch& branch, double x) {
    const double top = kTop + 2 * kHead + 6;
    const double bus = x + 5;
    drawing_.box({x, top, kColumn, 22}, "switch", branch.name);
    const size_t blank = branch.name.find("0000:");
    std::string label = branch.name;
    if (blank != std::string::npos) {
      label.erase(blank, 5);
    } else if (label.starts_with("PCIe ")) {
      label.erase(0, 5);
    }
    drawing_.words(x + kColumn / 2, top + 15, label, "middle", kColumn);
    double y = nics_at_;
    double last = top;
    auto stub = [&](double at) {
      drawing_.line(bus, at + kDevice / 2, x + 16, at + kDevice / 2, "pci");
      last = at + kDevice / 2;
    };
    for (size_t i = 0; i < branch.nics.size() && i < kMostOfSwitch; ++i) {
      draw_nic(branch.nics[i], x + 16, y);
      stub(y);
      y += kDevice + kGap;
    }
    if (branch.nics.size() > kMostOfSwitch) {
      drawing_.words(x + 20, y + 14,
                     "and " + std::to_string(branch.nics.size() - kMostOfSwitch) + " more NICs",
                     "note");
    }
    y = bottom_ - static_cast<double>(branch.gpus.size()) * (kDevice + kGap);
    for (const size_t gpu : branch.gpus) {
      draw_gpu(gpu, x + 16, y);
      stub(y);
      y += kDevice + kGap;
    }
    drawing_.line(bus, top + 22, bus, last, "pci");
  }

  static std::string link_of(const PciDevice& pci) {
    return pci.link.width == 0 ? "" : ", PCIe " + pcie_text(pci.link.speed_mts, pci.link.width);
  }

  void draw_nic(size_t index, double x, double y) {
    const Nic& nic = map_.nics[index];
    const double width = kColumn - 16;
    const char* style = !nic.rdma || !nic.known() ? "nic-unknown"
                        : nic.active()            ? "nic"
                                                  : "nic-down";
    const std::string guid = nic.node_guid == 0 ? "" : ", node GUID " + guid_text(nic.node_guid);
    drawing_.box(
        {x, y, width, kDevice}, style,
        nic.name + " " + nic.pci.bus_id + link_of(nic.pci) + ", " + ports_text(nic) + guid);
    drawing_.words(x + 5, y + 15, nic_labels_[index], "name", width - 8);
    drawing_.words(x + 5, y + 31, nic.rdma ? ports_text(nic) : "no RDMA", "note", width - 8);
  }

  void draw_gpu(size_t index, double x, double y) {
    const Gpu& gpu = map_.gpus[index];
    const double width = kColumn - 16;
    drawing_.box({x, y, width, kDevice}, "gpu",
                 short_name(gpu) + " " + gpu.pci.bus_id + link_of(gpu.pci) + " " + gpu.model + " " +
                     gpu.uuid);
    drawing_.words(x + 5, y + 15, gpu_labels_[index], "name", width - 8);
    drawing_.words(x + 5, y + 31, gpu.model.empty() ? gpu.pci.bus_id : gpu.model, "note",
                   width - 8);
    if (place_.size() <= index) place_.resize(map_.gpus.size());
    // Links go down at the right, each GPU's of a column a bit more to the left.
    place_[index] = {x + width - 8 - 9 * ((bottom_ - y) / (kDevice + kGap) - 1), y + kDevice};
  }

  // Where the picture ends.
  double draw_nvlinks(double width) {
    const size_t count = map_.gpus.size();
    const double from = bottom_ + 3 * kGap;
    if (map_.nvlinks.empty() || count < 2) return from;
    size_t pairs = 0;
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = a + 1; b < count; ++b) pairs += map_.nvlinked(a, b);
    }
    if (pairs == 0) return from;
    const bool all = pairs == count * (count - 1) / 2;
    std::vector<bool> linked(count);
    double deepest = 0;
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = a + 1; b < count; ++b) {
        if (!map_.nvlinked(a, b)) continue;
        linked[a] = linked[b] = true;
        if (all) continue;
        drawing_.arc(place_[a].first, place_[b].first, from, "nvlink");
        deepest = std::max(deepest, std::abs(place_[a].first - place_[b].first) / 9);
      }
    }
    for (size_t a = 0; a < count; ++a) {
      if (linked[a])
        drawing_.line(place_[a].first, place_[a].second, place_[a].first, from, "nvlink");
    }
    if (!all) {
      drawing_.words(kGap, from + deepest + 26,
                     "NVLink: " + std::to_string(pairs) + " pairs of GPUs", "name");
      return from + deepest + 36;
    }
    drawing_.box({kGap, from, width - 2 * kGap, 24}, "nvlink");
    drawing_.words(width / 2, from + 16, "NVLink between all " + std::to_string(count) + " GPUs",
                   "name middle");
    return from + 24;
  }

  const NodeMap& map_;
  std::vector<std::string> gpu_labels_, nic_labels_;
  std::map<int32_t, Socket> sockets_;
  std::vector<std::pair<double, double>> place_;  // of each GPU, where its links begin
  double nics_at_ = 0, gpus_at_ = 0, bottom_ = 0;
  SvgDrawing drawing_;
};

}  // namespace

std::string draw_node_svg(const NodeMap& map, const std::string& name) {
  return NodeDrawing(map).file(name);
}

}  // namespace mfu
