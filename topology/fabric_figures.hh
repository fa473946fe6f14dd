// What a picture of a fabric tells of its parts: counts, rates of links, and findings.
#ifndef MFU_TOPOLOGY_FABRIC_FIGURES_HH_
#define MFU_TOPOLOGY_FABRIC_FIGURES_HH_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "topology/fabric.hh"
#include "topology/fabric_audit.hh"
#include "topology/fabric_roles.hh"

namespace mfu {

// Links by link_name.
using LinkRates = std::map<std::string, uint32_t>;
uint64_t links_of(const LinkRates& rates);
// "576 4xNDR", "575 4xNDR and 1 2xNDR"; "none".
std::string rates_text(const LinkRates& rates);

// How often each rule found something: "rail-swapped" 1.
struct FindingCount {
  std::map<std::string, uint32_t> rules;
  Severity worst = Severity::kInformation;
  bool empty() const { return rules.empty(); }
  void add(const Finding& finding);
  // "1 rail-swapped, 3 rail-missing".
  std::string text() const;
};

struct LeafFigures {
  std::string name;  // switch_place's
  LinkRates host_links, uplinks;
  FindingCount findings;
};

struct UnitFigures {
  std::string hosts;      // as a hostlist
  FindingCount findings;  // of its hosts
};

struct PodFigures {
  uint32_t hosts = 0, leaves = 0;
  std::vector<uint32_t> spines;  // indices into Fabric::nodes: switches linked to its leaves
  LinkRates host_links, uplinks;
  LinkRates spine_uplinks;  // from those to switches above
  FindingCount findings;
};

struct FabricFigures {
  std::vector<LeafFigures> leaves;  // as in FabricRoles, and so on
  std::vector<UnitFigures> units;
  std::vector<PodFigures> pods;
  uint32_t switches = 0, adapters = 0, unnamed = 0, service = 0, aggregation = 0;
  uint32_t cores = 0;  // switches of level 3 and above
  FindingCount findings;
  std::vector<Finding> elsewhere;  // neither of a host nor of a leaf
};

FabricFigures fabric_figures(const Fabric& fabric, const FabricRoles& roles,
                             const std::vector<FabricFinding>& findings);

// The hosts of some units as a hostlist.
std::string hosts_text(const FabricRoles& roles, std::span<const uint32_t> units);
// "12", or "3-7, 9" of many indices in ascending order.
std::string ranges_text(const std::vector<uint32_t>& numbers);

}  // namespace mfu

#endif
