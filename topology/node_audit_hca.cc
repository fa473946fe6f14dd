// The rule about the adapters that NCCL is told to take.
#include <algorithm>
#include <iterator>
#include <set>

#include "topology/nccl_hca.hh"
#include "topology/nic_roles.hh"
#include "topology/node_audit.hh"
#include "topology/step_gpus.hh"

namespace mfu {
namespace {

bool takes(const HcaFilter& filter, const NodeMap& map, const Nic& nic) {
  // NCCL's files have all functions of a card as one, under several names.
  const bool several = map.whole_switches && !nic.os_names.empty();
  const std::vector<std::string> names = several ? nic.os_names : std::vector{nic.name};
  for (const NicPort& port : nic.ports) {
    const bool usable = port.state == PortState::kActive || port.state == PortState::kUnknown;
    if (usable && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return filter.takes(name, port.number);
        })) {
      return true;
    }
  }
  return false;
}

struct HcaCase {
  const NodeMap& map;
  const StepPlacement& step;
  std::vector<size_t> compute;  // usable ones
  std::vector<size_t> storage;
  std::vector<size_t> ethernet;
  std::string advice;
};

Finding hca_finding(const HcaCase& hca, const std::string& place, std::string evidence) {
  return {"nccl-hca", Severity::kHigh, place, std::move(evidence), hca.advice};
}

std::vector<Finding> judge_filter(const HcaCase& hca, const std::string& value,
                                  const std::string& place) {
  std::vector<Finding> findings;
  const HcaFilter filter(value);
  std::string said = "NCCL_IB_HCA=" + value.substr(0, 200);
  // It is the user's, and gets into logs.
  std::replace_if(
      said.begin(), said.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  auto taken_of = [&](const std::vector<size_t>& nics) {
    std::vector<size_t> taken;
    std::copy_if(nics.begin(), nics.end(), std::back_inserter(taken),
                 [&](size_t nic) { return takes(filter, hca.map, hca.map.nics[nic]); });
    return taken;
  };
  std::vector<size_t> taken = taken_of(hca.compute);
  const std::vector<size_t> taken_storage = taken_of(hca.storage);
  if (taken.empty()) taken = taken_storage;
  if (taken.empty()) taken = taken_of(hca.ethernet);
  if (taken.empty()) {
    findings.push_back(hca_finding(hca, place,
                                   said + " takes none of the active " +
                                       nic_names(hca.map, hca.compute) +
                                       ": NCCL falls back to TCP"));
    return findings;
  }
  for (const size_t index : step_gpus(hca.map, hca.step)) {
    const Gpu& gpu = hca.map.gpus[index];
    const NearestNics nearest = nearest_nics(hca.map, gpu, hca.compute);
    if (std::any_of(nearest.nics.begin(), nearest.nics.end(),
                    [&](size_t nic) { return takes(filter, hca.map, hca.map.nics[nic]); })) {
      continue;
    }
    const NearestNics instead = nearest_nics(hca.map, gpu, taken);
    findings.push_back(hca_finding(
        hca, place_of(hca.step, gpu),
        said + " leaves out " + nic_names(hca.map, nearest.nics) + ", the nearest active NIC (" +
            distance_name(nearest.distance) + "); it takes " + nic_names(hca.map, instead.nics) +
            ", " + distance_name(instead.distance) + " away"));
  }
  if (filter.names_some() && !taken_storage.empty()) {
    findings.push_back(hca_finding(
        hca, place,
        said + " takes " + nic_names(hca.map, taken_storage) + ", near to no GPU: a storage NIC" +
            (filter.exact() ? "" : "; names without = are beginnings of names")));
  }
  return findings;
}

}  // namespace

std::vector<Finding> audit_nccl_hca(const NodeMap& map, const StepPlacement& step,
                                    const NodeAuditOptions& options) {
  std::vector<Finding> findings;
  if (step.nodes == 1) return findings;
  const std::vector<NicRole> roles = nic_roles(map, options.storage_nics);
  auto usable = [&map, &roles](NicRole role) {
    std::vector<size_t> nics;
    for (const size_t nic : nics_with(roles, role)) {
      const Nic& of = map.nics[nic];
      // A cloud's file may not name its NICs; NCCL's filter is by name.
      if (of.name != of.pci.bus_id && !of.ports.empty() && (of.active() || !of.known())) {
        nics.push_back(nic);
      }
    }
    return nics;
  };
  HcaCase hca{
      map, step, usable(NicRole::kCompute), usable(NicRole::kStorage), usable(NicRole::kEthernet),
      {}};
  if (hca.compute.empty()) return findings;
  std::string names;
  for (const size_t nic : hca.compute) names += (names.empty() ? "" : ",") + map.nics[nic].name;
  hca.advice = "export NCCL_IB_HCA==" + names + ", or unset NCCL_IB_HCA";

  std::set<std::string> judged;
  for (const TaskPlacement& task : step.tasks) {
    const auto disable = task.environment.find("NCCL_IB_DISABLE");
    if (disable != task.environment.end() && disable->second == "1" &&
        judged.insert("NCCL_IB_DISABLE").second) {
      findings.push_back({"nccl-hca", Severity::kHigh, place_of(step, task),
                          "NCCL_IB_DISABLE=1 while " + names + " are active: NCCL uses TCP",
                          "unset NCCL_IB_DISABLE"});
    }
    const auto value = task.environment.find("NCCL_IB_HCA");
    if (value == task.environment.end() || !judged.insert(value->second).second) continue;
    for (Finding& finding : judge_filter(hca, value->second, place_of(step, task))) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace mfu
