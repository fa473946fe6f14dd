// From above: the island's core switches, then each pod with its spines, and rows of units. A unit
// is a column of its leaves. Buses at the left tell how many links go up: drawn one by one, the
// links of a fabric are a black square.
#include <algorithm>

#include "topology/fabric_picture.hh"
#include "topology/fabric_places.hh"
#include "topology/svg_drawing.hh"

namespace mfu {
namespace {

constexpr double kUnit = 146, kLeaf = 17, kGap = 10, kBus = 34;
constexpr size_t kUnitsOfRow = 8;
constexpr size_t kMostSwitches = 40;  // drawn one by one
constexpr double kWidth = kUnitsOfRow * (kUnit + kGap) + 2 * kBus + 3 * kGap;

const char* style_of(const FindingCount& findings) {
  return findings.empty() ? "good" : severity_name(findings.worst);
}

class FabricDrawing {
 public:
  explicit FabricDrawing(const FabricPicture& picture)
      : picture_(picture), roles_(picture.roles), figures_(picture.figures) {}

  std::string file() {
    std::string title = "Fabric " + picture_.name;
    if (picture_.taken_at != 0) title += ", taken at " + time_text(picture_.taken_at);
    drawing_.words(kGap, 24, title, "head", kWidth);
    drawing_.words(kGap, 42, fabric_summary(picture_), "note", kWidth - 2 * kGap);
    draw_legend(54);
    double y = 86;
    for (uint32_t pod = 0; pod < roles_.pods.size();) {
      const uint32_t island = roles_.pods[pod].island;
      y = draw_cores(island, y);
      const double bus = y - 2 * kGap;
      double last = bus;
      for (; pod < roles_.pods.size() && roles_.pods[pod].island == island; ++pod) {
        if (has_cores(island)) drawing_.line(kGap + 8, y + 26, kBus, y + 26, "up");
        last = y + 26;
        y = draw_pod(pod, y) + kGap;
      }
      if (has_cores(island)) drawing_.line(kGap + 8, bus, kGap + 8, last, "up");
      y += kGap;
    }
    return drawing_.file(kWidth, y, title);
  }

 private:
  void draw_legend(double y) {
    double x = kGap;
    for (const char* style : {"good", "information", "warning", "high"}) {
      drawing_.box({x, y, 12, 12}, style);
      drawing_.words(x + 17, y + 10, style == std::string_view("good") ? "nothing found" : style,
                     "note");
      x += 110;
    }
    drawing_.words(x, y + 10,
                   "a leaf: rail, name, ports to hosts / uplinks; hold the mouse over it for more",
                   "note");
  }

  bool has_cores(uint32_t island) const {
    return std::any_of(roles_.pods.begin(), roles_.pods.end(), [&](const FabricPod& pod) {
      const auto index = static_cast<size_t>(&pod - roles_.pods.data());
      return pod.island == island && !figures_.pods[index].spine_uplinks.empty();
    });
  }

  // Switches above an island's spines.
  std::vector<uint32_t> cores_of(uint32_t island) const {
    std::vector<uint32_t> front, cores;
    std::vector<bool> seen(picture_.fabric.nodes.size());
    for (size_t pod = 0; pod < roles_.pods.size(); ++pod) {
      if (roles_.pods[pod].island != island) continue;
      const auto& spines = figures_.pods[pod].spines;
      front.insert(front.end(), spines.begin(), spines.end());
    }
    while (!front.empty()) {
      const uint32_t node = front.back();
      front.pop_back();
      for (const FabricPort& port : picture_.fabric.nodes[node].ports) {
        if (roles_.levels[port.peer] <= 2 || seen[port.peer]) continue;
        seen[port.peer] = true;
        front.push_back(port.peer);
        cores.push_back(port.peer);
      }
    }
    std::sort(cores.begin(), cores.end());
    return cores;
  }

  double draw_cores(uint32_t island, double y) {
    if (roles_.islands > 1) {
      drawing_.words(kGap, y + 12, "Island " + std::to_string(island), "name");
      y += 20;
    }
    const std::vector<uint32_t> cores = cores_of(island);
    if (cores.empty()) return y;
    draw_switches(cores, "core switch", "core switches", kGap, kWidth - 2 * kGap, y);
    return y + 26 + 2 * kGap;
  }

  void draw_switches(const std::vector<uint32_t>& switches, const char* one, const char* many,
                     double x, double width, double y) {
    const std::string all =
        std::to_string(switches.size()) + " " + (switches.size() == 1 ? one : many);
    if (switches.size() > kMostSwitches) {
      drawing_.box({x, y, width, 26}, "switch");
      drawing_.words(x + width / 2, y + 17, all, "name middle");
      return;
    }
    const double label = 120;
    drawing_.words(x, y + 17, all, "name");
    const double step = (width - label) / static_cast<double>(std::max<size_t>(switches.size(), 1));
    for (size_t i = 0; i < switches.size(); ++i) {
      const std::string name = switch_place(picture_.fabric.nodes[switches[i]]);
      const double left = x + label + static_cast<double>(i) * step;
      drawing_.box({left, y, std::min(step - 4, 200.0), 26}, "switch", name);
      if (step > 50) drawing_.words(left + 4, y + 17, name, "note", std::min(step - 4, 200.0) - 6);
    }
  }

