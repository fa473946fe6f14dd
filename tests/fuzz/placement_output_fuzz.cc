// Any bytes as what `mfu-topo step` prints, which root's collector reads: no crash, no undefined
// behaviour; what is taken comes back from mfu-topo's own writer, and fits wherever it goes: into a
// node's sums, a peer's message, the verdict, the step's standard error.
#include <string>

#include "plugin/comment.hh"
#include "plugin/node_findings.hh"
#include "plugin/node_sums.hh"
#include "plugin/placement.hh"
#include "tests/fuzz/fuzz_input.hh"
#include "topology/step_command.hh"

namespace {

using mfu::is_printable;
using mfu::require;

constexpr size_t kMostText = 1024;
constexpr size_t kMostShown = 6;
constexpr size_t kMostVerdict = 64 << 10;  // larger ones are not written: strict would wait for it

void check_finding(const mfu::Finding& finding) {
  require(!finding.rule.empty() && finding.rule.size() <= mfu::kMostRule);
  require(finding.rule.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
          finding.rule.npos);
  for (const std::string* text : {&finding.place, &finding.evidence, &finding.remedy}) {
    require(text->size() <= kMostText && is_printable(*text));
  }
}

void check_sums(const mfu::PlacementAudit& audit) {
  mfu::NodeSums sums;
  mfu::add_placement(audit, audit.whole(), &sums);
  require(mfu::node_sums_fault(sums, 0, 0, 1) == nullptr);
  require(audit.rules(mfu::kMostRules) == sums.placement_rules);
  require(mfu::top_findings(audit.findings).fault() == nullptr);
}

void check_text(const mfu::PlacementAudit& audit) {
  mfu::StepPlan plan;
  plan.node = "n1";
  std::string text = mfu::placement_text(plan, audit, kMostShown);
  require(text.size() <= kMostVerdict);
  require(text.empty() == audit.rules(audit.findings.size() * (mfu::kMostRule + 1)).empty());
  std::erase(text, '\n');
  require(is_printable(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view output(reinterpret_cast<const char*>(data), size);
  const auto audit = mfu::parse_step_audit(output);
  if (!audit) {
    require(!output.empty());
    return 0;
  }
  require(audit->fault.empty());
  require(audit->clique.size() <= kMostText && is_printable(audit->clique));
  for (const mfu::Finding& finding : audit->findings) check_finding(finding);
  const auto again =
      mfu::parse_step_audit(mfu::write_step_findings({audit->findings, audit->clique}));
  require(again && again->findings == audit->findings && again->clique == audit->clique);
  check_sums(*audit);
  check_text(*audit);
  return 0;
}
