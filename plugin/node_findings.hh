// What an audit found on one node, in a fixed size: it goes to the step's first node inside
// peer::Message. The most severe ones; texts that are too long end at a word, with "...".
#ifndef MFU_PLUGIN_NODE_FINDINGS_HH_
#define MFU_PLUGIN_NODE_FINDINGS_HH_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "topology/finding.hh"

namespace mfu {

// Bytes of a finding's texts, wherever they go from here.
inline constexpr size_t kMostRule = 31;
inline constexpr size_t kMostPlace = 95;
inline constexpr size_t kMostEvidence = 191;
inline constexpr size_t kMostRemedy = 191;

struct NodeFindings {
  static constexpr uint32_t kMost = 4;

  struct Item {
    uint32_t severity = 0;  // Severity
    // Each ends with a zero byte.
    char rule[kMostRule + 1] = {};
    char place[kMostPlace + 1] = {};
    char evidence[kMostEvidence + 1] = {};
    char remedy[kMostRemedy + 1] = {};
  };

  uint32_t count = 0;
  uint32_t left_out = 0;  // 1: there were more
  Item items[kMost] = {};

  // Why a peer's bytes are not to be believed, or nullptr.
  const char* fault() const;
  // Of sound bytes.
  std::vector<Finding> findings() const;
};
static_assert(std::is_trivially_copyable_v<NodeFindings>);
static_assert(std::has_unique_object_representations_v<NodeFindings>, "padding would leak memory");

// The most severe ones first, those of one severity in their order.
NodeFindings top_findings(std::span<const Finding> findings);

// The finding with texts that fit: printable ASCII, a rule of [a-z0-9-], none too long.
Finding fit_finding(const Finding& finding);
// At most `most` bytes; what was longer ends behind a word, with "...".
std::string cut_text(std::string_view text, size_t most);

}  // namespace mfu

#endif
