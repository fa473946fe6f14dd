// What a peer may say.
#include <algorithm>
#include <cstring>

#include "plugin/bounded_sum.hh"
#include "plugin/node_sums.hh"

namespace mfu {
namespace {

bool is_bounded(std::initializer_list<uint64_t> values) {
  return std::max(values) <= kMostSum;
}

const char* flops_fault(const NodeSums& sums) {
  if (sums.counted_devices > sums.devices ||
      sums.uncounted_devices > sums.devices - sums.counted_devices) {
    return "counted devices";
  }
  if (static_cast<uint32_t>(sums.inference) >= kInferences) return "inference";
  const auto sound = [](const FlopSum& flops) {
    return flops.mega <= kMostSum && flops.rest >> FlopSum::kRestBits == 0;
  };
  if (!std::all_of(std::begin(sums.gemm_flops), std::end(sums.gemm_flops), sound) ||
      !sound(sums.attention_flops) || !sound(sums.inferred_flops)) {
    return "FLOPs";
  }
  if (sums.gap_ns > kMostSum) return "gap";
  if (sums.kernel_ns > kMostSum || std::max(sums.counted_ns, sums.uncounted_ns) > sums.kernel_ns) {
    return "counted time";
  }
  return nullptr;
}

const char* sensors_fault(const NodeSums& sums) {
  if (!is_bounded({sums.energy_mj, sums.energy_ns, sums.sm_cycles, sums.clock_ns, sums.tensor_ns,
                   sums.reasons_ns})) {
    return "sensors";
  }
  if (sums.tensor_active_ns > sums.tensor_ns) return "tensor activity";
  for (const uint64_t ns : sums.reason_ns) {
    if (ns > sums.reasons_ns) return "clock reason";
  }
  return sums.clock_limit_mhz > kMostClockMhz ? "clock limit" : nullptr;
}

// Printable, up to a zero byte.
template <size_t kSize>
bool is_text(const char (&text)[kSize]) {
  const void* end = std::memchr(text, '\0', kSize);
  return end != nullptr && std::all_of(text, static_cast<const char*>(end),
                                       [](char byte) { return byte >= ' ' && byte <= '~'; });
}

const char* parts_fault(const NodeSums& sums) {
  if (sums.storage_failures > sums.processes ||
      !is_bounded({sums.read_bytes, sums.written_bytes})) {
    return "storage";
  }
  constexpr uint32_t kMostFindings = 1 << 20;
  if (sums.placement_audited > 1 ||
      std::max(sums.placement_high, sums.placement_warnings) > kMostFindings ||
      std::memchr(sums.placement_rules, '\0', sizeof(sums.placement_rules)) == nullptr) {
    return "placement";
  }
  if (!is_text(sums.clique)) return "clique";
  return is_bounded({sums.productive_ns, sums.start_up_ns, sums.writing_ns, sums.reading_ns,
                     sums.stalled_ns, sums.tail_ns})
             ? nullptr
             : "goodput";
}

}  // namespace

const char* node_sums_fault(const NodeSums& sums, uint32_t job, uint32_t step, uint32_t nodes) {
  if (sums.magic != NodeSums::kMagic) return "not a node's sums";
  if (sums.version != NodeSums::kVersion || sums.size != sizeof(NodeSums)) return "another version";
  if (sums.job != job || sums.step != step) return "another job step";
  if (sums.node_id >= nodes) return "no node of this step";
  if (static_cast<uint32_t>(sums.state) >= kStates) return "state";
  if (static_cast<uint32_t>(sums.cupti_call) >= kCuptiCalls) return "cupti_call";
  if (sums.last > 1 || sums.mixed_devices > 1) return "flag";
  if (std::max({sums.gpus, sums.processes, sums.devices}) > kMostRecords) return "count";
  if (sums.unattributed_devices > sums.devices) return "unattributed devices";
  if (sums.sm_count > kMostSms || sums.compute_capability > kMostCapability) return "device";
  if (!is_text(sums.device_name)) return "device_name";
  for (uint64_t value : {sums.span_ns, sums.compute_ns, sums.exposed_communication_ns,
                         sums.overlapped_communication_ns, sums.exposed_memory_ns, sums.lost_ns}) {
    if (value > kMostSum) return "sum";
  }
  for (uint64_t value : sums.gemm_ns) {
    if (value > kMostSum) return "gemm_ns";
  }
  const FoundSteps& steps = sums.steps;
  if (steps.source > static_cast<uint32_t>(StepSource::kNvtx) || steps.fewest > steps.most ||
      steps.most > kMostSum || steps.period_ns > kMostSum) {
    return "steps";
  }
  if (const char* fault = flops_fault(sums)) return fault;
  if (const char* fault = sensors_fault(sums)) return fault;
  return parts_fault(sums);
}

}  // namespace mfu
