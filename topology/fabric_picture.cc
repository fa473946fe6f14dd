#include "topology/fabric_picture.hh"

#include <algorithm>
#include <ctime>

#include "topology/fabric_places.hh"
#include "topology/text_table.hh"

namespace mfu {
namespace {

std::string leaves_text(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " leaf" : " leaves");
}

// Rows of a pod's table; equal ones of different units are told once.
struct Row {
  std::vector<uint32_t> units;  // empty: the unit of the row before
  uint32_t hosts = 0;           // of each unit
  std::string nodes, rail, leaf, device, ports, uplinks, findings;
  bool quiet = false;  // nothing found: may be joined with others

  bool like(const Row& other) const {
    return quiet && other.quiet && hosts == other.hosts && rail == other.rail &&
           device == other.device && ports == other.ports && uplinks == other.uplinks;
  }
};

class FabricText {
 public:
  FabricText(const FabricPicture& picture, size_t columns, bool all)
      : picture_(picture),
        roles_(picture.roles),
        figures_(picture.figures),
        columns_(columns),
        all_(all) {}

  std::string text() {
    std::string title = "Fabric " + printable(picture_.name);
    if (picture_.taken_at != 0) title += ", taken at " + time_text(picture_.taken_at);
    text_ = title + "\n";
    for (const std::string& line : wrapped(fabric_summary(picture_), columns_))
      text_ += line + "\n";
    for (uint32_t pod = 0; pod < roles_.pods.size();) pod = add_pods(pod);
    if (!figures_.elsewhere.empty()) {
      FindingCount count;
      for (const Finding& finding : figures_.elsewhere) count.add(finding);
      text_ += "\nNeither of a unit's hosts nor of its leaves: " + count.text() + "\n";
    }
    if (!figures_.findings.empty()) text_ += "\nmfu-topo audit tells what was found.\n";
    return std::move(text_);
  }

 private:
  std::vector<Row> rows_of(uint32_t unit) const {
    std::vector<Row> rows;
    const FabricUnit& of = roles_.units[unit];
    std::vector<uint32_t> rails;
    bool equal = !all_ && of.leaves.size() > 1;
    for (const uint32_t leaf : of.leaves) {
      const FabricLeaf& own = roles_.leaves[leaf];
      const FabricLeaf& first = roles_.leaves[of.leaves.front()];
      equal = equal && figures_.leaves[leaf].findings.empty() &&
              figures_.leaves[leaf].host_links == figures_.leaves[of.leaves.front()].host_links &&
              own.uplinks == first.uplinks && own.rail != kNoIndex;
      rails.push_back(own.rail);
      Row row;
      row.rail = own.rail == kNoIndex ? "-" : std::to_string(own.rail);
      row.leaf = figures_.leaves[leaf].name;
      row.device = own.device;
      row.ports = ports_text(leaf);
      row.uplinks = std::to_string(own.uplinks);
      row.findings = figures_.leaves[leaf].findings.text();
      rows.push_back(std::move(row));
    }
    if (equal) {
      Row row = rows.front();
      row.rail = ranges_text(rails);
      row.leaf = leaves_text(rows.size()) + ", " + row.leaf + " ...";
      row.device = row.device.empty() || rows.back().device.empty() ? "" : row.device + " ...";
      row.ports += " each";
      row.uplinks += " each";
      rows = {std::move(row)};
    }
    if (rows.empty()) rows.emplace_back();
    Row& head = rows.front();
    head.units = {unit};
    head.hosts = static_cast<uint32_t>(of.hosts.size());
    head.nodes = figures_.units[unit].hosts;
    const FindingCount& hosts = figures_.units[unit].findings;
    head.quiet = !all_ && rows.size() == 1 && head.findings.empty() && hosts.empty();
    if (!hosts.empty()) {
      head.findings = hosts.text() + (head.findings.empty() ? "" : "; leaf: ") + head.findings;
    }
    return rows;
  }

  std::string ports_text(uint32_t leaf) const {
    const LinkRates& links = figures_.leaves[leaf].host_links;
    return links.size() > 1 ? rates_text(links) : std::to_string(links_of(links));
  }

  std::vector<Row> rows_of_pod(const FabricPod& pod) const {
    std::vector<Row> rows;
    for (const uint32_t unit : pod.units) {
      for (Row& row : rows_of(unit)) {
        const auto like = std::find_if(rows.begin(), rows.end(),
                                       [&row](const Row& other) { return row.like(other); });
        if (like == rows.end() || row.units.empty()) {
          rows.push_back(std::move(row));
        } else {
          like->units.push_back(unit);
        }
      }
    }
    for (Row& row : rows) {
      if (row.units.size() > 1) row.nodes = hosts_text(roles_, row.units);
    }
    return rows;
  }

