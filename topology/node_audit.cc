#include "topology/node_audit.hh"

#include <algorithm>

namespace mfu {

std::vector<Finding> audit_node(const NodeMap& map, const StepPlacement& step,
                                const NodeAuditOptions& options) {
  constexpr NodeRule* kRules[] = {audit_cpu_affinity, audit_nearest_nic, audit_nic_ports,
                                  audit_nccl_hca,     audit_pcie,        audit_nvlinks,
                                  audit_cliques,      audit_gpu_order,   audit_rank_map,
                                  audit_gpu_models,   audit_mig,         audit_fragments};
  std::vector<Finding> findings;
  for (NodeRule* rule : kRules) {
    for (Finding& finding : rule(map, step, options)) findings.push_back(std::move(finding));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace mfu
