// A process's record, and what becomes of it in a node's sums.
#ifndef MFU_TESTS_UNIT_NODE_SAMPLES_HH_
#define MFU_TESTS_UNIT_NODE_SAMPLES_HH_

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "plugin/node_sums.hh"

namespace mfu::node_samples {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kEnd = 100 * kSecond;
inline constexpr uint64_t kMost = uint64_t{1} << 56;  // of a field of a sound record

// A process with its last word at kEnd: 80 s of compute within 90 s on one device.
inline Record process(uint32_t pid, uint8_t uuid = 1) {
  Record record;
  record.size = sizeof(Record);
  record.sequence = 1;
  record.pid = pid;
  record.flags = kPrimary | kFinished | kDeviceKnown;
  record.uuid[0] = uuid;
  std::snprintf(record.device_name, sizeof(record.device_name), "NVIDIA H100 80GB HBM3");
  record.started_ns = kSecond;
  record.published_ns = kEnd;
  record.time.span_start_ns = 5 * kSecond;
  record.time.span_end_ns = 95 * kSecond;
  record.time.partition_ns[kCompute] = 70 * kSecond;
  record.time.partition_ns[kCompute | kCommunication] = 10 * kSecond;
  record.time.partition_ns[kCommunication] = 4 * kSecond;
  record.time.partition_ns[kMemory] = 2 * kSecond;
  record.compute_kernels = 1000;
  record.gemm_ns[static_cast<int>(Precision::kBf16)] = 60 * kSecond;
  return record;
}

inline NodeSums summed(std::vector<Record> records, uint64_t end_ns = kEnd) {
  for (Record& record : records) {
    record.checksum = record_checksum(record);
    EXPECT_EQ(record_fault(record), nullptr);
  }
  NodeSums sums;
  add_records(records, 0, end_ns, &sums);
  return sums;
}

}  // namespace mfu::node_samples

#endif
