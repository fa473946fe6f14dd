#include "topology/nic_roles.hh"

#include <algorithm>

#include "topology/step_gpus.hh"

namespace mfu {
namespace {

Distance nearest_gpu(const NodeMap& map, const Nic& nic) {
  Distance nearest = Distance::kSys;
  for (const Gpu& gpu : map.gpus) nearest = std::min(nearest, distance(map, gpu.pci, nic.pci));
  return nearest;
}

bool has_infiniband(const Nic& nic) {
  return std::any_of(nic.ports.begin(), nic.ports.end(),
                     [](const NicPort& port) { return port.layer == LinkLayer::kInfiniBand; });
}

// Takes those out of the candidates that are kEthernet.
void set_apart_ethernet(const NodeMap& map, std::vector<size_t>* candidates,
                        std::vector<NicRole>* roles) {
  const bool infiniband = std::any_of(candidates->begin(), candidates->end(), [&map](size_t nic) {
    return has_infiniband(map.nics[nic]) && nearest_gpu(map, map.nics[nic]) < Distance::kSys;
  });
  if (!infiniband) return;
  std::erase_if(*candidates, [&map, roles](size_t index) {
    const Nic& nic = map.nics[index];
    if (!nic.known() || has_infiniband(nic) || nearest_gpu(map, nic) <= Distance::kPxb) {
      return false;
    }
    (*roles)[index] = NicRole::kEthernet;
    return true;
  });
}

}  // namespace

std::vector<NicRole> nic_roles(const NodeMap& map, const std::vector<std::string>& storage_nics) {
  std::vector<NicRole> roles(map.nics.size(), NicRole::kNone);
  std::vector<size_t> candidates;
  for (size_t i = 0; i < map.nics.size(); ++i) {
    if (!map.nics[i].rdma) continue;
    const bool said =
        std::find(storage_nics.begin(), storage_nics.end(), map.nics[i].name) != storage_nics.end();
    roles[i] = NicRole::kStorage;
    if (!said) candidates.push_back(i);
  }
  set_apart_ethernet(map, &candidates, &roles);
  bool any = false;
  for (const Gpu& gpu : map.gpus) {
    const NearestNics nearest = nearest_nics(map, gpu, candidates);
    if (nearest.distance == Distance::kSys) continue;
    for (const size_t nic : nearest.nics) roles[nic] = NicRole::kCompute;
    any = true;
  }
  for (size_t i = 0; i < candidates.size() && !any; ++i) roles[candidates[i]] = NicRole::kCompute;
  return roles;
}

std::vector<size_t> nics_with(const std::vector<NicRole>& roles, NicRole role) {
  std::vector<size_t> nics;
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == role) nics.push_back(i);
  }
  return nics;
}

NearestNics nearest_nics(const NodeMap& map, const Gpu& gpu, const std::vector<size_t>& from) {
  NearestNics nearest;
  for (const size_t nic : from) {
    const Distance far = distance(map, gpu.pci, map.nics[nic].pci);
    if (far > nearest.distance) continue;
    if (far < nearest.distance) nearest.nics.clear();
    nearest.distance = far;
    nearest.nics.push_back(nic);
  }
  return nearest;
}

std::string nic_names(const NodeMap& map, const std::vector<size_t>& nics) {
  std::vector<std::string> names;
  for (const size_t nic : nics) names.push_back(map.nics[nic].name);
  return listed(names);
}

}  // namespace mfu
