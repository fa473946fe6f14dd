// The rules about GPUs: their links, their numbers, and what kind they are.
#include <algorithm>
#include <bit>
#include <set>

#include "topology/nic_roles.hh"
#include "topology/node_audit.hh"
#include "topology/pcie_link.hh"
#include "topology/step_gpus.hh"

namespace mfu {
namespace {

// The way between them is neither NVLink nor inside a socket.
bool slow_pair(const NodeMap& map, size_t a, size_t b) {
  return !map.nvlinked(a, b) && on_two_sockets(map.gpus[a].pci, map.gpus[b].pci);
}

std::string kind_of(const Gpu& gpu) {
  if (!gpu.model.empty()) return gpu.model;
  char text[16];
  snprintf(text, sizeof text, "%04x:%04x", gpu.pci.vendor, gpu.pci.device);
  return text;
}

// Of a board that may be wired so, others of its model tell how it is meant.
bool narrow(const NodeMap& map, const Gpu& gpu) {
  const PcieLink& link = gpu.pci.link;
  if (link.width == 0 || link.width >= link.max_width) return false;
  uint32_t others = 0;  // the widest
  for (const Gpu& other : map.gpus) {
    if (&other == &gpu || kind_of(other) != kind_of(gpu)) continue;
    others = std::max(others, other.pci.link.width);
  }
  return others != 0 ? link.width < others : link.width < link.max_width / 4;
}

// As many GPUs as these, of their models, without a slow pair among them; empty: there are none, or
// the node has too many to try.
std::vector<size_t> better_choice(const NodeMap& map, const std::set<size_t>& gpus) {
  constexpr size_t kMost = 16;
  std::set<std::string> kinds;
  for (const size_t gpu : gpus) kinds.insert(kind_of(map.gpus[gpu]));
  std::vector<size_t> candidates;
  for (size_t i = 0; i < map.gpus.size(); ++i) {
    if (kinds.count(kind_of(map.gpus[i])) != 0) candidates.push_back(i);
  }
  if (candidates.size() > kMost) return {};
  uint32_t slow[kMost] = {};  // by candidate, a bit for each other one
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (size_t j = 0; j < candidates.size(); ++j) {
      if (i != j && slow_pair(map, candidates[i], candidates[j])) slow[i] |= 1u << j;
    }
  }
  for (uint32_t choice = 0; choice < 1u << candidates.size(); ++choice) {
    if (static_cast<size_t>(std::popcount(choice)) != gpus.size()) continue;
    std::vector<size_t> chosen;
    uint32_t excluded = 0;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if ((choice >> i & 1) == 0) continue;
      chosen.push_back(candidates[i]);
      excluded |= slow[i];
    }
    if ((excluded & choice) == 0) return chosen;
  }
  return {};
}

bool in_pci_order(const NodeMap& map, const std::vector<size_t>& gpus) {
  return std::is_sorted(gpus.begin(), gpus.end(), [&map](size_t a, size_t b) {
    return map.gpus[a].pci.bus_id < map.gpus[b].pci.bus_id;
  });
}

std::string in_order(const NodeMap& map, const std::vector<size_t>& gpus) {
  std::vector<std::string> ids;
  for (const size_t gpu : gpus) ids.push_back(map.gpus[gpu].pci.bus_id);
  return listed(ids);
}

}  // namespace

std::vector<Finding> audit_pcie(const NodeMap& map, const StepPlacement& step,
                                const NodeAuditOptions& options) {
  std::vector<Finding> findings;
  auto judge = [&findings](const PciDevice& pci, const std::string& place, bool lacks_lanes,
                           bool full_speed) {
    const PcieLink& link = pci.link;
    const bool slow = full_speed && link.speed_mts != 0 && link.speed_mts < link.max_speed_mts;
    if (!lacks_lanes && !slow) return;
    findings.push_back({"pcie-link", Severity::kHigh, place,
                        "its PCIe link runs at " + pcie_text(link.speed_mts, link.width) + " of " +
                            pcie_text(link.max_speed_mts, link.max_width),
                        "report to the administrator: lspci -vv -s " + pci.bus_id +
                            " (LnkSta, LnkCap), dmesg for AER errors; reseat or replace the card"});
  };
  const std::vector<size_t> gpus = step_gpus(map, step);
  for (const size_t index : gpus) {
    const Gpu& gpu = map.gpus[index];
    const bool busy = std::any_of(
        options.busy_gpus.begin(), options.busy_gpus.end(),
        [&gpu](const std::string& id) { return canonical_bus_id(id) == gpu.pci.bus_id; });
    judge(gpu.pci, place_of(step, gpu), narrow(map, gpu), busy);
  }
  for (const size_t index : nics_with(nic_roles(map, options.storage_nics), NicRole::kCompute)) {
    // A step with some of the GPUs is told of their adapters only.
    const Nic& nic = map.nics[index];
    const bool ours = std::any_of(gpus.begin(), gpus.end(), [&](size_t gpu) {
      return distance(map, map.gpus[gpu].pci, nic.pci) < Distance::kSys;
    });
    const PcieLink& link = nic.pci.link;
    const bool lacks_lanes = link.width != 0 && link.width < link.max_width;
    if (ours && step.nodes != 1) judge(nic.pci, place_of(step, nic), lacks_lanes, true);
  }
  return findings;
}

