#include "topology/fabric_figures.hh"

#include <algorithm>

#include "topology/fabric_places.hh"
#include "topology/host_list.hh"

namespace mfu {
namespace {

void merge(const LinkRates& from, LinkRates* into) {
  for (const auto& [rate, links] : from) (*into)[rate] += links;
}

LeafFigures leaf_figures(const Fabric& fabric, const FabricRoles& roles, const FabricLeaf& leaf) {
  const FabricNode& node = fabric.nodes[leaf.node];
  LeafFigures figures;
  figures.name = switch_place(node);
  for (const FabricPort& port : node.ports) {
    const AdapterRole role = roles.adapters[port.peer];
    if (fabric.nodes[port.peer].kind == FabricKind::kSwitch) {
      if (port.peer != leaf.node) ++figures.uplinks[link_name(port)];
    } else if (role == AdapterRole::kHost || role == AdapterRole::kUnnamed) {
      ++figures.host_links[link_name(port)];
    }
  }
  return figures;
}

void add_spines(const Fabric& fabric, const FabricRoles& roles, const FabricPod& pod,
                PodFigures* figures) {
  for (const uint32_t unit : pod.units) {
    for (const uint32_t leaf : roles.units[unit].leaves) {
      for (const FabricPort& port : fabric.nodes[roles.leaves[leaf].node].ports) {
        if (roles.levels[port.peer] == 2) figures->spines.push_back(port.peer);
      }
    }
  }
  std::sort(figures->spines.begin(), figures->spines.end());
  figures->spines.erase(std::unique(figures->spines.begin(), figures->spines.end()),
                        figures->spines.end());
  for (const uint32_t spine : figures->spines) {
    for (const FabricPort& port : fabric.nodes[spine].ports) {
      if (roles.levels[port.peer] > 2) ++figures->spine_uplinks[link_name(port)];
    }
  }
}

void count_nodes(const Fabric& fabric, const FabricRoles& roles, FabricFigures* figures) {
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    figures->switches += fabric.nodes[i].kind == FabricKind::kSwitch;
    figures->adapters += fabric.nodes[i].kind == FabricKind::kAdapter;
    figures->cores += roles.levels[i] > 2;
    figures->unnamed += roles.adapters[i] == AdapterRole::kUnnamed;
    figures->service += roles.adapters[i] == AdapterRole::kService;
    figures->aggregation += roles.adapters[i] == AdapterRole::kAggregation;
  }
}

}  // namespace

uint64_t links_of(const LinkRates& rates) {
  uint64_t links = 0;
  for (const auto& [rate, count] : rates) links += count;
  return links;
}

std::string rates_text(const LinkRates& rates) {
  std::vector<std::pair<uint32_t, std::string>> by_count;
  for (const auto& [rate, links] : rates) by_count.emplace_back(links, rate);
  std::stable_sort(by_count.begin(), by_count.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < by_count.size(); ++i) {
    if (i > 0) text += i + 1 == by_count.size() ? " and " : ", ";
    text += std::to_string(by_count[i].first) + " " + by_count[i].second;
  }
  return text.empty() ? "none" : text;
}

void FindingCount::add(const Finding& finding) {
  worst = empty() ? finding.severity : std::max(worst, finding.severity);
  ++rules[finding.rule];
}

std::string FindingCount::text() const {
  std::string text;
  for (const auto& [rule, count] : rules) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + rule;
  }
  return text;
}

std::string hosts_text(const FabricRoles& roles, std::span<const uint32_t> units) {
  std::vector<std::string> names;
  for (const uint32_t unit : units) {
    for (const uint32_t host : roles.units[unit].hosts) names.push_back(roles.hosts[host].name);
  }
  return compress_hosts(std::move(names));
}

std::string ranges_text(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end > i + 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

FabricFigures fabric_figures(const Fabric& fabric, const FabricRoles& roles,
                             const std::vector<FabricFinding>& findings) {
  FabricFigures figures;
  count_nodes(fabric, roles, &figures);
  for (const FabricLeaf& leaf : roles.leaves) {
    figures.leaves.push_back(leaf_figures(fabric, roles, leaf));
  }
  for (uint32_t unit = 0; unit < roles.units.size(); ++unit) {
    figures.units.push_back({hosts_text(roles, {&unit, 1}), {}});
  }
  figures.pods.resize(roles.pods.size());
  for (const FabricFinding& found : findings) {
    figures.findings.add(found.finding);
    uint32_t unit = kNoIndex;
    if (found.leaf != kNoIndex) {
      unit = roles.leaves[found.leaf].unit;
      figures.leaves[found.leaf].findings.add(found.finding);
    } else if (found.host != kNoIndex && (unit = roles.hosts[found.host].unit) != kNoIndex) {
      figures.units[unit].findings.add(found.finding);
    }
    if (unit == kNoIndex) {
      figures.elsewhere.push_back(found.finding);
    } else {
      figures.pods[roles.units[unit].pod].findings.add(found.finding);
    }
  }
  for (size_t p = 0; p < roles.pods.size(); ++p) {
    PodFigures& pod = figures.pods[p];
    for (const uint32_t unit : roles.pods[p].units) {
      pod.hosts += static_cast<uint32_t>(roles.units[unit].hosts.size());
      pod.leaves += static_cast<uint32_t>(roles.units[unit].leaves.size());
      for (const uint32_t leaf : roles.units[unit].leaves) {
        merge(figures.leaves[leaf].host_links, &pod.host_links);
        merge(figures.leaves[leaf].uplinks, &pod.uplinks);
      }
    }
    add_spines(fabric, roles, roles.pods[p], &pod);
  }
  return figures;
}

}  // namespace mfu
