// What an audit found, for people and for scripts.
#ifndef MFU_TOPOLOGY_FINDING_REPORT_HH_
#define MFU_TOPOLOGY_FINDING_REPORT_HH_

#include <cstddef>
#include <string>
#include <vector>

#include "topology/finding.hh"

namespace mfu {

struct FindingReport {
  std::string subject;             // "node dgx7", "fabric FILE", "job 12 on 4 nodes"
  std::vector<Finding> findings;   // the most severe first
  std::vector<std::string> notes;  // what could not be judged, and why
};

// A line of counts, then each finding: severity, rule and place, below them evidence and remedy.
// Those that differ in their place only are told together. After `most` of one rule and severity
// (0: no limit) the rest is counted only. Lines have at most `columns` characters where words allow
// it.
std::string write_findings(const FindingReport& report, size_t columns, size_t most);

// {"subject": ..., "high": N, "warning": N, "information": N, "findings": [{"severity", "rule",
// "place", "evidence", "remedy"}], "notes": [...]}.
std::string findings_json(const FindingReport& report);

// 0 nothing above information, 1 warnings, 2 high.
int findings_status(const std::vector<Finding>& findings);

}  // namespace mfu

#endif