std::vector<Finding> audit_nvlinks(const NodeMap& map, const StepPlacement& step,
                                   const NodeAuditOptions&) {
  struct Rank {
    uint32_t rank;
    size_t gpu;
  };
  std::vector<Rank> ranks;
  for (const TaskPlacement& task : step.tasks) {
    for (const size_t gpu : used_gpus(map, step, task)) ranks.push_back({task.rank, gpu});
  }
  if (map.nvlinks.empty() || ranks.size() < 2) return {};
  const bool known = step.tensor_parallel != 0;
  // Where there are none, whoever takes several GPUs knows it and cannot do better.
  const bool any = std::count(map.nvlinks.begin(), map.nvlinks.end(), 1) != 0;
  if (!known && (!any || some_gpus_unknown(map, step))) return {};
  size_t pairs = 0, slow = 0;
  std::vector<std::string> examples;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t j = i + 1; j < ranks.size(); ++j) {
      const uint32_t group = step.tensor_parallel;
      if (ranks[i].gpu == ranks[j].gpu) continue;
      if (group != 0 && ranks[i].rank / group != ranks[j].rank / group) continue;
      ++pairs;
      if (!slow_pair(map, ranks[i].gpu, ranks[j].gpu)) continue;
      ++slow;
      examples.push_back(short_name(map.gpus[ranks[i].gpu]) + "-" +
                         short_name(map.gpus[ranks[j].gpu]));
    }
  }
  if (slow == 0) return {};
  const std::string size = std::to_string(step.tensor_parallel);
  std::string evidence = std::to_string(slow) + " of " + std::to_string(pairs) + " pairs of GPUs" +
                         (known ? " inside tensor-parallel groups of " + size : "") +
                         " are on two sockets and have no NVLink: " + listed(examples);
  if (known) {
    return {{"no-nvlink", Severity::kHigh, step.node, evidence,
             "keep tensor-parallel groups inside a socket: a smaller group, or ranks in the order "
             "of sockets by --distribution=block:block --gpu-bind=closest"}};
  }
  std::set<size_t> used;
  for (const Rank& rank : ranks) used.insert(rank.gpu);
  const std::vector<size_t> better = better_choice(map, used);
  if (better.empty()) return {};
  std::vector<std::string> names;
  for (const size_t gpu : better) names.push_back(short_name(map.gpus[gpu]));
  return {{"no-nvlink", Severity::kWarning, step.node,
           evidence + "; there are as many without such a pair: " + listed(names),
           "ask for GPUs of one socket, where it has so many: --sockets-per-node=1 "
           "--gpus-per-socket=" +
               std::to_string(used.size()) +
               "; to the administrator: AutoDetect=nvml in gres.conf tells Slurm of NVLinks"}};
}

std::vector<Finding> audit_gpu_order(const NodeMap& map, const StepPlacement& step,
                                     const NodeAuditOptions&) {
  std::vector<Finding> findings;
  std::set<std::string> told;
  for (const TaskPlacement& task : step.tasks) {
    const std::vector<size_t> seen = seen_gpus(map, task);
    if (seen.size() < 2) continue;
    const auto order = task.environment.find("CUDA_DEVICE_ORDER");
    const bool by_pci = order != task.environment.end() && order->second == "PCI_BUS_ID";
    std::set<std::string> kinds;
    std::vector<size_t> by_cuda = seen;
    for (const size_t gpu : seen) kinds.insert(kind_of(map.gpus[gpu]));
    std::sort(by_cuda.begin(), by_cuda.end(), [&map](size_t a, size_t b) {
      return map.gpus[a].cuda_index < map.gpus[b].cuda_index;
    });
    std::string evidence, remedy = "export CUDA_DEVICE_ORDER=PCI_BUS_ID";
    if (!in_pci_order(map, seen)) {
      // Harmless where somebody put the GPUs in the order of the ranks' CPUs.
      const std::vector<size_t> used = used_gpus(map, step, task);
      const bool near = used.size() == 1 && !task.cpus.empty() &&
                        task.cpus.intersects(map.gpus[used[0]].pci.cpus);
      if (near) continue;
      evidence = "CUDA's devices are " + in_order(map, seen) + ", not in PCI order";
      remedy = "list CUDA_VISIBLE_DEVICES in ascending order, or leave it to Slurm";
    } else if (!by_pci && kinds.size() > 1) {
      evidence = std::to_string(kinds.size()) +
                 " models and no CUDA_DEVICE_ORDER: CUDA puts the "
                 "fastest first, nvidia-smi and Slurm count by PCI order";
    } else if (!by_pci && map.gpus[by_cuda[0]].cuda_index >= 0 && !in_pci_order(map, by_cuda)) {
      evidence = "CUDA numbers the GPUs in the order " + in_order(map, by_cuda);
    }
    if (evidence.empty() || !told.insert(evidence).second) continue;
    findings.push_back({"gpu-order", Severity::kWarning, place_of(step, task), evidence, remedy});
  }
  return findings;
}

