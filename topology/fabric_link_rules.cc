// Rules about links, switches and names.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "topology/fabric_audit.hh"
#include "topology/fabric_peers.hh"
#include "topology/fabric_places.hh"

namespace mfu {
namespace {

// What a link carries is what its slower end says.
using Rate = std::pair<uint32_t, uint32_t>;  // lane_mbps, width

Rate rate_of(const FabricPort& a, const FabricPort& b) {
  return {std::min(a.lane_mbps, b.lane_mbps), std::min(a.width, b.width)};
}

std::string name_of(const Rate& rate) {
  FabricPort port;
  port.lane_mbps = rate.first;
  port.width = static_cast<uint8_t>(rate.second);
  return link_name(port);
}

// Links are peers if both their ends are: the role or level, and the model.
using EndKind = std::tuple<uint32_t, uint32_t, uint32_t>;
using LinkKind = std::pair<EndKind, EndKind>;

EndKind kind_of(const Fabric& fabric, const FabricRoles& roles, uint32_t node) {
  const bool named_or_not = roles.adapters[node] == AdapterRole::kUnnamed;
  const AdapterRole role = named_or_not ? AdapterRole::kHost : roles.adapters[node];
  return {static_cast<uint32_t>(role), roles.levels[node], fabric.nodes[node].device};
}

// The other end of a port; null if the fabric lacks it.
const FabricPort* other_end(const Fabric& fabric, const FabricPort& port) {
  const std::vector<FabricPort>& ports = fabric.nodes[port.peer].ports;
  const auto found = std::lower_bound(
      ports.begin(), ports.end(), port.peer_port,
      [](const FabricPort& other, uint32_t number) { return other.number < number; });
  return found == ports.end() || found->number != port.peer_port ? nullptr : &*found;
}

// A rate that so many have by a cable: splitters leave a half or a quarter. Links that came up
// slowly have less.
bool is_cabled_so(const PeerCount<Rate>& peers, const Rate& rate, const Rate& usual) {
  const auto total = [](const Rate& of) { return uint64_t{of.first} * of.second; };
  return peers.is_common(rate) && 4 * total(rate) >= total(usual);
}

struct Link {
  uint32_t node;  // the adapter, or the switch of the lower level
  const FabricPort* port;
  Rate rate;
  LinkKind kind;
};

std::vector<Link> known_links(const Fabric& fabric, const FabricRoles& roles) {
  std::vector<Link> links;
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    for (const FabricPort& port : fabric.nodes[i].ports) {
      const FabricPort* other = other_end(fabric, port);
      // Once, from the lower end.
      if (other == nullptr || std::tuple(roles.levels[i], i, port.number) >
                                  std::tuple(roles.levels[port.peer], port.peer, other->number)) {
        continue;
      }
      const Rate rate = rate_of(port, *other);
      if (rate.first == 0 || rate.second == 0) continue;
      links.push_back(
          {i, &port, rate, {kind_of(fabric, roles, i), kind_of(fabric, roles, port.peer)}});
    }
  }
  return links;
}

// How many links a leaf has to each other switch.
std::map<uint32_t, uint32_t> links_up(const Fabric& fabric, const FabricLeaf& leaf) {
  std::map<uint32_t, uint32_t> count;
  for (const FabricPort& port : fabric.nodes[leaf.node].ports) {
    if (fabric.nodes[port.peer].kind == FabricKind::kSwitch && port.peer != leaf.node) {
      ++count[port.peer];
    }
  }
  return count;
}

// The spines that a leaf has fewer links to than its peers.
std::string weak_spines(const Fabric& fabric, const FabricLeaf& leaf,
                        const std::map<uint32_t, PeerCount<uint32_t>>& usual) {
  constexpr uint32_t kNamed = 4;
  const std::map<uint32_t, uint32_t> own = links_up(fabric, leaf);
  std::string text;
  uint32_t weak = 0;
  for (const auto& [spine, peers] : usual) {
    const uint32_t* links = peers.usual();
    const auto found = own.find(spine);
    const uint32_t has = found == own.end() ? 0 : found->second;
    if (links == nullptr || has >= *links || ++weak > kNamed) continue;
    if (weak > 1) text += ", ";
    text.append(switch_place(fabric.nodes[spine])).append(" " + std::to_string(has));
    text.append(" of " + std::to_string(*links));
  }
  if (weak > kNamed) text += " and " + counted(weak - kNamed, "more spine");
  return text;
}

bool can_aggregate(const FabricNode& node) {
  constexpr uint32_t kMellanox = 0x2c9;
  // Switch-IB 2, Quantum, Quantum-2, Quantum-3.
  constexpr uint32_t kModels[] = {0xcf08, 0xd2f0, 0xd2f2, 0xd2f4};
  return node.kind == FabricKind::kSwitch && node.vendor == kMellanox &&
         std::find(std::begin(kModels), std::end(kModels), node.device) != std::end(kModels);
}

}  // namespace