  // Pods with nothing found and equal rows.
  bool alike(uint32_t a, uint32_t b) const {
    const PodFigures& x = figures_.pods[a];
    const PodFigures& y = figures_.pods[b];
    if (all_ || roles_.pods[a].island != roles_.pods[b].island || !x.findings.empty() ||
        !y.findings.empty() || x.spines.size() != y.spines.size() || x.host_links != y.host_links ||
        x.uplinks != y.uplinks || x.spine_uplinks != y.spine_uplinks || x.hosts != y.hosts) {
      return false;
    }
    const std::vector<Row> first = rows_of_pod(roles_.pods[a]);
    const std::vector<Row> second = rows_of_pod(roles_.pods[b]);
    return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                      [](const Row& row, const Row& other) {
                        return row.like(other) && row.units.size() == other.units.size();
                      });
  }

  // Returns the next pod.
  uint32_t add_pods(uint32_t pod) {
    uint32_t next = pod + 1;
    while (next < roles_.pods.size() && alike(pod, next)) ++next;
    const PodFigures& figures = figures_.pods[pod];
    std::string head =
        next == pod + 1 ? "Pod " + std::to_string(pod)
                        : "Pods " + std::to_string(pod) + "-" + std::to_string(next - 1) + ", each";
    if (roles_.islands > 1) head += " in island " + std::to_string(roles_.pods[pod].island);
    head += ": " + counted(roles_.pods[pod].units.size(), "unit") + ", " +
            counted(figures.hosts, "host") + ", " + leaves_text(figures.leaves) + ", " +
            counted(figures.spines.size(), "spine") + "; links: " + rates_text(figures.host_links) +
            " to hosts, " + rates_text(figures.uplinks) + " to spines";
    if (!figures.spine_uplinks.empty()) head += ", " + rates_text(figures.spine_uplinks) + " above";
    text_ += "\n";
    for (const std::string& line : wrapped(head, columns_)) text_ += line + "\n";
    const std::vector<Row> rows = rows_of_pod(roles_.pods[pod]);
    // Names get what the other columns leave.
    size_t names = 0;
    for (const Row& row : rows) names = std::max(names, row.nodes.size());
    TextTable table = table_of(rows, names);
    if (table.width() > columns_) {
      constexpr size_t kLeast = 20;
      const size_t less = table.width() - columns_;
      table = table_of(rows, names > less + kLeast ? names - less : kLeast);
    }
    text_ += table.text("");
    return next;
  }

  static TextTable table_of(const std::vector<Row>& rows, size_t names) {
    TextTable table;
    const bool found =
        std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.findings.empty(); });
    table.add({"UNIT", "HOSTS", "NODES", "RAIL", "LEAF", "DEVICE", "PORTS", "UPLINKS",
               found ? "FOUND" : ""});
    for (const Row& row : rows) {
      const bool head = !row.units.empty();
      table.add({head ? ranges_text(row.units) : "",
                 head ? std::to_string(row.hosts) + (row.units.size() > 1 ? " each" : "") : "",
                 shortened(row.nodes, names), row.rail, row.leaf, row.device, row.ports,
                 row.uplinks, row.findings});
    }
    return table;
  }

  const FabricPicture& picture_;
  const FabricRoles& roles_;
  const FabricFigures& figures_;
  size_t columns_;
  bool all_;
  std::string text_;
};

}  // namespace

std::string time_text(int64_t seconds) {
  if (seconds == 0) return {};
  const auto time = static_cast<time_t>(seconds);
  std::tm parts = {};
  char text[64];
  if (gmtime_r(&time, &parts) == nullptr) return {};
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string fabric_summary(const FabricPicture& picture) {
  const FabricFigures& figures = picture.figures;
  const FabricRoles& roles = picture.roles;
  std::string adapters;
  auto part = [&adapters](uint32_t count, const char* what) {
    if (count > 0) adapters += (adapters.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  part(figures.unnamed, "without a known host");
  part(figures.service, "of service hosts");
  part(figures.aggregation, "in switches");
  std::vector<uint32_t> spines;
  for (const PodFigures& pod : figures.pods) {
    spines.insert(spines.end(), pod.spines.begin(), pod.spines.end());
  }
  std::sort(spines.begin(), spines.end());
  spines.erase(std::unique(spines.begin(), spines.end()), spines.end());
  std::string text =
      counted(roles.hosts.size(), "host") + ", " + counted(figures.adapters, "adapter") +
      (adapters.empty() ? "" : " (" + adapters + ")") + ", " + std::to_string(figures.switches) +
      (figures.switches == 1 ? " switch (" : " switches (") + leaves_text(roles.leaves.size()) +
      ", " + counted(spines.size(), "spine") + ", " + std::to_string(figures.cores) + " core), " +
      counted(roles.rails, "rail") + "; " + counted(roles.islands, "island") + ", " +
      counted(roles.pods.size(), "pod") + ", " + counted(roles.units.size(), "unit");
  return text;
}

std::string draw_fabric(const FabricPicture& picture, size_t columns, bool all) {
  return FabricText(picture, columns, all).text();
}

}  // namespace mfu
