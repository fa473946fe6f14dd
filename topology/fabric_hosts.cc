#include "topology/fabric_hosts.hh"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "topology/host_list.hh"

namespace mfu {
namespace {

constexpr const char* kInstallersNames[] = {
    "localhost", "localhost.localdomain", "ubuntu", "debian", "rocky", "linux", "(none)",
    "unknown"};

bool is_device(std::string_view word) {
  for (std::string_view begin : {"HCA-", "mlx4_", "mlx5_", "mlx6_", "mthca", "hfi1_", "qib", "ibp",
                                 "ibs", "ib0", "rocep", "roceo", "rdmap", "opap", "bnxt_re"}) {
    if (word.starts_with(begin)) return true;
  }
  return false;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

// Gives each adapter the name of its host, by one source after the other.
class HostFinder {
 public:
  HostFinder(const Fabric& fabric, const NodeNames& names, FabricRoles* roles)
      : fabric_(fabric), names_(names), roles_(*roles), hosts_(fabric.nodes.size()) {}

  void find() {
    roles_.adapters.assign(fabric_.nodes.size(), AdapterRole::kNone);
    roles_.devices.assign(fabric_.nodes.size(), {});
    for (uint32_t i = 0; i < fabric_.nodes.size(); ++i) {
      if (fabric_.nodes[i].kind != FabricKind::kAdapter) continue;
      if (is_aggregation(fabric_.nodes[i])) {
        roles_.adapters[i] = AdapterRole::kAggregation;
        continue;
      }
      roles_.adapters[i] = AdapterRole::kUnnamed;
      DescribedAdapter described = described_adapter(fabric_.nodes[i].description);
      hosts_[i] = std::move(described.host);
      roles_.devices[i] = std::move(described.device);
      adapters_.push_back(i);
    }
    forget_ambiguous();
    apply_names();
    name_by_system();
    collect();
  }

 private:
  bool is_aggregation(const FabricNode& node) const {
    if (node.description.find("Aggregation Node") != std::string::npos) return true;
    // It is a part of the switch that it is linked to.
    return node.ports.size() == 1 && node.system_guid != 0 &&
           fabric_.nodes[node.ports[0].peer].kind == FabricKind::kSwitch &&
           fabric_.nodes[node.ports[0].peer].system_guid == node.system_guid;
  }

  // Two machines that call themselves the same: neither is known.
  void forget_ambiguous() {
    std::unordered_map<std::string, uint32_t> seen;
    std::unordered_map<std::string, bool> twice;
    for (uint32_t i : adapters_) {
      if (hosts_[i].empty() || roles_.devices[i].empty() || named(i) != nullptr) continue;
      if (!seen.emplace(hosts_[i] + ' ' + roles_.devices[i], i).second) twice[hosts_[i]] = true;
    }
    for (const char* name : kInstallersNames) twice[name] = true;
    for (uint32_t i : adapters_) {
      if (twice.count(hosts_[i]) != 0) hosts_[i].clear();
    }
  }

  const std::string* named(uint32_t adapter) const {
    const auto found = names_.find(fabric_.nodes[adapter].guid);
    return found == names_.end() ? nullptr : &found->second;
  }

  // An adapter that has a Slurm name gives it to those that describe the same host, unless two
  // names want that.
  void apply_names() {
    if (names_.empty()) return;
    std::unordered_map<std::string, const std::string*> slurm_name;  // of a described host
    for (uint32_t i : adapters_) {
      const std::string* name = named(i);
      if (name == nullptr || hosts_[i].empty()) continue;
      const std::string*& known = slurm_name.emplace(hosts_[i], name).first->second;
      if (known != nullptr && *known != *name) known = nullptr;
    }
    forget_other_machines(&slurm_name);
    for (uint32_t i : adapters_) {
      const std::string* name = named(i);
      if (name == nullptr) {
        const auto found = slurm_name.find(hosts_[i]);
        if (found != slurm_name.end() && !hosts_[i].empty()) name = found->second;
      }
      if (name == nullptr) continue;
      hosts_[i] = *name;
      slurm_names_[*name] = true;
    }
  }

  // Where one without a Slurm name describes itself just as one with it, they are two machines.
  void forget_other_machines(
      std::unordered_map<std::string, const std::string*>* slurm_name) const {
    std::unordered_map<std::string, bool> described;
    for (uint32_t i : adapters_) {
      if (named(i) != nullptr) described[hosts_[i] + ' ' + roles_.devices[i]] = true;
    }
    for (uint32_t i : adapters_) {
      if (named(i) != nullptr || roles_.devices[i].empty()) continue;
      if (described.count(hosts_[i] + ' ' + roles_.devices[i]) != 0) slurm_name->erase(hosts_[i]);
    }
  }

  void name_by_system() {
    std::unordered_map<uint64_t, const std::string*> of_system;
    for (uint32_t i : adapters_) {
      const uint64_t system = fabric_.nodes[i].system_guid;
      if (system == 0 || hosts_[i].empty()) continue;
      const std::string*& known = of_system.emplace(system, &hosts_[i]).first->second;
      // A card that serves two machines.
      if (known != nullptr && *known != hosts_[i]) known = nullptr;
    }
    std::vector<std::pair<uint32_t, const std::string*>> found;
    for (uint32_t i : adapters_) {
      if (!hosts_[i].empty()) continue;
      const auto name = of_system.find(fabric_.nodes[i].system_guid);
      if (name != of_system.end() && name->second != nullptr) found.emplace_back(i, name->second);
    }
    for (const auto& [adapter, name] : found) hosts_[adapter] = *name;
  }

  void collect() {
    std::unordered_map<std::string, uint32_t> index;
    std::vector<FabricHost> hosts;
    for (uint32_t i : adapters_) {
      if (hosts_[i].empty()) continue;
      const auto [place, added] = index.emplace(hosts_[i], static_cast<uint32_t>(hosts.size()));
      if (added) {
        hosts.emplace_back().name = hosts_[i];
        hosts.back().slurm_name = slurm_names_.count(hosts_[i]) != 0;
      }
      hosts[place->second].adapters.push_back(i);
    }
    std::sort(hosts.begin(), hosts.end(),
              [](const FabricHost& a, const FabricHost& b) { return host_before(a.name, b.name); });
    for (FabricHost& host : hosts) {
      const bool service =
          !host.slurm_name && (has_word(host.name, "ufm") || has_word(host.name, "opensm"));
      for (uint32_t i : host.adapters) {
        roles_.adapters[i] = service ? AdapterRole::kService : AdapterRole::kHost;
      }
      (service ? roles_.service_hosts : roles_.hosts).push_back(std::move(host));
    }
    roles_.host_of.assign(fabric_.nodes.size(), kNoIndex);
    for (uint32_t i = 0; i < roles_.hosts.size(); ++i) {
      roles_.host_by_name[roles_.hosts[i].name] = i;
      for (uint32_t adapter : roles_.hosts[i].adapters) roles_.host_of[adapter] = i;
    }
  }

  const Fabric& fabric_;
  const NodeNames& names_;
  FabricRoles& roles_;
  std::vector<uint32_t> adapters_;
  std::vector<std::string> hosts_;  // of each node; empty: not known
  std::unordered_map<std::string, bool> slurm_names_;
};

}  // namespace

DescribedAdapter described_adapter(std::string_view description) {
  while (!description.empty() && description.back() == ' ') description.remove_suffix(1);
  while (!description.empty() && description.front() == ' ') description.remove_prefix(1);
  const size_t blank = description.rfind(' ');
  if (blank == std::string_view::npos) {
    // Some sites write the host only.
    if (description.empty() || is_device(description)) return {};
    return {std::string(description), {}};
  }
  std::string_view device = description.substr(blank + 1);
  std::string_view host = description.substr(0, blank);
  while (!host.empty() && host.back() == ' ') host.remove_suffix(1);
  if (!is_device(device)) return {};
  if (device.starts_with("HCA-")) {
    // rdma-ndd and older scripts count from 1 what the driver counts from 0.
    uint32_t number = 0;
    const auto [end, error] =
        std::from_chars(device.data() + 4, device.data() + device.size(), number);
    if (error == std::errc() && end == device.data() + device.size() && number > 0) {
      return {std::string(host), "mlx5_" + std::to_string(number - 1)};
    }
  }
  return {std::string(host), std::string(device)};
}

void find_hosts(const Fabric& fabric, const NodeNames& names, FabricRoles* roles) {
  HostFinder(fabric, names, roles).find();
}

}  // namespace mfu
