// What an audit finds: one observation that somebody can act on.
#ifndef MFU_TOPOLOGY_FINDING_HH_
#define MFU_TOPOLOGY_FINDING_HH_

#include <cstdint>
#include <string>

namespace mfu {

// Order is severity's.
enum class Severity : uint8_t { kInformation, kWarning, kHigh };
// "information", "warning", "high".
const char* severity_name(Severity severity);

struct Finding {
  std::string rule;  // the rule's name: "gpu-nic-remote", [a-z0-9-]
  Severity severity = Severity::kInformation;
  std::string place;     // "node7 GPU2 0000:cb:00.0", "leaf A09-P1-IBLEAF-04-04 port 17"
  std::string evidence;  // what was measured, with numbers: "nearest active NIC mlx5_0 is SYS away"
  std::string remedy;    // the command or setting that mends it, or what to look at
  bool operator==(const Finding&) const = default;
};

}  // namespace mfu

#endif
