// What nodes say of a job step, and what is reported of it.
#ifndef MFU_TESTS_UNIT_STEP_SAMPLES_HH_
#define MFU_TESTS_UNIT_STEP_SAMPLES_HH_

#include <cstdint>
#include <cstdio>
#include <map>

#include "plugin/step_report.hh"

namespace mfu::step_samples {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kStart = 1'700'000'000 * kSecond;
inline constexpr uint64_t kNow = kStart + 100 * kSecond;
inline constexpr char kH100[] = "NVIDIA H100 80GB HBM3";
inline constexpr uint64_t kPeak = 989'400;  // gigaflop/s, bf16

using Nodes = std::map<uint32_t, NodeSums>;

inline Comment reported(const StepPlan& plan, const Nodes& nodes, uint64_t now_ns, bool ended) {
  return report_step(plan, nodes, {}, {}, now_ns, ended);
}

inline StepPlan plan_of(uint32_t nodes = 1) {
  StepPlan plan;
  plan.job = 7;
  plan.nodes = nodes;
  plan.started_ns = kStart;
  return plan;
}

// A node whose 4 GPUs computed for 80 of the 100 seconds, each.
inline NodeSums node(const char* device = kH100) {
  NodeSums sums;
  sums.last = 1;
  sums.gpus = sums.devices = sums.processes = 4;
  std::snprintf(sums.device_name, sizeof(sums.device_name), "%s", device);
  sums.until_ns = kNow;
  sums.span_ns = 360 * kSecond;
  sums.compute_ns = 320 * kSecond;
  sums.exposed_communication_ns = 16 * kSecond;
  sums.overlapped_communication_ns = 40 * kSecond;
  sums.exposed_memory_ns = 8 * kSecond;
  sums.lost_ns = 4 * kSecond;
  sums.gemm_ns[static_cast<int>(Precision::kBf16)] = 300 * kSecond;
  sums.gemm_ns[static_cast<int>(Precision::kFp32)] = 10 * kSecond;
  return sums;
}

}  // namespace mfu::step_samples

#endif
