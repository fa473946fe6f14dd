#include "plugin/heard_nodes.hh"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "topology/whole_file.hh"

namespace mfu {
namespace {

constexpr char kHeardName[] = "heard";

// In front of the nodes' sums, which are followed by the findings' text.
struct Head {
  uint64_t magic = kMagic;
  uint64_t started_ns = 0;  // the plan's: which run of the step
  uint64_t step_ended_ns = 0;
  uint32_t nodes = 0;
  uint32_t note_size = 0;
  CollectiveSpreads spreads;
  static constexpr uint64_t kMagic = 0x31445248'55464d00;  // "\0MFUHRD1"
};
static_assert(std::has_unique_object_representations_v<Head>, "padding would leak memory");

std::string path_of(const StepPlan& plan) {
  return plan.folder + "/" + kHeardName;
}

template <typename Value>
void append(const Value& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename Value>
bool take_front(std::string_view* bytes, Value* value) {
  if (bytes->size() < sizeof(*value)) return false;
  std::memcpy(static_cast<void*>(value), bytes->data(), sizeof(*value));
  bytes->remove_prefix(sizeof(*value));
  return true;
}

bool tells_place(const NodeSums& sums) {
  return sums.placement_audited != 0 || sums.placement_high != 0 || sums.placement_warnings != 0;
}

void keep_place(const NodeSums& from, NodeSums* to) {
  to->placement_audited = from.placement_audited;
  to->placement_high = from.placement_high;
  to->placement_warnings = from.placement_warnings;
  std::memcpy(to->placement_rules, from.placement_rules, sizeof(to->placement_rules));
  std::memcpy(to->clique, from.clique, sizeof(to->clique));
}

}  // namespace

bool HeardNodes::take(const NodeSums& sums, const CollectiveSpreads& spreads,
                      const NodeFindings& findings) {
  NodeSums& known = sums_[sums.node_id];
  const bool ends = known.last == 0 && sums.last != 0;
  if (ends) {
    spreads_.add(spreads);
    ++ended_;
  }
  // A last word stands above others: who takes over may count from a clock that was set back.
  if (ends || (known.last == sums.last && known.sequence <= sums.sequence)) {
    const NodeSums before = std::exchange(known, sums);
    // Who takes over has not audited: what was said of the node's place stands.
    const bool less = sums.placement_audited < before.placement_audited;
    if (less || !tells_place(sums)) keep_place(before, &known);
  }
  for (const Finding& finding : findings.findings()) findings_.add(finding);
  findings_.left_out = findings_.left_out || findings.left_out != 0;
  return ends;
}

uint32_t HeardNodes::step_gpus(const StepPlan& plan) const {
  const bool itself = sums_.contains(plan.node_id);
  if (sums_.size() + !itself < plan.nodes) return 0;
  uint32_t gpus = itself ? 0 : plan.gpus;
  for (const auto& [id, sums] : sums_) gpus += sums.gpus;
  return gpus;
}

std::string HeardNodes::store(const StepPlan& plan, uint64_t step_ended_ns) const {
  if (plan.folder.empty()) return "no folder in the spool";
  const std::string note = format_place_note(findings_);
  Head head;
  head.started_ns = plan.started_ns;
  head.step_ended_ns = step_ended_ns;
  head.nodes = static_cast<uint32_t>(sums_.size());
  head.note_size = static_cast<uint32_t>(note.size());
  head.spreads = spreads_;
  std::string bytes;
  bytes.reserve(sizeof(head) + sums_.size() * sizeof(NodeSums) + note.size());
  append(head, &bytes);
  for (const auto& [id, sums] : sums_) append(sums, &bytes);
  bytes += note;
  return write_whole_file(path_of(plan), bytes, Kept::kOnDisk, 0600);
}

uint64_t HeardNodes::load(const StepPlan& plan) {
  *this = {};
  std::ifstream file(path_of(plan), std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::string_view bytes = all;
  Head head;
  if (!take_front(&bytes, &head) || head.magic != Head::kMagic ||
      head.started_ns != plan.started_ns || head.nodes > plan.nodes ||
      bytes.size() != head.nodes * sizeof(NodeSums) + head.note_size ||
      head.spreads.fault() != nullptr) {
    return 0;
  }
  HeardNodes heard;
  heard.spreads_ = head.spreads;
  for (uint32_t i = 0; i < head.nodes; ++i) {
    NodeSums sums;
    take_front(&bytes, &sums);
    if (node_sums_fault(sums, plan.job, plan.step, plan.nodes) != nullptr) return 0;
    heard.ended_ += sums.last != 0;
    if (!heard.sums_.emplace(sums.node_id, sums).second) return 0;
  }
  PlaceNoteReading note = read_place_note(bytes);
  if (note.note) heard.findings_ = std::move(*note.note);
  *this = std::move(heard);
  return head.step_ended_ns;
}

}  // namespace mfu
