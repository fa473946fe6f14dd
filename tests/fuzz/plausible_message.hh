// What a node of a job step says, nearly: fuzzers change it.
#ifndef MFU_TESTS_FUZZ_PLAUSIBLE_MESSAGE_HH_
#define MFU_TESTS_FUZZ_PLAUSIBLE_MESSAGE_HH_

#include <cstdio>

#include "plugin/peer.hh"

namespace mfu {

inline constexpr uint64_t kFuzzSecond = 1'000'000'000;
inline constexpr uint64_t kFuzzStart = 1'700'000'000 * kFuzzSecond;

// The step that the messages are of.
inline StepPlan plan_of_message(uint32_t nodes) {
  StepPlan plan;
  plan.job = 7;
  plan.nodes = nodes;
  plan.started_ns = kFuzzStart;
  return plan;
}

inline peer::Message plausible_message(uint32_t node) {
  peer::Message message;
  NodeSums& sums = message.sums;
  sums.job = 7;
  sums.node_id = node;
  sums.sequence = 1;
  sums.last = 1;
  sums.until_ns = kFuzzStart + 100 * kFuzzSecond;
  sums.gpus = sums.processes = sums.devices = sums.counted_devices = 4;
  std::snprintf(sums.device_name, sizeof(sums.device_name), "NVIDIA H100 80GB HBM3");
  std::snprintf(sums.clique, sizeof(sums.clique), "rack%u.1", node % 2);
  sums.placement_audited = 1;
  sums.span_ns = 360 * kFuzzSecond;
  sums.compute_ns = 320 * kFuzzSecond;
  sums.exposed_communication_ns = 16 * kFuzzSecond;
  sums.overlapped_communication_ns = 40 * kFuzzSecond;
  sums.exposed_memory_ns = 8 * kFuzzSecond;
  sums.kernel_ns = 320 * kFuzzSecond;
  sums.counted_ns = 300 * kFuzzSecond;
  const auto bf16 = static_cast<int>(Precision::kBf16);
  sums.gemm_ns[bf16] = 300 * kFuzzSecond;
  sums.gemm_flops[bf16].mega = 100'000'000'000;
  sums.inferred_flops.mega = 90'000'000'000;
  sums.inference = Inference::kKnown;
  sums.energy_ns = sums.clock_ns = sums.tensor_ns = sums.reasons_ns = 390 * kFuzzSecond;
  sums.energy_mj = 240'000'000;
  sums.sm_cycles = 600'000'000'000;
  sums.clock_limit_mhz = 1980;
  sums.read_bytes = kFuzzSecond;
  sums.productive_ns = 350 * kFuzzSecond;
  sums.tail_ns = 10 * kFuzzSecond;
  sums.steps = {1, 4, 100, 100, kFuzzSecond};
  message.spreads.count = 1;
  message.spreads.ranks = 4;
  message.spreads.collectives = 10;
  message.spreads.kernel_ns = 16 * kFuzzSecond;
  message.spreads.spreads[0] = {64, kFuzzSecond, 5 * kFuzzSecond, 4, node * 4};
  const Finding finding = {"nic-down", Severity::kHigh, "n1 mlx5_0", "port 1 is DOWN",
                           "ibstat mlx5_0"};
  message.findings = top_findings({&finding, 1});
  return message;
}

}  // namespace mfu

#endif
