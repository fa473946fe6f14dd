#include "topology/finding.hh"

namespace mfu {

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kInformation:
      return "information";
    case Severity::kWarning:
      return "warning";
    case Severity::kHigh:
      return "high";
  }
  return "unknown";
}

}  // namespace mfu
