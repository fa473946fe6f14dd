#include "plugin/step_report.hh"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "plugin/nvlink_cliques.hh"
#include "plugin/spool.hh"
#include "plugin/step_flops.hh"

namespace mfu {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

// ":enable-kernel:35", or nothing.
std::string failed_call(const NodeSums& node) {
  if (node.cupti_call == CuptiCall::kNone) return "";
  std::string result = node.cupti_result == kHung ? "hang" : std::to_string(node.cupti_result);
  return std::string(":") + cupti_call_name(node.cupti_call) + ":" + result;
}

// Why a node's GPUs have no attribution, or why a part of it may be missing; empty when all have.
std::string no_time_reason(const StepPlan& plan, const NodeSums& node) {
  if (node.state != State::kOk && node.unattributed_devices != 0) {
    return state_name(node.state) + failed_call(node);
  }
  if (node.record_errno != 0) return "record:" + errno_name(static_cast<int>(node.record_errno));
  if (node.processes == 0) {
    if (!plan.no_records.empty()) return plan.no_records;
    return node.broken_records != 0 ? "broken-records" : "no-cuda";
  }
  if (node.devices == 0) return "no-device";
  if (node.broken_records != 0) return "broken-records";
  return node.cupti_call != CuptiCall::kNone ? "cupti" + failed_call(node) : "";
}

// GPUs of the node whose time is attributed: all that Slurm gave, idle ones included, but for those
// with a process that could not be observed.
uint32_t observed_gpus(const NodeSums& node) {
  if (node.processes == 0 || node.devices == 0 || node.record_errno != 0) return 0;
  // A record that cannot be read may be of any of them.
  const uint64_t unknown = uint64_t{node.unattributed_devices} + node.broken_records;
  return node.gpus - static_cast<uint32_t>(std::min<uint64_t>(node.gpus, unknown));
}

// More time than GPUs had: forged records, or GPUs that Slurm did not give to the step.
bool exceeds(uint64_t ns, uint32_t gpus, uint64_t wall_ns) {
  constexpr uint128 kClockSlackNs = 1'000'000'000;
  return ns > gpus * (wall_ns + kClockSlackNs);
}

bool implausible(const NodeSums& node, uint64_t wall_ns) {
  return exceeds(node.span_ns, observed_gpus(node), wall_ns);
}

// Why a part of the node's time was not observed although all its processes were.
std::string loss_reason(const NodeSums& node, bool ended) {
  if (node.lost_ns == 0) return "";
  if (node.dropped != 0) return "dropped";
  if (node.kept_out != 0) return "bad-records";
  if (node.shared_devices != 0) return "shared-gpus";
  if (node.cut_off_processes == 0) return "gap";
  return ended ? "cut-off" : "";  // a running process has yet to say its last word
}

// Adds the rules of a list that are not in *rules yet, as many as there is room for.
void add_rules(std::string_view list, std::string* rules) {
  while (!list.empty()) {
    const std::string_view rule = list.substr(0, list.find(','));
    list.remove_prefix(std::min(rule.size() + 1, list.size()));
    const std::string all = "," + *rules + ",";
    const bool known = all.find("," + std::string(rule) + ",") != all.npos;
    if (rule.empty() || known || rules->size() + 1 + rule.size() > kMostRules) continue;
    rules->append(rules->empty() ? "" : ",").append(rule);
  }
}

// All is well only where every node says so.
void add_place(const StepPlan& plan, const std::map<uint32_t, NodeSums>& nodes, Place* place) {
  uint64_t high = 0;
  uint64_t warnings = 0;
  size_t audited = 0;
  for (const auto& [id, node] : nodes) {
    high += node.placement_high;
    warnings += node.placement_warnings;
    audited += node.placement_audited;
  }
  if (const auto crossed = crossed_cliques(plan, nodes)) {
    ++high;
    add_rules(crossed->rule, &place->rules);
  }
  const uint64_t findings = high != 0 ? high : warnings;
  if (findings == 0 && (audited == 0 || audited < plan.nodes)) return;
  place->verdict = high != 0       ? Place::Verdict::kBad
                   : warnings != 0 ? Place::Verdict::kWarn
                                   : Place::Verdict::kOk;
  place->findings = static_cast<uint32_t>(std::min<uint64_t>(findings, UINT32_MAX));
  for (const bool severe : {true, false}) {
    for (const auto& [id, node] : nodes) {
      if ((node.placement_high != 0) == severe) add_rules(node.placement_rules, &place->rules);
    }
  }
}

void add_waiting(const CollectiveSpreads& spreads, Comment* comment) {
  const Waiting found = waiting(spreads);
  if (!found.known) return;
  comment->sums.collective_ns = spreads.kernel_ns;
  comment->sums.wait_ns =
      static_cast<uint128>(found.share * static_cast<double>(spreads.kernel_ns));
  // A process that Slurm has given no rank has UINT32_MAX.
  if (found.slowest < kSeveralTasks) comment->slowest = found.slowest;
}

// Declared steps are those of the whole run: an unfinished one has not done them all, and those
// that were found stand in.
void add_training(const StepPlan& plan, const std::map<uint32_t, NodeSums>& nodes, bool whole,
                  uint64_t wall_ns, Comment* comment) {
  Sums* sums = &comment->sums;
  if (whole && plan.user.steps != 0) {
    comment->steps_by = StepsBy::kDeclared;
    sums->training_steps = plan.user.steps;
    sums->training_ns = wall_ns;
    sums->training_gpu_ms = sums->training_ns * comment->gpus / kNsPerMs;
    return;
  }
  FoundSteps found;
  for (const auto& [id, node] : nodes) found.add(node.steps);
  if (!found.known()) return;
  const auto source = static_cast<StepSource>(found.source);
  comment->steps_by = source == StepSource::kNvtx     ? StepsBy::kNvtx
                      : source == StepSource::kKernel ? StepsBy::kKernel
                                                      : StepsBy::kPeriod;
  sums->training_steps = found.fewest;
  sums->training_ns = uint128{found.fewest} * found.period_ns;
  sums->training_gpu_ms = sums->training_ns * comment->gpus / kNsPerMs;
}

// The largest one that stands out, but for the first: a GPU that had nothing to do.
std::string clock_reason(const uint128 (&reason_ns)[kClockReasons], uint128 reasons_ns) {
  static_assert(kClockIdle == 0);
  const auto* largest = std::max_element(reason_ns + 1, std::end(reason_ns));
  const double least = kLeastClockReason * static_cast<double>(reasons_ns);
  if (*largest == 0 || static_cast<double>(*largest) < least) return "";
  return clock_reason_name(static_cast<ClockReason>(largest - reason_ns));
}

void add_sensors(std::span<const NodeShare> shares, Comment* comment) {
  uint128 energy_mj = 0, energy_ns = 0, cycles = 0, clock_ns = 0, active_ns = 0, tensor_ns = 0;
  uint128 reason_ns[kClockReasons] = {}, reasons_ns = 0;
  for (const NodeShare& share : shares) {
    const NodeSums& node = *share.node;
    const uint64_t most_ns =
        std::max({node.energy_ns, node.clock_ns, node.tensor_ns, node.reasons_ns});
    if (exceeds(most_ns, node.gpus, share.elapsed_ns)) continue;
    energy_mj += node.energy_mj;
    energy_ns += node.energy_ns;
    cycles += node.sm_cycles;
    clock_ns += node.clock_ns;
    active_ns += node.tensor_active_ns;
    tensor_ns += node.tensor_ns;
    for (int i = 0; i < kClockReasons; ++i) reason_ns[i] += node.reason_ns[i];
    reasons_ns += node.reasons_ns;
  }
  Sums& sums = comment->sums;
  sums.energy_j = energy_mj / 1000;
  sums.energy_ms = energy_ns / kNsPerMs;
  sums.clock_megacycles = cycles / 1'000'000;
  sums.clock_ms = clock_ns / kNsPerMs;
  sums.tensor_active_ms = active_ns / kNsPerMs;
  sums.tensor_ms = tensor_ns / kNsPerMs;
  comment->clock_reason = clock_reason(reason_ns, reasons_ns);
}

// Of the nodes of which every process tells.
void add_storage(std::span<const NodeShare> shares, Sums* sums) {
  uint128 read_bytes = 0, written_bytes = 0, ns = 0;
  for (const NodeShare& share : shares) {
    const NodeSums& node = *share.node;
    const bool unknown = node.storage_failures != 0 || node.broken_records != 0 ||
                         node.record_errno != 0 || node.processes == 0;
    if (unknown) continue;
    read_bytes += node.read_bytes;
    written_bytes += node.written_bytes;
    ns += uint128{node.gpus} * share.told_ns;
  }
  sums->read_mb = read_bytes / 1'000'000;
  sums->written_mb = written_bytes / 1'000'000;
  sums->io_ms = ns / kNsPerMs;
}

// How long before the first node another one may begin: a launch takes seconds, and clocks differ.
constexpr uint64_t kLaunchSkewNs = 10'000'000'000;

void add_goodput(const StepPlan& plan, std::span<const NodeShare> shares, Sums* sums) {
  GoodputSums all;
  for (const NodeShare& share : shares) {
    const NodeSums& node = *share.node;
    GoodputSums parts;
    parts.productive_ns = node.productive_ns;
    // Of an earlier run nobody here knows whether it had begun to train: as if it had.
    (plan.run > 0 ? parts.restart_ns : parts.start_up_ns) = node.start_up_ns;
    parts.writing_ns = node.writing_ns;
    parts.reading_ns = node.reading_ns;
    parts.stalled_ns = node.stalled_ns;
    parts.tail_ns = node.tail_ns;
    // A node may be summed up after the step's end, which makes its tail too long, and may have
    // begun before the first node, from whose begin the step counts: that was start-up.
    const uint128 elapsed_ns = uint128{node.gpus} * share.elapsed_ns;
    uint128 excess_ns = parts.total_ns() - std::min(parts.total_ns(), elapsed_ns);
    const uint128 behind_ns = std::min(excess_ns, parts.tail_ns);
    excess_ns -= behind_ns;
    uint128& launch_ns = plan.run > 0 ? parts.restart_ns : parts.start_up_ns;
    if (excess_ns <= std::min(launch_ns, uint128{node.gpus} * kLaunchSkewNs)) {
      parts.tail_ns -= behind_ns;
      launch_ns -= excess_ns;
      all += parts;
    }
  }
  sums->productive_ms = all.productive_ns / kNsPerMs;
  sums->start_up_ms = all.start_up_ns / kNsPerMs;
  sums->restart_ms = all.restart_ns / kNsPerMs;
  sums->writing_ms = all.writing_ns / kNsPerMs;
  sums->reading_ms = all.reading_ns / kNsPerMs;
  sums->stalled_ms = all.stalled_ns / kNsPerMs;
  sums->tail_ms = all.tail_ns / kNsPerMs;
}

// What of a node counts. An interim line counts each node up to its own last word; at the end all
// GPUs were held to the end.
NodeShare share_of(const StepPlan& plan, const NodeSums& node, uint64_t wall_ns, bool ended) {
  const uint64_t seen_ns =
      std::clamp(node.until_ns, plan.started_ns, plan.started_ns + wall_ns) - plan.started_ns;
  const uint64_t elapsed_ns = ended ? wall_ns : seen_ns;
  const uint64_t told_ns = node.last != 0 ? elapsed_ns : seen_ns;
  return {&node, implausible(node, wall_ns) ? 0 : observed_gpus(node), elapsed_ns, told_ns};
}

void add_time(const NodeShare& share, Sums* sums) {
  const NodeSums& node = *share.node;
  sums->elapsed_ns += uint128{node.gpus} * share.elapsed_ns;
  if (share.attributed_gpus == 0) return;
  sums->attributed_ns += uint128{share.attributed_gpus} * share.elapsed_ns;
  // What came after the last word of a node that never said its last was not seen.
  sums->lost_ns += uint128{share.attributed_gpus} * (share.elapsed_ns - share.told_ns);
  sums->lost_ns += node.lost_ns;
  sums->span_ns += node.span_ns;
  sums->compute_ns += node.compute_ns;
  sums->exposed_communication_ns += node.exposed_communication_ns;
  sums->overlapped_communication_ns += node.overlapped_communication_ns;
  sums->exposed_memory_ns += node.exposed_memory_ns;
}

}  // namespace

