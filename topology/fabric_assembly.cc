#include "topology/fabric_assembly.hh"

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>

namespace mfu {
namespace {

std::string name_of(const FabricNode& node) {
  char guid[24];
  snprintf(guid, sizeof guid, "0x%016llx", static_cast<unsigned long long>(node.guid));
  return guid;
}

bool before(const ToldLink& a, const ToldLink& b) {
  return std::tie(a.node, a.port.number) < std::tie(b.node, b.port.number);
}

}  // namespace

tl::expected<uint32_t, FabricError> FabricAssembly::add_node(FabricNode node, uint32_t line) {
  const uint32_t index = static_cast<uint32_t>(fabric_.nodes.size());
  if (index >= kMostFabricNodes) {
    return tl::unexpected(
        FabricError{line, "more than " + std::to_string(kMostFabricNodes) + " nodes"});
  }
  if (!fabric_.by_guid.emplace(node.guid, index).second) {
    return tl::unexpected(FabricError{
        line, "node " + name_of(node) + " for the second time: keep one snapshot in a file"});
  }
  fabric_.nodes.push_back(std::move(node));
  return index;
}

FabricError FabricAssembly::resolve_peers() {
  for (ToldLink& link : links_) {
    uint32_t peer = fabric_.find(link.peer_guid);
    if (peer == kNoFabricNode) {
      FabricNode node;
      node.kind = link.peer_kind;
      node.guid = link.peer_guid;
      node.lid = link.peer_lid;
      node.description = clean_description(link.peer_description);
      const auto added = add_node(std::move(node), link.line);
      if (!added) return added.error();
      peer = *added;
    }
    const FabricNode& other = fabric_.nodes[peer];
    if (other.kind != link.peer_kind) {
      return {link.line, "a link to " + name_of(other) + ", which is of another kind"};
    }
    link.port.peer = peer;
    for (auto [index, number] :
         {std::pair(link.node, link.port.number), std::pair(peer, link.port.peer_port)}) {
      const FabricNode& end = fabric_.nodes[index];
      if (number < 1 || number > kMostFabricPorts ||
          (end.port_count != 0 && number > end.port_count)) {
        return {link.line, "port " + std::to_string(number) + " of " + name_of(end) +
                               ", which has " + std::to_string(end.port_count)};
      }
    }
  }
  return {};
}

FabricError FabricAssembly::sort_links() {
  // They come by node and number, mostly.
  if (!std::is_sorted(links_.begin(), links_.end(), before)) {
    std::stable_sort(links_.begin(), links_.end(), before);
  }
  for (size_t i = 1; i < links_.size(); ++i) {
    const ToldLink& link = links_[i];
    if (!before(links_[i - 1], link)) {
      return {link.line, "port " + std::to_string(link.port.number) + " of " +
                             name_of(fabric_.nodes[link.node]) + " for the second time"};
    }
  }
  return {};
}

// Sorts out links that contradict their other end, and adds the other ends that are missing.
void FabricAssembly::add_other_ends() {
  std::vector<size_t> first(fabric_.nodes.size() + 1, links_.size());
  for (size_t i = links_.size(); i-- > 0;) first[links_[i].node] = i;
  for (size_t i = fabric_.nodes.size(); i-- > 0;) first[i] = std::min(first[i], first[i + 1]);

  std::vector<bool> dropped(links_.size());
  std::vector<std::pair<ToldLink, size_t>> missing;  // other ends, and the link that tells of it
  for (size_t i = 0; i < links_.size(); ++i) {
    const ToldLink& link = links_[i];
    ToldLink wanted = link;
    wanted.node = link.port.peer;
    wanted.port.number = link.port.peer_port;
    wanted.port.peer = link.node;
    wanted.port.peer_port = link.port.number;
    const auto begin = links_.begin() + static_cast<ptrdiff_t>(first[wanted.node]);
    const auto end = links_.begin() + static_cast<ptrdiff_t>(first[wanted.node + 1]);
    // Without a gap in the numbers it is at its place.
    auto other = end - begin >= wanted.port.number ? begin + (wanted.port.number - 1) : begin;
    if (other == end || other->port.number != wanted.port.number) {
      other = std::lower_bound(begin, end, wanted, before);
    }
    if (other == end || other->port.number != wanted.port.number) {
      missing.emplace_back(wanted, i);
    } else if (other->port.peer != wanted.port.peer ||
               other->port.peer_port != wanted.port.peer_port) {
      dropped[i] = true;
    }
  }
  // Of several that claim the same end, the first.
  std::stable_sort(missing.begin(), missing.end(),
                   [](const auto& a, const auto& b) { return before(a.first, b.first); });
  for (size_t i = 1; i < missing.size(); ++i) {
    if (!before(missing[i - 1].first, missing[i].first)) dropped[missing[i].second] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (dropped[i]) {
      ++contradictions_;
    } else {
      links_[kept++] = links_[i];
    }
  }
  links_.resize(kept);
  for (const auto& [link, told_by] : missing) {
    if (!dropped[told_by]) links_.push_back(link);
  }
}

tl::expected<Fabric, FabricError> FabricAssembly::finish() {
  FabricError error = resolve_peers();
  if (error.text.empty()) error = sort_links();
  if (!error.text.empty()) return tl::unexpected(std::move(error));
  add_other_ends();
  if (!std::is_sorted(links_.begin(), links_.end(), before)) {
    std::sort(links_.begin(), links_.end(), before);
  }
  for (auto link = links_.begin(); link != links_.end();) {
    const auto end = std::find_if(
        link, links_.end(), [node = link->node](const ToldLink& l) { return l.node != node; });
    FabricNode& node = fabric_.nodes[link->node];
    node.ports.reserve(static_cast<size_t>(end - link));
    for (; link != end; ++link) node.ports.push_back(link->port);
    node.port_count = std::max(node.port_count, node.ports.back().number);
  }
  return std::move(fabric_);
}

}  // namespace mfu
