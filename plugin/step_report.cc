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

// Why a node's GPUs have no attribution; empty when all have.
std::string no_time_reason(const StepPlan& plan, const NodeSums& node) {
  if (node.state != State::kOk && node.unattributed_devices != 0) {
    std::string reason = state_name(node.state);
    if (node.cupti_call != CuptiCall::kNone) {
      reason += std::string(":") + cupti_call_name(node.cupti_call) + ":" +
                std::to_string(node.cupti_result);
    }
    return reason;
  }
  if (node.record_errno != 0) return "record:" + errno_name(static_cast<int>(node.record_errno));
  if (node.processes == 0) {
    if (!plan.no_records.empty()) return plan.no_records;
    return node.broken_records != 0 ? "broken-records" : "no-cuda";
  }
  return "";
}

// GPUs of the node whose time is attributed: all that Slurm gave, idle ones included, but for those
// with a process that could not be observed.
uint32_t attributed_gpus(const NodeSums& node) {
  if (node.processes == 0 || node.record_errno != 0) return 0;
  return node.gpus - std::min(node.gpus, node.unattributed_devices);
}

}  // namespace

Comment report_step(const StepPlan& plan, const std::map<uint32_t, NodeSums>& nodes,
                    uint64_t now_ns, bool ended) {
  Comment comment;
  comment.run = plan.run;
  const uint64_t wall_ns = now_ns > plan.started_ns ? now_ns - plan.started_ns : 0;
  Sums sums;
  std::string device;
  bool mixed = false;
  bool failed = false;
  uint32_t final_nodes = 0;
  for (const auto& [id, node] : nodes) {
    comment.gpus += node.gpus;
    sums.elapsed_ns += uint128{node.gpus} * wall_ns;
    sums.attributed_ns += uint128{attributed_gpus(node)} * wall_ns;
    if (attributed_gpus(node) != 0) {
      sums.span_ns += node.span_ns;
      sums.compute_ns += node.compute_ns;
      sums.exposed_communication_ns += node.exposed_communication_ns;
      sums.overlapped_communication_ns += node.overlapped_communication_ns;
      sums.exposed_memory_ns += node.exposed_memory_ns;
      sums.lost_ns += node.lost_ns;
    }
    if (comment.no_time.empty()) comment.no_time = no_time_reason(plan, node);
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

  const uint128 flops = plan.user.declared_flops();
  // Declared FLOPs are those of the whole run: an unfinished one has not executed them.
  if (ended && device.empty()) {
    comment.no_mfu = comment.no_time.empty() ? "no-device" : comment.no_time;
  } else if (flops == 0) {
    comment.no_mfu = "no-flops";
  } else if (!ended) {
    comment.no_mfu = "running";
  } else if (!complete) {
    comment.no_mfu = "partial";
  } else if (failed) {
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
  if (ended && complete && !failed && plan.user.steps != 0) {
    sums.training_steps = plan.user.steps;
    sums.training_ns = wall_ns;
  }
  comment.sums = sums;
  return comment;
}

}  // namespace mfu
