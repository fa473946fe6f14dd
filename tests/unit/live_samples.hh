// A running step's records and what live_step() makes of them.
#ifndef MFU_TESTS_UNIT_LIVE_SAMPLES_HH_
#define MFU_TESTS_UNIT_LIVE_SAMPLES_HH_

#include <cstdint>
#include <cstdio>
#include <vector>

#include "plugin/live_reading.hh"

namespace mfu::live_samples {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kStart = 1'700'000'000 * kSecond;

inline RunningStep running(uint32_t gpus, uint32_t nodes = 1) {
  RunningStep step;
  step.planned = true;
  step.plan.job = 12;
  step.plan.step = 0;
  step.plan.node = "n1";
  step.plan.folder = "/spool/n1/12.0.0";
  step.plan.nodes = nodes;
  step.plan.gpus = gpus;
  step.plan.started_ns = kStart;
  return step;
}

// A process that has computed since 10 s after the step's begin, for 80% of the time, and now ends
// its `seconds`th second: 10 training steps a second, 500 W, 1.5 GHz, 60 degrees.
inline Record process(uint32_t rank, uint64_t seconds, uint8_t uuid) {
  const uint64_t busy = (seconds - 10) * kSecond;
  Record record;
  record.size = sizeof(Record);
  record.sequence = 1;
  record.pid = 100 + rank;
  record.task = rank;
  record.flags = kPrimary | kDeviceKnown;
  record.uuid[0] = uuid;
  std::snprintf(record.device_name, sizeof(record.device_name), "NVIDIA H100 80GB HBM3");
  std::snprintf(record.pci_bus_id, sizeof(record.pci_bus_id), "00000000:4E:00.0");
  record.started_ns = kStart + 2 * kSecond;
  record.published_ns = kStart + seconds * kSecond;
  record.time.span_start_ns = kStart + 10 * kSecond;
  record.time.span_end_ns = record.published_ns;
  record.time.partition_ns[kCompute] = busy / 10 * 7;
  record.time.partition_ns[kCompute | kCommunication] = busy / 10;
  record.time.partition_ns[kCommunication] = busy / 20;
  record.compute_kernels = 1000;
  record.compute_kernel_ns = busy / 10 * 8;
  record.gemm_ns[static_cast<int>(Precision::kBf16)] = busy / 2;
  record.steps = {
      .source = StepSource::kPeriodicity, .count = 10 * (seconds - 10), .period_ns = kSecond / 10};
  SensorSums& sensors = record.sensors;
  sensors.readings = seconds;
  sensors.energy_ns = seconds * kSecond;
  sensors.energy_mj = seconds * 500'000;
  sensors.clock_ns = busy;
  sensors.sm_cycles = busy / 2 * 3;
  sensors.clock_limit_mhz = 1980;
  sensors.temperature_ns = seconds * kSecond;
  sensors.temperature_c_us = seconds * 60 * 1'000'000;
  sensors.reasons_ns = seconds * kSecond;
  sensors.reason_ns[kClockPower] = busy / 4;
  return record;
}

// It has called for matrix multiplications of that many TFLOP/s, and they were counted.
inline Record counting(Record record, uint64_t seconds, double tflops) {
  FlopSum flops;
  flops.add(static_cast<uint128>(tflops * 1e12) * (seconds - 10));
  record.gemms.flops[static_cast<int>(Precision::kBf16)] = flops;
  record.gemms.entries = 1;
  record.gemms.calls[0] = record.counted.gemm_kernels = 1000;
  record.counted.gemm_ns = record.compute_kernel_ns;
  record.inferred.flops = flops;
  record.inferred.verdict = Inference::kKnown;
  return record;
}

inline LiveStep live(const RunningStep& step, std::vector<Record> records, uint64_t now_ns) {
  SpoolRecords read;
  read.records = std::move(records);
  return live_step(step, read, {}, now_ns);
}

inline LiveReading reading(std::vector<LiveStep> steps, uint64_t at_ns) {
  LiveReading result;
  result.at_ns = at_ns;
  result.steps = std::move(steps);
  return result;
}

}  // namespace mfu::live_samples

#endif
