#include "plugin/node_sensors.hh"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "plugin/bounded_sum.hh"
#include "tests/unit/node_samples.hh"

namespace mfu {
namespace {

using namespace node_samples;

// 90 s at 600 W and 1,500 MHz, half of them with busy tensor cores, power-capped for 30 s.
Record measured(uint32_t pid, uint8_t uuid) {
  Record record = process(pid, uuid);
  SensorSums& sensors = record.sensors;
  sensors.energy_source = EnergySource::kCounter;
  sensors.energy_mj = 54'000'000;
  sensors.energy_ns = 90 * kSecond;
  sensors.sm_cycles = 135'000'000'000;
  sensors.clock_ns = 90 * kSecond;
  sensors.tensor_active_ns = 45 * kSecond;
  sensors.tensor_ns = 90 * kSecond;
  sensors.reason_ns[kClockPower] = 30 * kSecond;
  sensors.reasons_ns = 90 * kSecond;
  sensors.readings = 90;
  sensors.clock_limit_mhz = 1980;
  return record;
}

// Its link was read `readings` times under load.
Record linked(uint32_t pid, uint8_t uuid, DeviceLink link, uint32_t readings) {
  Record record = measured(pid, uuid);
  std::snprintf(record.pci_bus_id, sizeof(record.pci_bus_id), "0000:%XB:00.0", uuid);
  record.sensors.link = link;
  record.sensors.most_link = {5, 16};
  record.sensors.link_readings = readings;
  return record;
}

// On a node with the devices 1b, 2b, 3b and cb.
std::vector<Finding> links(std::vector<Record> records) {
  char folder[] = "/tmp/mfu-pci.XXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  for (const char* bus : {"1b", "2b", "3b", "cb"}) {
    std::filesystem::create_directory(std::string(folder) + "/0000:" + bus + ":00.0");
  }
  const auto found = link_findings(records, "n1", folder);
  std::filesystem::remove_all(folder);
  return found;
}

void expect_sensors(const NodeSums& sums, uint64_t of_measured) {
  EXPECT_EQ(sums.energy_mj, of_measured * 54'000'000);
  EXPECT_EQ(sums.energy_ns, of_measured * 90 * kSecond);
  EXPECT_EQ(sums.sm_cycles, of_measured * 135'000'000'000);
  EXPECT_EQ(sums.clock_ns, of_measured * 90 * kSecond);
  EXPECT_EQ(sums.tensor_active_ns, of_measured * 45 * kSecond);
  EXPECT_EQ(sums.tensor_ns, of_measured * 90 * kSecond);
  EXPECT_EQ(sums.reason_ns[kClockPower], of_measured * 30 * kSecond);
  EXPECT_EQ(sums.reason_ns[kClockThermal], 0u);
  EXPECT_EQ(sums.reasons_ns, of_measured * 90 * kSecond);
}

TEST(NodeSensors, DevicesAddUp) {
  const NodeSums sums = summed({measured(1, 1), measured(2, 2), measured(3, 3)});
  expect_sensors(sums, 3);
  EXPECT_EQ(sums.clock_limit_mhz, 1980u);
}

TEST(NodeSensors, OfOneDeviceTheProcessThatKnowsMostSpeaks) {
  Record less = measured(2, 1);
  less.sensors = {};
  less.sensors.energy_source = EnergySource::kCounter;
  less.sensors.energy_mj = 1000;
  less.sensors.energy_ns = 80 * kSecond;
  for (const auto& records :
       {std::vector{measured(1, 1), less}, std::vector{less, measured(1, 1)}}) {
    expect_sensors(summed(records), 1);
  }
  // Energy is not known (a MIG slice): most readings.
  Record known = measured(1, 1);
  known.sensors.energy_source = EnergySource::kNone;
  known.sensors.energy_mj = known.sensors.energy_ns = 0;
  Record unknown = known;
  unknown.pid = 2;
  unknown.sensors.readings = 89;
  unknown.sensors.tensor_ns = unknown.sensors.tensor_active_ns = 0;
  for (const auto& records : {std::vector{known, unknown}, std::vector{unknown, known}}) {
    EXPECT_EQ(summed(records).tensor_ns, 90 * kSecond);
  }
}

TEST(NodeSensors, ProcessesOneAfterTheOtherAddUp) {
  Record later = measured(2, 1);
  later.started_ns = kEnd;
  later.published_ns = 2 * kEnd;
  expect_sensors(summed({measured(1, 1), later}), 2);
}

TEST(NodeSensors, ClockLimits) {
  Record other = measured(2, 2);
  other.sensors.clock_limit_mhz = 1755;
  for (const auto& records :
       {std::vector{measured(1, 1), other}, std::vector{other, measured(1, 1)}}) {
    EXPECT_EQ(summed(records).clock_limit_mhz, 1980u);
  }
  other.sensors.clock_limit_mhz = kMostClockMhz + 1;  // beyond any device
  EXPECT_EQ(summed({measured(1, 1), other}).clock_limit_mhz, 1980u);
}

TEST(NodeSensors, Storage) {
  Record a = process(1, 1);
  a.storage.called_read_bytes = 700;
  a.storage.device_read_bytes = 900;
  a.storage.called_written_bytes = 50;
  Record second = process(1, 2);  // not the process's own record
  second.flags = kDeviceKnown | kFinished;
  second.storage.called_read_bytes = 1'000'000;
  Record b = process(2, 2);
  b.storage.called_read_bytes = 1;
  b.storage.called_written_bytes = 2;
  NodeSums sums = summed({a, second, b});
  EXPECT_EQ(sums.read_bytes, 901u);
  EXPECT_EQ(sums.written_bytes, 52u);
  EXPECT_EQ(sums.storage_failures, 0u);
  b.storage.result = 13;
  sums = summed({a, second, b});
  EXPECT_EQ(sums.read_bytes, 900u);
  EXPECT_EQ(sums.storage_failures, 1u);
}

// It has what its children read: the kernel adds it to their parent.
TEST(NodeSensors, ALaunchersStorageIsItsChildrens) {
  Record child = process(2, 1);
  child.storage.called_read_bytes = 500;
  Record launcher = process(1, 2);
  launcher.time = {};
  launcher.compute_kernels = 0;
  launcher.gemm_ns[static_cast<int>(Precision::kBf16)] = 0;
  launcher.storage.called_read_bytes = 510;
  EXPECT_EQ(summed({launcher, child}).read_bytes, 500u);
  EXPECT_EQ(summed({launcher}).read_bytes, 510u);
}

TEST(LinkFindings, ALinkThatIsSlowUnderLoad) {
  const std::vector<Finding> findings =
      links({linked(3, 12, {5, 8}, 5), linked(1, 1, {3, 16}, 90), linked(2, 2, {5, 16}, 1)});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].rule, "pcie-link-loaded");
  EXPECT_EQ(findings[0].severity, Severity::kHigh);
  EXPECT_EQ(findings[0].place, "n1 GPU 0000:1b:00.0");
  EXPECT_EQ(findings[0].evidence,
            "its PCIe link was at most gen 3 x16 in all of 90 readings under load, both ends can "
            "gen 5 x16");
  EXPECT_NE(findings[0].remedy.find("lspci -vv -s 0000:1b:00.0"), std::string::npos);
  EXPECT_EQ(findings[1].place, "n1 GPU 0000:cb:00.0");
  EXPECT_NE(findings[1].evidence.find("gen 5 x8 in all of 5 "), std::string::npos);
}

