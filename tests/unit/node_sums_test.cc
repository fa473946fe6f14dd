#include "plugin/node_sums.hh"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "plugin/bounded_sum.hh"
#include "tests/unit/node_samples.hh"

namespace mfu {
namespace {

using namespace node_samples;

TEST(NodeSums, NothingComesOfNothing) {
  NodeSums sums = summed({});
  EXPECT_EQ(sums.processes, 0u);
  EXPECT_EQ(sums.devices, 0u);
  EXPECT_EQ(sums.span_ns, 0u);
}

TEST(NodeSums, OneProcessOneDevice) {
  NodeSums sums = summed({process(1)});
  EXPECT_EQ(sums.processes, 1u);
  EXPECT_EQ(sums.devices, 1u);
  EXPECT_EQ(sums.shared_devices, 0u);
  EXPECT_EQ(sums.unattributed_devices, 0u);
  EXPECT_EQ(sums.span_ns, 90 * kSecond);
  EXPECT_EQ(sums.compute_ns, 80 * kSecond);
  EXPECT_EQ(sums.exposed_communication_ns, 4 * kSecond);
  EXPECT_EQ(sums.overlapped_communication_ns, 10 * kSecond);
  EXPECT_EQ(sums.exposed_memory_ns, 2 * kSecond);
  EXPECT_EQ(sums.lost_ns, 0u);
  EXPECT_STREQ(sums.device_name, "NVIDIA H100 80GB HBM3");
}

TEST(NodeSums, DevicesAreToldApartByUuid) {
  NodeSums sums = summed({process(1, 1), process(2, 2), process(3, 3)});
  EXPECT_EQ(sums.devices, 3u);
  EXPECT_EQ(sums.shared_devices, 0u);
  EXPECT_EQ(sums.span_ns, 270 * kSecond);
  EXPECT_EQ(sums.mixed_devices, 0u);
}

TEST(NodeSums, OneProcessOnSeveralDevices) {
  Record second = process(1, 2);
  second.flags = kDeviceKnown;
  second.device = 1;
  Record first = process(1, 1);
  first.lost_ns = kSecond;  // of the process: each of its devices has lost it
  NodeSums sums = summed({first, second});
  EXPECT_EQ(sums.processes, 1u);
  EXPECT_EQ(sums.devices, 2u);
  EXPECT_EQ(sums.lost_ns, 2 * kSecond);
}

TEST(NodeSums, UnknownUuidsFallBackToProcessAndOrdinal) {
  Record a = process(1);
  Record b = process(2);
  a.flags = b.flags = kPrimary | kFinished;
  EXPECT_EQ(summed({a, b}).devices, 2u);
}

TEST(NodeSums, ExecInTheSamePidIsTwoProcessesOneAfterTheOther) {
  Record before = process(1);
  before.flags &= ~static_cast<uint32_t>(kFinished);  // exec runs no exit handler
  before.published_ns = 40 * kSecond;
  before.time = {};
  before.time.span_start_ns = 5 * kSecond;
  before.time.span_end_ns = 40 * kSecond;
  before.time.partition_ns[kCompute] = 30 * kSecond;
  Record after = process(1);
  after.started_ns = 41 * kSecond;
  after.time = {};
  after.time.span_start_ns = 50 * kSecond;
  after.time.span_end_ns = 95 * kSecond;
  after.time.partition_ns[kCompute] = 40 * kSecond;
  // The order of the files is the file system's: it must not matter.
  for (const auto& records : {std::vector{before, after}, std::vector{after, before}}) {
    NodeSums sums = summed(records);
    EXPECT_EQ(sums.processes, 2u);
    EXPECT_EQ(sums.cut_off_processes, 1u);
    EXPECT_EQ(sums.devices, 1u);
    EXPECT_EQ(sums.shared_devices, 0u);
    EXPECT_EQ(sums.span_ns, 90 * kSecond);
    EXPECT_EQ(sums.compute_ns, 70 * kSecond);
    EXPECT_EQ(sums.lost_ns, kSecond);  // at most a turn after the last word of the first program
  }
}

TEST(NodeSums, TimeAfterTheLastWordIsLost) {
  Record record = process(1);
  record.flags &= ~static_cast<uint32_t>(kFinished);
  record.published_ns = kEnd - kSecond / 4;
  EXPECT_EQ(summed({record}).lost_ns, kSecond / 4);
  EXPECT_EQ(summed({record}).cut_off_processes, 1u);
  record.published_ns = 10 * kSecond;  // killed then: it would have spoken again after a second
  EXPECT_EQ(summed({record}).lost_ns, kSecond);
  record.flags |= kFlushFailed;  // it lived on, and could not speak
  EXPECT_EQ(summed({record}).lost_ns, 90 * kSecond);
  record.flags |= kFinished;
  EXPECT_EQ(summed({record}).lost_ns, 0u);
  EXPECT_EQ(summed({record}, kSecond).lost_ns, 0u);  // an end before the last word
}

TEST(NodeSums, LateAndUnusableRecordsAreLost) {
  Record record = process(1);
  record.late = 3;
  record.late_ns = 7 * kSecond;
  EXPECT_EQ(summed({record}).lost_ns, 7 * kSecond);
  EXPECT_EQ(summed({record}).kept_out, 3u);
  record = process(1);
  record.zero_times = 500;
  record.reversed = 250;
  record.implausible = 250;  // half of all records: half of the span
  EXPECT_EQ(summed({record}).lost_ns, 45 * kSecond);
  EXPECT_EQ(summed({record}).kept_out, 1000u);
}

TEST(NodeSums, ADeviceOfAFailedProcessIsNotAttributed) {
  Record failed = process(2, 2);
  failed.state = State::kStoodDown;
  NodeSums sums = summed({process(1), failed});
  EXPECT_EQ(sums.devices, 2u);
  EXPECT_EQ(sums.unattributed_devices, 1u);
  EXPECT_EQ(sums.state, State::kStoodDown);
  // What was seen before must not count for the devices that were observed.
  EXPECT_EQ(sums.compute_ns, 80 * kSecond);
  EXPECT_EQ(sums.span_ns, 90 * kSecond);
  EXPECT_EQ(sums.lost_ns, 0u);
}

TEST(NodeSums, TheWorstStateWinsWithItsCall) {
  Record busy = process(1, 1);
  busy.state = State::kCuptiBusy;
  busy.cupti_call = CuptiCall::kRegisterCallbacks;
  busy.cupti_result = 39;
  Record denied = process(2, 2);
  denied.state = State::kDenied;
  denied.cupti_call = CuptiCall::kEnableKernel;
  denied.cupti_result = 35;
  for (const auto& records : {std::vector{busy, denied}, std::vector{denied, busy}}) {
    NodeSums sums = summed(records);
    EXPECT_EQ(sums.state, State::kDenied);
    EXPECT_EQ(sums.cupti_call, CuptiCall::kEnableKernel);
    EXPECT_EQ(sums.cupti_result, 35);
    EXPECT_EQ(sums.unattributed_devices, 2u);
  }
}

TEST(NodeSums, ADeviceWithoutASingleActivityIsNotIdleButUnobserved) {
  Record silent = process(1);
  silent.time = {};
  NodeSums sums = summed({silent});
  EXPECT_EQ(sums.unattributed_devices, 1u);
  EXPECT_EQ(sums.state, State::kNoRecords);
  // A helper process beside one that works takes nothing away.
  silent.pid = 2;
  sums = summed({process(1), silent});
  EXPECT_EQ(sums.devices, 1u);
  EXPECT_EQ(sums.unattributed_devices, 0u);
  EXPECT_EQ(sums.compute_ns, 80 * kSecond);
  EXPECT_EQ(sums.shared_devices, 0u);
}

TEST(NodeSums, ProcessesSharingADeviceNeverMakeMoreThanItsSpan) {
  NodeSums sums = summed({process(1), process(2), process(3)});
  EXPECT_EQ(sums.devices, 1u);
  EXPECT_EQ(sums.shared_devices, 1u);
  EXPECT_EQ(sums.span_ns, 90 * kSecond);
  EXPECT_EQ(sums.compute_ns, 90 * kSecond);
  EXPECT_EQ(sums.exposed_communication_ns, 0u);
  // The union may be one process's time or the sum: the doubt is the whole span here.
  EXPECT_EQ(sums.lost_ns, 90 * kSecond);
  // One after the other shares nothing.
  Record later = process(2);
  later.time.span_start_ns += 200 * kSecond;
  later.time.span_end_ns += 200 * kSecond;
  later.started_ns += 200 * kSecond;
  later.published_ns += 200 * kSecond;
  sums = summed({process(1), later}, 300 * kSecond);
  EXPECT_EQ(sums.shared_devices, 0u);
  EXPECT_EQ(sums.compute_ns, 160 * kSecond);
  EXPECT_EQ(sums.lost_ns, 0u);
}

TEST(NodeSums, DifferentDevicesAreMixed) {
  Record other = process(2, 2);
  std::snprintf(other.device_name, sizeof(other.device_name), "NVIDIA H200");
  EXPECT_EQ(summed({process(1), other}).mixed_devices, 1u);
}

TEST(NodeSums, DevicesOfDifferentPartsAreMixed) {
  Record whole = process(1, 1);
  Record slice = process(2, 2);
  whole.sm_count = slice.sm_count = 132;
  whole.compute_capability = slice.compute_capability = 90;
  NodeSums sums = summed({whole, slice});
  EXPECT_EQ(sums.mixed_devices, 0u);
  EXPECT_EQ(sums.sm_count, 132u);
  EXPECT_EQ(sums.compute_capability, 90u);
  slice.sm_count = 0;  // not known yet
  EXPECT_EQ(summed({whole, slice}).mixed_devices, 0u);
  EXPECT_EQ(summed({slice, whole}).sm_count, 132u);
  slice.sm_count = 16;
  EXPECT_EQ(summed({whole, slice}).mixed_devices, 1u);
  // A process that may use a part of the same device is no other device.
  slice.uuid[0] = 1;
  EXPECT_EQ(summed({whole, slice}).mixed_devices, 0u);
  EXPECT_EQ(summed({slice, whole}).sm_count, 132u);
  slice = process(2, 2);
  slice.compute_capability = 80;
  EXPECT_EQ(summed({whole, slice}).mixed_devices, 1u);
  // Beyond any device: as good as nothing.
  whole.sm_count = whole.compute_capability = UINT32_MAX;
  sums = summed({whole});
  EXPECT_EQ(sums.sm_count, 0u);
  EXPECT_EQ(sums.compute_capability, 0u);
}

TEST(NodeSums, StepsOfWholeRecordsOnly) {
  Record one = process(1, 1);
  one.steps.source = StepSource::kPeriodicity;
  one.steps.count = 90;
  one.steps.period_ns = 7;
  Record two = process(2, 2);
  two.steps = one.steps;
  two.steps.count = 89;
  two.steps.period_ns = 8;
  FoundSteps steps = summed({one, two}, 9).steps;
  EXPECT_EQ(steps.source, static_cast<uint32_t>(StepSource::kPeriodicity));
  EXPECT_EQ(steps.devices, 2u);
  EXPECT_EQ(steps.fewest, 89u);
  EXPECT_EQ(steps.most, 90u);
  EXPECT_EQ(steps.period_ns, 8u);
  EXPECT_TRUE(steps.known());
  // Kernels are missing: so may be steps. Ranges do not come from CUPTI.
  two.dropped = 1;
  EXPECT_EQ(summed({one, two}, 9).steps.fewest, 90u);
  two.steps.source = StepSource::kNvtx;
  steps = summed({one, two}, 9).steps;
  EXPECT_EQ(steps.source, static_cast<uint32_t>(StepSource::kNvtx));
  EXPECT_EQ(steps.fewest, 89u);
  EXPECT_EQ(steps.devices, 1u);
}

TEST(NodeSums, HostileRecordsCannotWrapASum) {
  std::vector<Record> records;
  for (uint32_t i = 0; i < kMostRecords; ++i) {
    Record record = process(i, static_cast<uint8_t>(i));
    record.uuid[1] = static_cast<uint8_t>(i >> 8);
    record.flags &= ~static_cast<uint32_t>(kFinished);
    record.flags |= kFlushFailed;
    record.started_ns = record.published_ns = 0;
    record.time = {};
    record.time.span_start_ns = 1;
    record.time.span_end_ns = kMost;
    record.time.partition_ns[i % 7 + 1] = kMost - 1;
    record.compute_kernels = record.communication_kernels = record.copies = kMost;
    record.zero_times = record.reversed = record.implausible = kMost;
    record.late = record.late_ns = record.dropped = record.lost_ns = kMost;
    for (uint64_t& value : record.gemm_ns) value = kMost;
    records.push_back(record);
  }
  for (bool one_device : {false, true}) {
    if (one_device) {
      for (Record& record : records) std::memset(record.uuid, 1, sizeof(record.uuid));
    }
    NodeSums sums = summed(records, UINT64_MAX);
    for (uint64_t value : {sums.span_ns, sums.compute_ns, sums.exposed_communication_ns,
                           sums.overlapped_communication_ns, sums.exposed_memory_ns, sums.lost_ns,
                           sums.dropped, sums.kept_out, sums.gemm_ns[0]}) {
      EXPECT_LE(value, kMostSum);
    }
    EXPECT_EQ(sums.gemm_ns[0], kMostSum);  // stopped at the bound, not wrapped
    EXPECT_EQ(node_sums_fault(sums, 0, 0, 1), nullptr);
  }
}

TEST(NodeSums, SpansFarApartCannotWrapTheSum) {
  std::vector<Record> records;
  for (uint8_t device = 0; device < 8; ++device) {
    Record early = process(1, device);
    early.time = {.span_start_ns = 1, .span_end_ns = 2};
    Record late = process(2, device);
    late.time = {.span_start_ns = UINT64_MAX - 1, .span_end_ns = UINT64_MAX};
    records.insert(records.end(), {early, late});
  }
  EXPECT_EQ(summed(records).span_ns, kMostSum);
}

TEST(NodeSums, PropertyTheClassesNeverExceedTheSpan) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Record> records;
    for (uint64_t i = 0; i < 1 + random() % 6; ++i) {
      Record record =
          process(static_cast<uint32_t>(random() % 3), static_cast<uint8_t>(random() % 2));
      record.time = {};
      record.time.span_start_ns = 1 + random() % 50;
      uint64_t span = 1 + random() % 50;
      record.time.span_end_ns = record.time.span_start_ns + span;
      for (int mask = 1; mask < kMasks; ++mask) {
        record.time.partition_ns[mask] = random() % (span / (kMasks - 1) + 1);
      }
      records.push_back(record);
    }
    NodeSums sums = summed(records);
    ASSERT_LE(sums.compute_ns + sums.exposed_communication_ns + sums.exposed_memory_ns,
              sums.span_ns);
    ASSERT_LE(sums.overlapped_communication_ns, sums.compute_ns);
  }
}