std::vector<Finding> audit_gpu_models(const NodeMap& map, const StepPlacement& step,
                                      const NodeAuditOptions&) {
  if (some_gpus_unknown(map, step)) return {};
  std::map<std::string, size_t> kinds;
  for (const size_t gpu : step_gpus(map, step)) ++kinds[kind_of(map.gpus[gpu])];
  if (kinds.size() < 2) return {};
  std::vector<std::string> counted;
  for (const auto& [kind, count] : kinds) counted.push_back(std::to_string(count) + " " + kind);
  return {{"mixed-gpus", Severity::kInformation, step.node,
           listed(counted) + ": the slowest sets the pace of all",
           "ask for one model: --gpus-per-node=TYPE:N, or --constraint"}};
}

std::vector<Finding> audit_mig(const NodeMap& map, const StepPlacement& step,
                               const NodeAuditOptions&) {
  if (step.nodes < 2) return {};
  size_t slices = 0;
  for (const TaskPlacement& task : step.tasks) {
    slices += static_cast<size_t>(
        std::count_if(task.gpus.begin(), task.gpus.end(),
                      [](const std::string& id) { return id.starts_with("MIG-"); }));
  }
  size_t cut = 0;
  if (slices == 0 && !step.tasks.empty()) {
    for (const TaskPlacement& task : step.tasks) {
      for (const size_t gpu : seen_gpus(map, task)) cut += map.gpus[gpu].mig_instances != 0;
    }
  }
  if (slices + cut == 0) return {};
  return {{"mig-multi-node", Severity::kInformation, step.node,
           (slices != 0 ? std::to_string(slices) + " MIG slices"
                        : std::to_string(cut) + " GPUs cut into MIG slices") +
               " in a step of " + std::to_string(step.nodes) +
               " nodes: NCCL has neither NVLink nor peer access between slices",
           "ask for whole GPUs: --gpus-per-node=TYPE:N without a MIG profile"}};
}

std::vector<Finding> audit_cliques(const NodeMap& map, const StepPlacement& step,
                                   const NodeAuditOptions&) {
  if (some_gpus_unknown(map, step)) return {};
  std::map<std::string, std::vector<std::string>> cliques;
  std::vector<std::string> faulty;
  for (const size_t index : step_gpus(map, step)) {
    const Gpu& gpu = map.gpus[index];
    if (!gpu.clique.empty()) cliques[gpu.clique].push_back(short_name(gpu));
    if (!gpu.fabric_fault.empty()) {
      faulty.push_back(short_name(gpu) + " (" + gpu.fabric_fault + ")");
    }
  }
  if (cliques.empty() || (cliques.size() == 1 && faulty.empty())) return {};
  std::vector<std::string> parts;
  for (const auto& [clique, gpus] : cliques) parts.push_back(listed(gpus) + " in " + clique);
  if (!faulty.empty()) parts.push_back(listed(faulty) + " in none");
  return {
      {"nvlink-clique", Severity::kHigh, step.node,
       "the GPUs are not in one NVLink clique: " + listed(parts, "; "),
       "ask for GPUs of one NVLink partition; to the administrator: nvidia-smi -q (Fabric), the "
       "fabric manager's log"}};
}

std::string clique_of(const NodeMap& map, const StepPlacement& step) {
  if (!all_gpus_known(map, step)) return {};
  const std::vector<size_t> gpus = step_gpus(map, step);
  const std::string& first = map.gpus[gpus[0]].clique;
  const bool one = std::all_of(gpus.begin(), gpus.end(),
                               [&](size_t gpu) { return map.gpus[gpu].clique == first; });
  return one ? first : std::string();
}

std::vector<Finding> audit_fragments(const NodeMap& map, const StepPlacement& step,
                                     const NodeAuditOptions&) {
  if (step.nodes < 2 || !all_gpus_known(map, step)) return {};
  const std::vector<size_t> used = owned_gpus(map, step);
  std::set<std::string> kinds;
  for (const size_t gpu : used) {
    if (map.gpus[gpu].mig_instances != 0) return {};  // a part of it is no GPU
    kinds.insert(kind_of(map.gpus[gpu]));
  }
  // A small GPU for a display is none that the step could have had.
  const auto total =
      static_cast<uint64_t>(std::count_if(map.gpus.begin(), map.gpus.end(), [&](const Gpu& gpu) {
        return kinds.count(kind_of(gpu)) != 0;
      }));
  const uint64_t needed = (step.nodes * used.size() + total - 1) / total;
  if (needed >= step.nodes) return {};
  const std::string nodes = std::to_string(needed);
  return {{"fragmented-gpus", Severity::kInformation, step.node,
           "the step uses " + std::to_string(used.size()) + " of " + std::to_string(total) +
               " GPUs here; with as many on each of its " + std::to_string(step.nodes) +
               " nodes, they would fit into " + nodes,
           "--nodes=" + nodes + " --gpus-per-node=" + std::to_string(total) +
               ": more of the traffic stays inside of nodes"}};
}

}  // namespace mfu
