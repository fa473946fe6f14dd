#include "plugin/step_report.hh"

#include <algorithm>
#include <cstring>
#include <string>

#include "plugin/spool.hh"
#include "profiler/peaks.hh"

namespace mfu {
namespace {

// The precision that carries most of the matrix multiplications' time, as far as names tell it.
Precision heaviest_precision(const std::map<uint32_t, NodeSums>& nodes) {
  uint64_t time[kPrecisions] = {};
  for (const auto& [id, node] : nodes) {
    for (int p = 0; p < kPrecisions; ++p) time[p] += node.gemm_ns[p] / nodes.size();
  }
  int best = static_cast<int>(std::max_element(time, time + kPrecisions) - time);
  return time[best] == 0 ? Precision::kUnknown : static_cast<Precision>(best);
}

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

// More time than the step's GPUs had: forged records, or GPUs that Slurm did not give to the step.
bool implausible(const NodeSums& node, uint64_t wall_ns) {
  constexpr uint128 kClockSlackNs = 1'000'000'000;
  return node.span_ns > observed_gpus(node) * (wall_ns + kClockSlackNs);
}

uint32_t attributed_gpus(const NodeSums& node, uint64_t wall_ns) {
  return implausible(node, wall_ns) ? 0 : observed_gpus(node);
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
                  uint64_t wall_ns, Comment* comment, Sums* sums) {
  if (whole && plan.user.steps != 0) {
    comment->steps_by = StepsBy::kDeclared;
    sums->training_steps = plan.user.steps;
    sums->training_ns = wall_ns;
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
}

}  // namespace

Comment report_step(const StepPlan& plan, const std::map<uint32_t, NodeSums>& nodes,
                    const CollectiveSpreads& spreads, uint64_t now_ns, bool ended) {
  Comment comment;
  comment.run = plan.run;
  const uint64_t wall_ns = now_ns > plan.started_ns ? now_ns - plan.started_ns : 0;
  Sums sums;
  std::string device;
  std::string lost;
  bool mixed = false;
  bool failed = false;
  uint32_t final_nodes = 0;
  for (const auto& [id, node] : nodes) {
    comment.gpus += node.gpus;
    // An interim line counts each node up to its own last word; at the end all GPUs were held to
    // the end, and what came after the last word of a node that never said its last was not seen.
    const uint64_t seen_ns =
        std::clamp(node.until_ns, plan.started_ns, plan.started_ns + wall_ns) - plan.started_ns;
    const uint64_t node_ns = ended ? wall_ns : seen_ns;
    sums.elapsed_ns += uint128{node.gpus} * node_ns;
    sums.attributed_ns += uint128{attributed_gpus(node, wall_ns)} * node_ns;
    if (ended && node.last == 0) {
      sums.lost_ns += uint128{attributed_gpus(node, wall_ns)} * (wall_ns - seen_ns);
    }
    if (attributed_gpus(node, wall_ns) != 0) {
      sums.span_ns += node.span_ns;
      sums.compute_ns += node.compute_ns;
      sums.exposed_communication_ns += node.exposed_communication_ns;
      sums.overlapped_communication_ns += node.overlapped_communication_ns;
      sums.exposed_memory_ns += node.exposed_memory_ns;
      sums.lost_ns += node.lost_ns;
    }
    if (comment.no_time.empty()) {
      comment.no_time = no_time_reason(plan, node);
      if (comment.no_time.empty() && implausible(node, wall_ns)) comment.no_time = "implausible";
      if (comment.no_time.empty()) lost = lost.empty() ? loss_reason(node, ended) : lost;
    }
    failed = failed || node.failed_tasks != 0;
    final_nodes += node.last;
    if (node.device_name[0] == '\0') continue;
    mixed = mixed || node.mixed_devices != 0 || (!device.empty() && device != node.device_name);
    device = node.device_name;
  }
  // What is lost cannot exceed what there was: an estimate must not turn the coverage negative.
  sums.lost_ns = std::min(sums.lost_ns, sums.attributed_ns);

  const Device* known = mixed ? nullptr : find_device(device);
  comment.gpu = mixed ? kMixed : known != nullptr ? std::string(known->short_name) : device;
  comment.precision =
      plan.user.precision != Precision::kUnknown ? plan.user.precision : heaviest_precision(nodes);
  if (!mixed) comment.peak_gigaflops = peak_gigaflops(device, comment.precision).value_or(0);

  bool complete = final_nodes == plan.nodes;
  if (ended && !complete) {
    comment.partial = "nodes:" + std::to_string(final_nodes) + "-of-" + std::to_string(plan.nodes);
  }

  add_training(plan, nodes, ended && complete && !failed, wall_ns, &comment, &sums);
  uint128 flops = plan.user.declared_flops();
  // FLOPs of a training step count for the steps that were found: these have been executed.
  const bool counted = flops == 0 && plan.user.flops_per_step != 0;
  if (counted)
    flops = plan.user.flops_per_step * std::min<uint128>(sums.training_steps, kMostDeclaredSteps);
  // Declared FLOPs are those of the whole run: an unfinished one has not executed them.
  if (ended && device.empty()) {
    comment.no_mfu = comment.no_time.empty() ? "no-device" : comment.no_time;
  } else if (flops == 0) {
    comment.no_mfu = counted ? "no-steps" : "no-flops";
  } else if (!ended && !counted) {
    comment.no_mfu = "running";
  } else if (ended && !complete) {
    comment.no_mfu = "partial";
  } else if (failed && !counted) {
    comment.no_mfu = "incomplete";
  } else if (mixed) {
    comment.no_mfu = "mixed-gpus";
  } else if (comment.precision == Precision::kUnknown) {
    comment.no_mfu = "precision-unknown";
  } else if (comment.peak_gigaflops == 0) {
    comment.no_mfu = "peak-unknown";
  } else {
    sums.model_flops = flops;
    sums.flops_ns = sums.elapsed_ns;
    sums.capacity_flop = uint128{comment.peak_gigaflops} * sums.elapsed_ns;
  }
  if (comment.no_time.empty()) comment.no_time = lost;
  comment.sums = sums;
  if (ended && complete) add_waiting(spreads, &comment);
  return comment;
}

}  // namespace mfu
