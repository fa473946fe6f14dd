#include "topology/fabric_audit.hh"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "topology/fabric_places.hh"

namespace mfu {
namespace {

std::string hops_text(const JobSpan& span) {
  char text[64];
  snprintf(text, sizeof text, "%.1f hops between its ports on average, %u at most", span.mean_hops,
           span.largest_hops);
  return text;
}

std::string job_place(const JobSpan& span) {
  return "job on " + counted(span.hosts, "node");
}

}  // namespace

std::vector<FabricFinding> audit_fabric(const Fabric& fabric, const FabricRoles& roles) {
  std::vector<FabricFinding> all;
  for (auto rule : {find_swapped_rails, find_rails_elsewhere, find_missing_rails, find_slower_links,
                    find_weak_leaves, find_unnamed_adapters, find_absent_sharp}) {
    std::vector<FabricFinding> findings = rule(fabric, roles);
    std::move(findings.begin(), findings.end(), std::back_inserter(all));
  }
  std::stable_sort(all.begin(), all.end(), [](const FabricFinding& a, const FabricFinding& b) {
    return a.finding.severity > b.finding.severity;
  });
  return all;
}

std::vector<Finding> find_unconnected_job(const JobSpan& span) {
  if (span.pairs_without_way == 0) return {};
  return {{"job-unconnected", Severity::kHigh, job_place(span),
           counted(span.pairs_without_way, "pair") +
               " of ports of one rail have no way to each other; the nodes are in " +
               counted(span.islands, "separate fabric"),
           "give each fabric a partition or a tree of its own: mfu-topo generate"}};
}

std::vector<Finding> find_spread_job(const JobSpan& span) {
  std::vector<Finding> findings;
  if (span.leaves > span.least_leaves) {
    findings.push_back({"job-leaves", Severity::kWarning, job_place(span),
                        std::to_string(span.leaves) + (span.leaves == 1 ? " leaf" : " leaves") +
                            " where " + std::to_string(span.least_leaves) + " would do, " +
                            counted(span.units, "unit") + " where " +
                            std::to_string(span.least_units) + " would do; " + hops_text(span),
                        "srun --switches=1@TIME; topology/tree or topology/block: mfu-topo "
                        "generate"});
  }
  if (span.pods > span.least_pods) {
    findings.push_back({"job-pods", Severity::kWarning, job_place(span),
                        counted(span.pods, "pod") + " where " + std::to_string(span.least_pods) +
                            " would do; " + hops_text(span),
                        "a topology.conf with the pods: mfu-topo generate; then --switches"});
  }
  return findings;
}

std::vector<Finding> audit_job(const FabricRoles& roles, const JobSpan& span,
                               std::span<const uint32_t> hosts,
                               std::span<const FabricFinding> fabric_findings) {
  std::vector<Finding> findings = find_unconnected_job(span);
  for (Finding& finding : find_spread_job(span)) findings.push_back(std::move(finding));
  std::vector<bool> own_host(roles.hosts.size());
  std::vector<bool> own_leaf(roles.leaves.size());
  for (uint32_t host : hosts) {
    own_host[host] = true;
    for (const HostPort& port : roles.hosts[host].ports) own_leaf[port.leaf] = true;
  }
  for (const FabricFinding& found : fabric_findings) {
    if ((found.host != kNoIndex && own_host[found.host]) ||
        (found.leaf != kNoIndex && own_leaf[found.leaf])) {
      findings.push_back(found.finding);
    }
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace mfu