Comment report_step(const StepPlan& plan, const std::map<uint32_t, NodeSums>& nodes,
                    const CollectiveSpreads& spreads, const PeakAdditions& peaks, uint64_t now_ns,
                    bool ended) {
  Comment comment;
  comment.run = plan.run;
  const uint64_t wall_ns = now_ns > plan.started_ns ? now_ns - plan.started_ns : 0;
  Sums& sums = comment.sums;
  std::vector<NodeShare> shares;
  shares.reserve(nodes.size());
  std::string lost;
  StepStatus status{.ended = ended};
  uint32_t final_nodes = 0;
  for (const auto& [id, node] : nodes) {
    comment.gpus += node.gpus;
    shares.push_back(share_of(plan, node, wall_ns, ended));
    add_time(shares.back(), &sums);
    if (comment.no_time.empty()) {
      comment.no_time = no_time_reason(plan, node);
      if (comment.no_time.empty() && implausible(node, wall_ns)) comment.no_time = "implausible";
      if (comment.no_time.empty()) lost = lost.empty() ? loss_reason(node, ended) : lost;
    }
    status.failed = status.failed || node.failed_tasks != 0;
    final_nodes += node.last;
  }
  // What is lost cannot exceed what there was: an estimate must not turn the coverage negative.
  sums.lost_ns = std::min(sums.lost_ns, sums.attributed_ns);
  status.complete = final_nodes == plan.nodes;
  if (ended && !status.complete) {
    comment.partial = "nodes:" + std::to_string(final_nodes) + "-of-" + std::to_string(plan.nodes);
  }
  add_training(plan, nodes, ended && status.complete && !status.failed, wall_ns, &comment);
  add_flops(plan, shares, peaks, status, &comment);
  add_sensors(shares, &comment);
  add_storage(shares, &sums);
  add_goodput(plan, shares, &sums);
  add_place(plan, nodes, &comment.place);
  if (comment.no_time.empty()) comment.no_time = lost;
  if (ended && status.complete) add_waiting(spreads, &comment);
  return comment;
}

}  // namespace mfu