TEST(NodeSumsFault, APeersBytesAreChecked) {
  NodeSums sound = summed({process(1)});
  sound.job = 7;
  sound.step = 3;
  sound.node_id = 1;
  sound.gpus = 4;
  ASSERT_EQ(node_sums_fault(sound, 7, 3, 2), nullptr);
  EXPECT_STREQ(node_sums_fault(sound, 8, 3, 2), "another job step");
  EXPECT_STREQ(node_sums_fault(sound, 7, 4, 2), "another job step");
  EXPECT_STREQ(node_sums_fault(sound, 7, 3, 1), "no node of this step");
  auto fault = [&](auto spoil) {
    NodeSums sums = sound;
    spoil(&sums);
    return node_sums_fault(sums, 7, 3, 2);
  };
  EXPECT_STREQ(fault([](NodeSums* s) { s->magic = 0; }), "not a node's sums");
  EXPECT_STREQ(fault([](NodeSums* s) { s->version = 9; }), "another version");
  EXPECT_STREQ(fault([](NodeSums* s) { s->size = 9; }), "another version");
  EXPECT_STREQ(fault([](NodeSums* s) { s->state = static_cast<State>(kStates); }), "state");
  EXPECT_STREQ(fault([](NodeSums* s) { s->cupti_call = static_cast<CuptiCall>(99); }),
               "cupti_call");
  EXPECT_STREQ(fault([](NodeSums* s) { s->last = 2; }), "flag");
  EXPECT_STREQ(fault([](NodeSums* s) { s->gpus = 5000; }), "count");
  EXPECT_STREQ(fault([](NodeSums* s) { s->unattributed_devices = 2; }), "unattributed devices");
  EXPECT_STREQ(fault([](NodeSums* s) { s->device_name[0] = '\n'; }), "device_name");
  EXPECT_STREQ(fault([](NodeSums* s) { std::memset(s->device_name, 'x', 96); }), "device_name");
  EXPECT_STREQ(fault([](NodeSums* s) { s->span_ns = kMostSum + 1; }), "sum");
  EXPECT_STREQ(fault([](NodeSums* s) { s->gemm_ns[1] = kMostSum + 1; }), "gemm_ns");
  EXPECT_STREQ(fault([](NodeSums* s) { s->sm_count = kMostSms + 1; }), "device");
  EXPECT_STREQ(fault([](NodeSums* s) { s->compute_capability = 1000; }), "device");
  EXPECT_STREQ(fault([](NodeSums* s) { s->counted_devices = 2; }), "counted devices");
  EXPECT_STREQ(fault([](NodeSums* s) { s->uncounted_devices = s->counted_devices = 1; }),
               "counted devices");
  EXPECT_STREQ(fault([](NodeSums* s) { s->uncounted_devices = UINT32_MAX; }), "counted devices");
  EXPECT_STREQ(fault([](NodeSums* s) { s->inference = static_cast<Inference>(kInferences); }),
               "inference");
  EXPECT_STREQ(fault([](NodeSums* s) { s->gemm_flops[8].mega = kMostSum + 1; }), "FLOPs");
  EXPECT_STREQ(fault([](NodeSums* s) { s->attention_flops.rest = 1 << 20; }), "FLOPs");
  EXPECT_STREQ(fault([](NodeSums* s) { s->inferred_flops.rest = UINT64_MAX; }), "FLOPs");
  EXPECT_STREQ(fault([](NodeSums* s) { s->kernel_ns = kMostSum + 1; }), "counted time");
  EXPECT_STREQ(fault([](NodeSums* s) { s->counted_ns = s->kernel_ns + 1; }), "counted time");
  EXPECT_STREQ(fault([](NodeSums* s) { s->uncounted_ns = s->kernel_ns + 1; }), "counted time");
  EXPECT_STREQ(fault([](NodeSums* s) { s->energy_mj = kMostSum + 1; }), "sensors");
  EXPECT_STREQ(fault([](NodeSums* s) { s->reasons_ns = UINT64_MAX; }), "sensors");
  EXPECT_STREQ(fault([](NodeSums* s) { s->tensor_active_ns = 1; }), "tensor activity");
  EXPECT_STREQ(fault([](NodeSums* s) { s->reason_ns[kClockOther] = 1; }), "clock reason");
  EXPECT_STREQ(fault([](NodeSums* s) { s->clock_limit_mhz = kMostClockMhz + 1; }), "clock limit");
  EXPECT_STREQ(fault([](NodeSums* s) { s->storage_failures = 2; }), "storage");
  EXPECT_STREQ(fault([](NodeSums* s) { s->written_bytes = UINT64_MAX; }), "storage");
  EXPECT_STREQ(fault([](NodeSums* s) { s->placement_audited = 2; }), "placement");
  EXPECT_STREQ(fault([](NodeSums* s) { s->placement_high = UINT32_MAX; }), "placement");
  EXPECT_STREQ(fault([](NodeSums* s) { s->placement_warnings = (1 << 20) + 1; }), "placement");
  EXPECT_STREQ(fault([](NodeSums* s) { std::memset(s->placement_rules, 'x', 64); }), "placement");
  EXPECT_STREQ(fault([](NodeSums* s) { std::memset(s->clique, 'x', 64); }), "clique");
  EXPECT_STREQ(fault([](NodeSums* s) { s->clique[0] = '\t'; }), "clique");
  EXPECT_STREQ(fault([](NodeSums* s) { s->tail_ns = kMostSum + 1; }), "goodput");
  EXPECT_STREQ(fault([](NodeSums* s) { s->productive_ns = UINT64_MAX; }), "goodput");
}

}  // namespace
}  // namespace mfu
