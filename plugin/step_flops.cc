#include "plugin/step_flops.hh"

#include <algorithm>

namespace mfu {
namespace {

// The devices of a step.
struct StepDevices {
  std::string name;  // of one; empty: no node names any
  bool mixed = false;
  uint32_t sms = 0;
  uint32_t capability = 0;
  uint32_t clock_limit_mhz = 0;  // the highest of them
};

// What is not known of one node contradicts no other.
template <typename Value>
bool contradicts(Value* known, const Value& value, const Value& unknown) {
  if (value == unknown) return false;
  const bool different = *known != unknown && *known != value;
  *known = value;
  return different;
}

StepDevices devices_of(std::span<const NodeShare> shares) {
  StepDevices devices;
  for (const NodeShare& share : shares) {
    const NodeSums& node = *share.node;
    const bool name = contradicts<std::string>(&devices.name, node.device_name, "");
    const bool sms = contradicts(&devices.sms, node.sm_count, 0u);
    const bool capability = contradicts(&devices.capability, node.compute_capability, 0u);
    devices.mixed = devices.mixed || node.mixed_devices != 0 || name || sms || capability;
    const auto limit_mhz = static_cast<uint32_t>(node.clock_limit_mhz);
    devices.clock_limit_mhz = std::max(devices.clock_limit_mhz, limit_mhz);
  }
  return devices;
}

// "NVIDIA H100 80GB HBM3 MIG 1g.10gb" is "H100-SXM-1g.10gb".
std::string short_name(const std::string& name, const PeakAdditions& peaks) {
  if (const PeakAdditions::Row* row = peaks.find(name)) return row->short_name;
  if (const Device* device = find_device(name)) return std::string(device->short_name);
  const MigName mig = split_mig_name(name);
  const Device* whole = mig.slices != 0 ? find_device(mig.device) : nullptr;
  if (whole == nullptr) return name;
  const std::string profile = name.substr(name.rfind(' ') + 1);
  return (std::string(whole->short_name) + "-" + profile).substr(0, kMaxGpuName);
}

// What was counted on the attributed nodes.
struct Counts {
  uint128 gemm_flops[kPrecisions] = {};
  uint128 executed_flops = 0;
  uint128 inferred_flops = 0;
  uint128 kernel_ns = 0;
  uint128 counted_ns = 0;
  uint128 uncounted_ns = 0;
  uint128 gap_ns = 0;  // of gpu_ns: cuBLAS was counted, and kernels were not seen
  uint128 gpu_ns = 0;  // of the GPUs whose executed FLOPs are known, idle ones included
  uint64_t counted_devices = 0;
  uint64_t uncounted_devices = 0;
  Inference inference = Inference::kNothing;
};

Counts counts_of(std::span<const NodeShare> shares) {
  Counts counts;
  for (const NodeShare& share : shares) {
    if (share.attributed_gpus == 0) continue;
    const NodeSums& node = *share.node;
    for (int p = 0; p < kPrecisions; ++p) {
      counts.gemm_flops[p] += node.gemm_flops[p].value();
      counts.executed_flops += node.gemm_flops[p].value();
    }
    counts.executed_flops += node.attention_flops.value();
    counts.inferred_flops += node.inferred_flops.value();
    counts.kernel_ns += node.kernel_ns;
    counts.counted_ns += node.counted_ns;
    counts.uncounted_ns += node.uncounted_ns;
    counts.gap_ns += node.gap_ns;
    const uint32_t unknown = std::min(share.attributed_gpus, node.uncounted_devices);
    counts.gpu_ns += uint128{share.attributed_gpus - unknown} * share.told_ns;
    counts.counted_devices += node.counted_devices;
    counts.uncounted_devices += node.uncounted_devices;
    counts.inference = std::max(counts.inference, node.inference);
  }
  return counts;
}

Precision heaviest(const uint128 (&weights)[kPrecisions]) {
  const auto* best = std::max_element(std::begin(weights), std::end(weights));
  return *best == 0 ? Precision::kUnknown : static_cast<Precision>(best - weights);
}

// That of most counted FLOPs, where more is counted than not.
Precision counted_precision(const Counts& counts) {
  return counts.counted_ns >= counts.uncounted_ns ? heaviest(counts.gemm_flops)
                                                  : Precision::kUnknown;
}

// Else that of most matrix multiplication time, as far as kernels' names tell it.
Precision heaviest_precision(std::span<const NodeShare> shares, const Counts& counts) {
  const Precision counted = counted_precision(counts);
  if (counted != Precision::kUnknown) return counted;
  uint128 named_ns[kPrecisions] = {};
  for (const NodeShare& share : shares) {
    for (int p = 0; p < kPrecisions; ++p) named_ns[p] += share.node->gemm_ns[p];
  }
  return heaviest(named_ns);
}

Peak peak_of(const StepPlan& plan, const StepDevices& devices, Precision precision,
             const PeakAdditions& peaks) {
  if (devices.mixed) return {};
  const Peak known = peaks.peak(devices.name, precision, devices.sms);
  if (known.gigaflops != 0 || !plan.site.estimate) return known;
  const auto capability = static_cast<int>(devices.capability);
  return estimated_peak(capability / 10, capability % 10, devices.sms, devices.clock_limit_mhz,
                        precision);
}

// Why no FLOPs can be held against time; empty when they can.
std::string no_peak_reason(const StepDevices& devices, const Comment& comment) {
  if (devices.name.empty()) return "no-device";
  if (devices.mixed) return "mixed-gpus";
  if (comment.precision == Precision::kUnknown) return "precision-unknown";
  return comment.peak_gigaflops == 0 ? "peak-unknown" : "";
}

// FLOPs of a training step count for the steps that were found: these have been executed.
bool declares_steps_alone(const StepPlan& plan) {
  return plan.user.declared_flops() == 0 && plan.user.flops_per_step != 0;
}

uint128 declared_flops(const StepPlan& plan, const Sums& sums) {
  if (!declares_steps_alone(plan)) return plan.user.declared_flops();
  return plan.user.flops_per_step * std::min<uint128>(sums.training_steps, kMostDeclaredSteps);
}

std::string no_declared_reason(const StepPlan& plan, const StepStatus& status, uint128 flops) {
  const bool found = declares_steps_alone(plan);
  if (flops == 0) return "no-steps";
  if (!status.ended && !found) return "running";
  if (status.ended && !status.complete) return "partial";
  return status.failed && !found ? "incomplete" : "";
}

// Attention is counted by its kernels, and calls are held against kernels: neither holds for time
// in which these were not seen.
bool has_gap(const Counts& counts) {
  return static_cast<double>(counts.gap_ns) >
         kMostUncountedTime * static_cast<double>(counts.gpu_ns);
}

std::string no_counts_reason(const Counts& counts) {
  if (counts.counted_devices == 0 || counts.executed_flops == 0) return "no-flops";
  if (counts.inference > Inference::kKnown) return inference_reason(counts.inference);
  if (counts.uncounted_devices != 0) return "not-all-counted";
  if (has_gap(counts)) return "gap";
  const auto kernel_ns = static_cast<double>(counts.kernel_ns);
  if (static_cast<double>(counts.uncounted_ns) > kMostUncountedTime * kernel_ns) {
    return "uncounted-kernels";
  }
  if (static_cast<double>(counts.counted_ns) < kLeastCountedTime * kernel_ns) return "coverage";
  return counts.inferred_flops == 0 ? "no-flops" : "";
}

// Why counts are of a part of the GPU time only; empty when they are of all.
std::string left_out_reason(const Counts& counts, const Comment& comment) {
  if (counts.gpu_ns >= comment.sums.elapsed_ns) return "";
  if (counts.uncounted_devices != 0) return "not-all-counted";
  return comment.no_time.empty() ? "partial" : comment.no_time;
}

void add_model_flops(const StepPlan& plan, const Counts& counts, const StepDevices& devices,
                     const StepStatus& status, Comment* comment) {
  Sums& sums = comment->sums;
  const bool declared = plan.user.flops != 0 || plan.user.flops_per_step != 0;
  const uint128 flops = declared ? declared_flops(plan, sums) : counts.inferred_flops;
  if (status.ended && devices.name.empty()) {
    comment->no_mfu = comment->no_time.empty() ? "no-device" : comment->no_time;
    return;
  }
  comment->no_mfu = declared ? no_declared_reason(plan, status, flops) : no_counts_reason(counts);
  if (comment->no_mfu.empty()) comment->no_mfu = no_peak_reason(devices, *comment);
  if (!comment->no_mfu.empty()) return;
  comment->basis = declared ? Basis::kModel : Basis::kGemm;
  sums.model_flops = flops;
  sums.flops_ns = declared ? sums.elapsed_ns : counts.gpu_ns;
  sums.capacity_flop = uint128{comment->peak_gigaflops} * sums.flops_ns;
  if (!declared) comment->no_mfu = left_out_reason(counts, *comment);
}

void add_executed_flops(const StepPlan& plan, const Counts& counts, const StepDevices& devices,
                        Comment* comment) {
  constexpr uint64_t kNsPerMs = 1'000'000;
  Sums& sums = comment->sums;
  sums.kernel_ms = counts.kernel_ns / kNsPerMs;
  if (counts.counted_devices == 0 || counts.executed_flops == 0) {
    const bool off = !wants_count(plan.site, plan.user);
    comment->no_hfu = sums.attributed_ns == 0 && !comment->no_time.empty() ? comment->no_time
                      : off                                                ? "count-off"
                                                                           : "no-counts";
    return;
  }
  comment->no_hfu = has_gap(counts) ? "gap" : no_peak_reason(devices, *comment);
  if (!comment->no_hfu.empty()) return;
  sums.executed_flops = counts.executed_flops;
  sums.executed_ns = counts.gpu_ns;
  sums.executed_capacity_flop = uint128{comment->peak_gigaflops} * counts.gpu_ns;
  sums.counted_ms = counts.counted_ns / kNsPerMs;
  comment->no_hfu = left_out_reason(counts, *comment);
}

}  // namespace

void add_flops(const StepPlan& plan, std::span<const NodeShare> shares, const PeakAdditions& peaks,
               const StepStatus& status, Comment* comment) {
  const StepDevices devices = devices_of(shares);
  Counts counts = counts_of(shares);
  if (!wants_count(plan.site, plan.user)) {
    // Attention kernels tell their FLOPs all the same: alone they are no figure that was asked for.
    const uint128 kernel_ns = counts.kernel_ns;
    counts = {};
    counts.kernel_ns = kernel_ns;
  }
  comment->gpu = devices.mixed ? kMixed : short_name(devices.name, peaks);
  // What was counted goes before what the user says, but where he says what was computed as well.
  const bool declared = plan.user.flops != 0 || plan.user.flops_per_step != 0;
  const Precision counted = counted_precision(counts);
  comment->precision = !declared && counted != Precision::kUnknown ? counted
                       : plan.user.precision != Precision::kUnknown
                           ? plan.user.precision
                           : heaviest_precision(shares, counts);
  const Peak peak = peak_of(plan, devices, comment->precision, peaks);
  comment->peak_gigaflops = peak.gigaflops;
  comment->peak_basis = peak.basis;
  comment->clock_limit_mhz = devices.clock_limit_mhz;
  add_model_flops(plan, counts, devices, status, comment);
  add_executed_flops(plan, counts, devices, comment);
}

}  // namespace mfu
