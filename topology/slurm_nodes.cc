#include "topology/slurm_nodes.hh"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_set>

#include "topology/host_list.hh"
#include "topology/topology_names.hh"

namespace mfu {
namespace {

using Wrong = tl::unexpected<std::string>;

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string_view without_comment(std::string_view line) {
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '#' && (at == 0 || kBlanks.find(line[at - 1]) != std::string_view::npos)) {
      return line.substr(0, at);
    }
  }
  return line;
}

// 0 if it is none.
uint64_t guid_of(std::string_view key) {
  if (key.size() < 3 || key.size() > 18 || key[0] != '0' || (key[1] | 0x20) != 'x') return 0;
  uint64_t guid = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data() + 2, end, guid, 16);
  return error == std::errc() && stop == end ? guid : 0;
}

std::string short_name(std::string_view name) {
  std::string result(name.substr(0, name.find('.')));
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

void note(std::vector<std::string>* notes, const std::vector<std::string>& names,
          const char* what) {
  if (!names.empty()) notes->push_back(count_hosts(names, what));
}

}  // namespace

tl::expected<NameMap, std::string> parse_name_map(std::string_view text, const std::string& where) {
  NameMap map;
  for (uint32_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(without_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const size_t blank = line.find_last_of(kBlanks);
    auto wrong = [&](const std::string& why) {
      return Wrong(where + ": line " + std::to_string(number) + ": " + why);
    };
    if (blank == std::string_view::npos) return wrong("a line is KEY NAME");
    const std::string name(line.substr(blank + 1));
    const std::string key(trimmed(line.substr(0, blank)));
    if (!is_node_name(name)) return wrong("'" + name.substr(0, 80) + "' is no name for Slurm");
    const uint64_t guid = guid_of(key);
    std::string& known = guid != 0 ? map.by_guid[guid] : map.by_text[key];
    if (!known.empty() && known != name) {
      return wrong("'" + key.substr(0, 80) + "' has another name before");
    }
    known = name;
  }
  return map;
}

tl::expected<std::vector<std::string>, std::string> parse_node_list(std::string_view text) {
  constexpr std::string_view kKey = "NodeName=";
  std::string lists;
  const bool pairs = text.find(kKey) != std::string_view::npos;
  constexpr std::string_view kSpaces = " \t\r\n";
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pairs && word.substr(0, kKey.size()) != kKey) continue;
    if (pairs) word.remove_prefix(kKey.size());
    lists.append(word).append(" ");
  }
  auto nodes = expand_hosts(lists);
  if (!nodes) return nodes;
  sort_hosts(&*nodes);
  if (nodes->empty()) return Wrong("no node is named");
  for (const std::string& node : *nodes) {
    if (!is_node_name(node)) return Wrong("'" + node.substr(0, 80) + "' is no name of a node");
  }
  return nodes;
}

NodeNames adapter_names(const Fabric& fabric, const NameMap& names) {
  NodeNames result = names.by_guid;
  if (names.by_text.empty()) return result;
  for (const FabricNode& node : fabric.nodes) {
    if (node.kind != FabricKind::kAdapter) continue;
    const auto found = names.by_text.find(node.description);
    if (found != names.by_text.end()) result.emplace(node.guid, found->second);
  }
  return result;
}

const std::string& name_of(const FabricHost& host, const NameMap& names) {
  const auto renamed = names.by_text.find(host.name);
  return host.slurm_name || renamed == names.by_text.end() ? host.name : renamed->second;
}

void HostNames::add(const std::string& name, uint32_t index) {
  if (!whole_.emplace(name, index).second) return;
  const auto [found, added] = short_.emplace(short_name(name), index);
  if (!added) found->second = kNoIndex;
}

uint32_t HostNames::find(const std::string& name) const {
  auto found = whole_.find(name);
  if (found != whole_.end()) return found->second;
  found = short_.find(short_name(name));
  return found == short_.end() ? kNoIndex : found->second;
}

SlurmNodes place_nodes(const FabricRoles& roles, const NameMap& names,
                       const std::vector<std::string>* listed) {
  SlurmNodes nodes;
  nodes.by_unit.resize(roles.units.size());
  std::unordered_set<std::string> placed;
  std::vector<std::string> unknown;
  std::vector<std::string> twice;
  std::vector<std::string> adrift;
  size_t unfit = 0;
  HostNames list;
  for (uint32_t i = 0; listed != nullptr && i < listed->size(); ++i) list.add((*listed)[i], i);
  auto place = [&](const FabricHost& host, bool service) {
    std::string name = name_of(host, names);
    if (listed != nullptr) {
      const uint32_t node = list.find(name);
      if (node == kNoIndex) {
        if (!service) is_node_name(name) ? unknown.push_back(name) : void(++unfit);
        return;
      }
      name = (*listed)[node];
    } else if (!is_node_name(name)) {
      ++unfit;
      return;
    }
    if (host.unit == kNoIndex) {
      adrift.push_back(name);
    } else if (placed.insert(name).second) {
      nodes.by_unit[host.unit].push_back(name);
    } else {
      twice.push_back(name);
    }
  };
  for (const FabricHost& host : roles.hosts) place(host, false);
  if (listed != nullptr) {
    for (const FabricHost& host : roles.service_hosts) place(host, true);
    for (const std::string& node : *listed) {
      if (placed.count(node) == 0) nodes.absent.push_back(node);
    }
  }
  for (auto& unit : nodes.by_unit) sort_hosts(&unit);
  note(&nodes.notes, unknown, "hosts of the fabric are no nodes of Slurm, left out");
  note(&nodes.notes, nodes.absent, "nodes of Slurm are not in the fabric");
  note(&nodes.notes, twice, "nodes stand for more than one host, the first counts");
  note(&nodes.notes, adrift, "nodes have no link to a leaf, left out");
  const auto unnamed =
      std::count(roles.adapters.begin(), roles.adapters.end(), AdapterRole::kUnnamed);
  if (unnamed > 0) {
    nodes.notes.push_back(std::to_string(unnamed) +
                          " adapters have no host's name, left out: name them by GUID");
  }
  if (unfit > 0) {
    nodes.notes.push_back(std::to_string(unfit) + " hosts have names that Slurm cannot hold");
  }
  return nodes;
}

}  // namespace mfu