TEST(LinkFindings, OneOfADeviceWhoeverSawIt) {
  const Record most = linked(1, 1, {3, 16}, 90);
  const Record less = linked(2, 1, {1, 16}, 7);
  for (const auto& records : {std::vector{most, less}, std::vector{less, most}}) {
    const std::vector<Finding> findings = links(records);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_NE(findings[0].evidence.find("gen 3 x16 in all of 90 "), std::string::npos);
  }
  EXPECT_TRUE(links({most, linked(2, 1, {5, 16}, 1)}).empty()) << "another process saw it full";
}

// A board may be wired with fewer lanes than its chips have.
TEST(LinkFindings, LanesAreComparedWithThoseOfTheModel) {
  EXPECT_TRUE(links({linked(1, 1, {5, 8}, 9), linked(2, 2, {5, 8}, 9)}).empty());
  std::vector<Record> records = {linked(1, 1, {5, 8}, 9), linked(2, 2, {5, 16}, 9)};
  EXPECT_EQ(links(records).size(), 1u);
  std::snprintf(records[1].device_name, sizeof(records[1].device_name), "another model");
  EXPECT_TRUE(links(records).empty());
  EXPECT_EQ(links({linked(1, 1, {3, 8}, 9)}).size(), 1u) << "the generation needs no other GPU";
}

TEST(LinkFindings, ADeviceThatTheNodeDoesNotHaveIsNone) {
  EXPECT_EQ(links({linked(1, 0xC, {3, 16}, 9)}).size(), 1u);
  EXPECT_TRUE(links({linked(1, 0xD, {3, 16}, 9)}).empty());
}

TEST(LinkFindings, WhatIsNotKnownIsNotJudged) {
  EXPECT_TRUE(links({}).empty());
  EXPECT_TRUE(links({measured(1, 1)}).empty());
  EXPECT_TRUE(links({linked(1, 1, {3, 16}, 4)}).empty()) << "too few readings";
  Record record = linked(1, 1, {3, 16}, 90);
  record.sensors.most_link = {};
  EXPECT_TRUE(links({record}).empty());
  record = linked(1, 1, {5, 16}, 90);
  record.sensors.most_link = {4, 16};  // better than the most: nothing is wrong
  EXPECT_TRUE(links({record}).empty());
  record = linked(1, 1, {3, 16}, 90);
  for (const char* text : {"", "0000:1b:00.0; reboot", "../x"}) {
    std::snprintf(record.pci_bus_id, sizeof(record.pci_bus_id), "%s", text);
    EXPECT_TRUE(links({record}).empty()) << text;
  }
}