  double draw_pod(uint32_t pod, double top) {
    const FabricPod& of = roles_.pods[pod];
    const PodFigures& figures = figures_.pods[pod];
    const size_t rows = (of.units.size() + kUnitsOfRow - 1) / kUnitsOfRow;
    double height = 76;
    for (size_t row = 0; row < rows; ++row) height += row_height(of, row);
    drawing_.box({kBus, top, kWidth - kBus - kGap, height}, "outer");
    std::string head = "Pod " + std::to_string(pod) + ": " + counted(of.units.size(), "unit") +
                       ", " + counted(figures.hosts, "host") +
                       "; links: " + rates_text(figures.host_links) + " to hosts, " +
                       rates_text(figures.uplinks) + " to spines";
    if (!figures.spine_uplinks.empty()) head += ", " + rates_text(figures.spine_uplinks) + " above";
    drawing_.words(kBus + kGap, top + 18, head, "name", kWidth - kBus - 3 * kGap);
    const double bus = kBus + kGap + 8;
    double y = top + 66;
    if (!figures.spines.empty()) {
      draw_switches(figures.spines, "spine", "spines", kBus + kGap, kWidth - kBus - 3 * kGap,
                    top + 28);
      drawing_.line(bus, top + 50, bus, y + bus_end(of, rows), "up");
    }
    for (size_t row = 0; row < rows; ++row) {
      draw_row(of, row, y, bus, !figures.spines.empty());
      y += row_height(of, row);
    }
    return top + height;
  }

  double bus_end(const FabricPod& pod, size_t rows) const {
    double end = 0;
    for (size_t row = 0; row + 1 < rows; ++row) end += row_height(pod, row);
    return end;
  }

  double row_height(const FabricPod& pod, size_t row) const {
    size_t most = 1;
    for (size_t i = row * kUnitsOfRow; i < std::min(pod.units.size(), (row + 1) * kUnitsOfRow);
         ++i) {
      most = std::max(most, roles_.units[pod.units[i]].leaves.size());
    }
    return static_cast<double>(most) * kLeaf + 62;
  }

  void draw_row(const FabricPod& pod, size_t row, double y, double bus, bool linked) {
    const size_t end = std::min(pod.units.size(), (row + 1) * kUnitsOfRow);
    double x = kBus + kGap + kBus;
    for (size_t i = row * kUnitsOfRow; i < end; ++i) {
      const double middle = x + kUnit / 2;
      if (linked) {
        drawing_.line(bus, y, middle, y, "up");
        drawing_.line(middle, y, middle, y + 14, "up");
      }
      draw_unit(pod.units[i], x, y + 14);
      x += kUnit + kGap;
    }
  }

  void draw_unit(uint32_t unit, double x, double y) {
    const FabricUnit& of = roles_.units[unit];
    const UnitFigures& figures = figures_.units[unit];
    const double height = static_cast<double>(of.leaves.size()) * kLeaf + 34;
    const std::string title = "Unit " + std::to_string(unit) + ": " + figures.hosts +
                              (figures.findings.empty() ? "" : "; " + figures.findings.text());
    drawing_.box({x, y, kUnit, height}, style_of(figures.findings), title);
    double leaf_y = y + 3;
    for (const uint32_t leaf : of.leaves) {
      draw_leaf(leaf, x + 3, leaf_y);
      leaf_y += kLeaf;
    }
    drawing_.words(x + 4, y + height - 18,
                   "unit " + std::to_string(unit) + ": " + counted(of.hosts.size(), "host"),
                   "unit");
    drawing_.words(x + 4, y + height - 6, figures.hosts, "note", kUnit - 6);
  }

  void draw_leaf(uint32_t index, double x, double y) {
    const FabricLeaf& leaf = roles_.leaves[index];
    const LeafFigures& figures = figures_.leaves[index];
    const std::string rail = leaf.rail == kNoIndex ? "-" : std::to_string(leaf.rail);
    const std::string counts = std::to_string(leaf.host_ports) + "/" + std::to_string(leaf.uplinks);
    drawing_.box({x, y, kUnit - 6, kLeaf - 3}, style_of(figures.findings),
                 figures.name + ", rail " + rail + " " + leaf.device + ": " +
                     rates_text(figures.host_links) + " to hosts, " + rates_text(figures.uplinks) +
                     " up" + (figures.findings.empty() ? "" : "; " + figures.findings.text()));
    // The end of a name tells more than its beginning.
    const size_t room = 20 - std::min<size_t>(counts.size() + rail.size(), 14);
    const std::string name =
        figures.name.size() > room ? figures.name.substr(figures.name.size() - room) : figures.name;
    drawing_.words(x + 3, y + 11, rail + " " + name + " " + counts, "leaf", kUnit - 8);
  }

  const FabricPicture& picture_;
  const FabricRoles& roles_;
  const FabricFigures& figures_;
  SvgDrawing drawing_;
};

}  // namespace

std::string draw_fabric_svg(const FabricPicture& picture) {
  return FabricDrawing(picture).file();
}

}  // namespace mfu