std::vector<FabricFinding> find_slower_links(const Fabric& fabric, const FabricRoles& roles) {
  const std::vector<Link> links = known_links(fabric, roles);
  std::map<LinkKind, PeerCount<Rate>> peers;
  for (const Link& link : links) peers[link.kind].add(link.rate);
  std::vector<FabricFinding> findings;
  for (const Link& link : links) {
    const PeerCount<Rate>& own = peers[link.kind];
    const Rate* usual = own.usual();
    if (usual == nullptr ||
        (link.rate.first >= usual->first && link.rate.second >= usual->second) ||
        is_cabled_so(own, link.rate, *usual)) {
      continue;
    }
    const FabricNode& node = fabric.nodes[link.node];
    const FabricNode& peer = fabric.nodes[link.port->peer];
    std::string place = node.kind == FabricKind::kAdapter
                            ? adapter_place(fabric, roles, link.node)
                            : switch_place(node) + " port " + std::to_string(link.port->number);
    place += " to " + (peer.kind == FabricKind::kSwitch
                           ? switch_place(peer) + " port " + std::to_string(link.port->peer_port)
                           : adapter_place(fabric, roles, link.port->peer));
    const FabricNode& asked = peer.kind == FabricKind::kSwitch ? peer : node;
    const uint32_t port = &asked == &peer ? link.port->peer_port : link.port->number;
    const std::string command =
        "ibportstate -G " + guid_text(asked.guid) + " " + std::to_string(port);
    FabricFinding found{
        {"link-slower", Severity::kHigh, std::move(place),
         name_of(link.rate) + " where " + std::to_string(own.with(*usual)) + " of " +
             counted(own.peers(), "link") + " of its kind have " + name_of(*usual),
         command + " query; after a look at cable and transceiver " + command + " reset"},
        roles.host_of[link.node],
        kNoIndex};
    if (found.host == kNoIndex) found.leaf = roles.leaf_of[link.node];
    findings.push_back(std::move(found));
  }
  return findings;
}

std::vector<FabricFinding> find_weak_leaves(const Fabric& fabric, const FabricRoles& roles) {
  std::vector<FabricFinding> findings;
  for (const FabricPod& pod : roles.pods) {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> by_model;
    for (uint32_t unit : pod.units) {
      for (uint32_t leaf : roles.units[unit].leaves) {
        const FabricNode& node = fabric.nodes[roles.leaves[leaf].node];
        by_model[{node.device, node.port_count}].push_back(leaf);
      }
    }
    for (const auto& [model, leaves] : by_model) {
      PeerCount<uint32_t> peers;
      std::map<uint32_t, PeerCount<uint32_t>> to_spine;
      for (uint32_t leaf : leaves) peers.add(roles.leaves[leaf].uplinks);
      const uint32_t* usual = peers.usual();
      if (usual == nullptr) continue;
      for (uint32_t leaf : leaves) {
        for (const auto& [spine, links] : links_up(fabric, roles.leaves[leaf])) {
          to_spine[spine].add(links);
        }
      }
      for (uint32_t leaf : leaves) {
        const FabricLeaf& own = roles.leaves[leaf];
        if (own.uplinks >= *usual) continue;
        const std::string spines = weak_spines(fabric, own, to_spine);
        const FabricNode& node = fabric.nodes[own.node];
        findings.push_back(
            {{"leaf-uplinks", Severity::kWarning, "leaf " + switch_place(node),
              counted(own.uplinks, "uplink") + " where " + std::to_string(peers.with(*usual)) +
                  " of " + std::to_string(peers.peers()) + " leaves have " +
                  std::to_string(*usual) + (spines.empty() ? "" : "; links to " + spines),
              "iblinkinfo -S " + guid_text(node.guid) +
                  "; cables and transceivers of its ports that are down"},
             kNoIndex,
             leaf});
      }
    }
  }
  return findings;
}

std::vector<FabricFinding> find_unnamed_adapters(const Fabric& fabric, const FabricRoles& roles) {
  uint32_t adapters = 0;
  uint32_t nameless = 0;
  uint32_t nobodys = 0;
  std::string first;
  std::string nobodys_first;
  for (uint32_t i = 0; i < fabric.nodes.size(); ++i) {
    const AdapterRole role = roles.adapters[i];
    if (role == AdapterRole::kNone || role == AdapterRole::kAggregation) continue;
    ++adapters;
    if (role != AdapterRole::kUnnamed) continue;
    const bool has_device = !roles.devices[i].empty();
    std::string& example = has_device ? nobodys_first : first;
    ++(has_device ? nobodys : nameless);
    if (example.empty()) {
      example = "\"" + fabric.nodes[i].description + "\" " + guid_text(fabric.nodes[i].guid);
      for (const FabricPort& port : fabric.nodes[i].ports) {
        example += " at " + switch_place(fabric.nodes[port.peer]) + " port " +
                   std::to_string(port.peer_port);
      }
    }
  }
  const std::string of = " of " + counted(adapters, "adapter");
  const char* remedy =
      "start rdma-ndd on the hosts, or give mfu-topo the NodeGUIDs of its Slurm nodes";
  std::vector<FabricFinding> findings;
  if (nameless > 0) {
    findings.push_back(
        {{"adapter-unnamed", Severity::kInformation, "fabric",
          std::to_string(nameless) + of + " have no name, the first: " + first, remedy}});
  }
  if (nobodys > 0) {
    findings.push_back(
        {{"adapter-unnamed", Severity::kInformation, "fabric",
          std::to_string(nobodys) + of +
              " have an installer's name or one of two machines, the first: " + nobodys_first,
          remedy}});
  }
  return findings;
}

std::vector<FabricFinding> find_absent_sharp(const Fabric& fabric, const FabricRoles& roles) {
  uint32_t able = 0;
  uint32_t absent = 0;
  std::string first;
  for (const FabricNode& node : fabric.nodes) {
    if (!can_aggregate(node)) continue;
    ++able;
    const auto aggregates = [&roles](const FabricPort& port) {
      return roles.adapters[port.peer] == AdapterRole::kAggregation;
    };
    if (std::any_of(node.ports.begin(), node.ports.end(), aggregates)) continue;
    ++absent;
    if (first.empty()) first = switch_place(node);
  }
  if (absent == 0) return {};
  return {{{"sharp-absent", Severity::kInformation, "fabric",
            std::to_string(absent) + " of " + std::to_string(able) +
                " switches that can aggregate have no aggregation node, the first: " + first,
            "sharp_am and UFM: is SHARP licensed and switched on?"}}};
}

}  // namespace mfu