// Steps of 4 s, the first at 20 s, the last at 65 s; 5 s of stalls.
Record trained(uint32_t pid, uint8_t uuid) {
  Record record = process(pid, uuid);
  record.steps = {.source = StepSource::kPeriodicity,
                  .confidence = 1000,
                  .count = 11,
                  .first_ns = 20 * kSecond,
                  .last_ns = 65 * kSecond,
                  .period_ns = 4'500'000'000,
                  .median_ns = 4 * kSecond,
                  .productive_ns = 40 * kSecond,
                  .stalled_ns = 5 * kSecond};
  record.storage.writing_ns = 3 * kSecond;
  record.storage.reading_ns = kSecond;
  return record;
}

TEST(NodeGoodput, PartsOfTheDevicesTime) {
  std::vector<Record> records = {trained(1, 1), trained(2, 2), process(3, 3)};
  NodeSums sums;
  add_records(records, 10 * kSecond, kEnd, &sums);
  EXPECT_EQ(sums.start_up_ns, 2 * 10 * kSecond);
  EXPECT_EQ(sums.productive_ns, 2 * 44 * kSecond);  // the last step as well
  EXPECT_EQ(sums.writing_ns, 2 * 3 * kSecond);
  EXPECT_EQ(sums.reading_ns, 2 * kSecond);
  EXPECT_EQ(sums.stalled_ns, 2 * kSecond);
  EXPECT_EQ(sums.tail_ns, 2 * 31 * kSecond);
}

TEST(NodeGoodput, OfOneDeviceTheBestSteps) {
  Record ranges = trained(2, 1);
  ranges.steps.source = StepSource::kNvtx;
  ranges.steps.productive_ns = 30 * kSecond;
  ranges.storage.writing_ns = 15 * kSecond;
  Record shorter = trained(3, 1);
  shorter.steps.productive_ns = 39 * kSecond;
  for (const auto& records :
       {std::vector{trained(1, 1), ranges, shorter}, std::vector{shorter, ranges, trained(1, 1)}}) {
    const NodeSums sums = summed(records);
    EXPECT_EQ(sums.productive_ns, 34 * kSecond);
    EXPECT_EQ(sums.writing_ns, 15 * kSecond);
  }
  EXPECT_EQ(summed({shorter, trained(1, 1)}).productive_ns, 44 * kSecond);
  EXPECT_EQ(summed({trained(1, 1), shorter}).productive_ns, 44 * kSecond);
}

TEST(NodeGoodput, StepsThatMayBeMissingTellNothing) {
  Record record = trained(1, 1);
  record.dropped = 1;
  EXPECT_EQ(summed({record}).productive_ns, 0u);
  EXPECT_EQ(summed({record}).tail_ns, 0u);
  record.steps.source = StepSource::kNvtx;  // ranges do not come from CUPTI
  EXPECT_EQ(summed({record}).productive_ns, 44 * kSecond);
}

TEST(NodeSensors, HostileRecordsCannotWrapASum) {
  std::vector<Record> records;
  for (uint32_t i = 0; i < kMostRecords; ++i) {
    Record record = process(i, static_cast<uint8_t>(i));
    record.uuid[1] = static_cast<uint8_t>(i >> 8);
    SensorSums& sensors = record.sensors;
    sensors.energy_source = EnergySource::kPower;
    sensors.energy_ns = sensors.clock_ns = sensors.tensor_ns = sensors.reasons_ns = kMost;
    sensors.energy_mj = kMost / 100;
    sensors.sm_cycles = sensors.tensor_active_ns = sensors.readings = kMost;
    for (uint64_t& ns : sensors.reason_ns) ns = kMost;
    sensors.clock_limit_mhz = UINT32_MAX;
    record.storage.called_read_bytes = record.storage.device_written_bytes = uint64_t{1} << 50;
    record.storage.writing_ns = record.storage.reading_ns = uint64_t{1} << 50;
    record.steps = {.source = StepSource::kNvtx,
                    .count = kMost,
                    .first_ns = 1,
                    .last_ns = kMost,
                    .median_ns = kMost,
                    .productive_ns = kMost,
                    .stalled_ns = kMost};
    records.push_back(record);
  }
  const NodeSums sums = summed(records, UINT64_MAX);
  EXPECT_EQ(node_sums_fault(sums, 0, 0, 1), nullptr);
  EXPECT_EQ(sums.energy_ns, kMostSum);  // stopped at the bound, not wrapped
  EXPECT_EQ(sums.reason_ns[kClockIdle], kMostSum);
  EXPECT_EQ(sums.tail_ns, kMostSum);
  EXPECT_EQ(sums.clock_limit_mhz, 0u);
}

}  // namespace
}  // namespace mfu
