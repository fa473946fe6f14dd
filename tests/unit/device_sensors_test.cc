// Readings folded into sums, by hand and at random; then the thread that reads, over the fake NVML,
// each time in a process of its own.
#include "profiler/device_sensors.hh"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <type_traits>

#include "profiler/clock_ns.hh"
#include "profiler/nvml_gate.hh"
#include "profiler/sensor_sums.hh"
#include "tests/fake/fake_process.hh"
#include "tests/fake/gpu_model.hh"
#include "tests/fake/nvml_values.hh"

namespace mfu {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
static_assert(std::is_trivially_default_constructible_v<SensorFold>);

SensorReading reading_at(uint64_t seconds) {
  SensorReading reading{};
  reading.at_ns = (1000 + seconds) * kSecond;
  reading.energy_mj = 7'000'000 + seconds * 600'000;
  reading.power_mw = 600'000;
  reading.sm_clock_mhz = 1700;
  reading.temperature_c = 60;
  reading.tensor = 0.5;
  reading.tensor_ns = seconds == 0 ? 0 : kSecond;
  reading.link = {3, 16};
  return reading;
}

TEST(SensorFold, SumsOverTheTimeBetweenReadings) {
  SensorFold fold{};
  for (uint64_t s = 0; s <= 10; ++s) fold.add(reading_at(s));
  const SensorSums& sums = fold.sums;
  EXPECT_EQ(sums.energy_source, EnergySource::kCounter);
  EXPECT_EQ(sums.energy_mj, 6'000'000u);
  EXPECT_EQ(sums.energy_ns, 10 * kSecond);
  EXPECT_EQ(sums.sm_cycles, uint64_t{1700} * 10'000'000);
  EXPECT_EQ(sums.clock_ns, 10 * kSecond);
  EXPECT_EQ(1000 * sums.sm_cycles / sums.clock_ns, 1700u);
  EXPECT_EQ(1000 * sums.temperature_c_us / sums.temperature_ns, 60u);
  EXPECT_EQ(sums.tensor_active_ns * 2, sums.tensor_ns);
  EXPECT_EQ(sums.readings, 11u);
  EXPECT_EQ(sensor_fault(sums), nullptr);
}

TEST(SensorFold, OneReadingTellsNoTime) {
  SensorFold fold{};
  fold.add(reading_at(0));
  EXPECT_EQ(fold.sums.energy_ns, 0u);
  EXPECT_EQ(fold.sums.clock_ns, 0u);
  EXPECT_EQ(fold.sums.reasons_ns, 0u);
  EXPECT_EQ(fold.sums.most_clock_mhz, 1700u);
}

TEST(SensorFold, WithoutACounterPowerIsIntegrated) {
  SensorFold fold{};
  for (uint64_t s = 0; s <= 4; ++s) {
    SensorReading reading = reading_at(s);
    reading.result[kEnergySensor] = nvml::kNotSupported;
    reading.power_mw = static_cast<uint32_t>(100'001 + s * 100'000);
    fold.add(reading);
  }
  EXPECT_EQ(fold.sums.energy_source, EnergySource::kPower);
  EXPECT_EQ(fold.sums.energy_mj, 1'200'004u);  // 150.001 + 250.001 + 350.001 + 450.001 J
  EXPECT_EQ(fold.sums.energy_ns, 4 * kSecond);
  EXPECT_EQ(fold.sums.most_power_mw, 500'001u);
  EXPECT_EQ(fold.sums.result[kEnergySensor], nvml::kNotSupported);
}

TEST(SensorFold, ACounterThatBeginsAnewOrJumpsIsNotBelieved) {
  for (uint64_t odd : {uint64_t{5}, uint64_t{1} << 60}) {
    SensorFold fold{};
    for (uint64_t s = 0; s <= 6; ++s) {
      SensorReading reading = reading_at(s);
      if (s >= 3) reading.energy_mj = odd + s * 600'000;
      fold.add(reading);
    }
    EXPECT_EQ(fold.sums.energy_mj, 5u * 600'000);  // the third second is not known
    EXPECT_EQ(fold.sums.energy_ns, 5 * kSecond);
  }
}

TEST(SensorFold, ACounterCountsOverAGapThatReadingsDoNot) {
  SensorFold fold{};
  fold.add(reading_at(0));
  fold.add(reading_at(60));
  EXPECT_EQ(fold.sums.energy_mj, 60u * 600'000);
  EXPECT_EQ(fold.sums.energy_ns, 60 * kSecond);
  EXPECT_EQ(fold.sums.clock_ns, 0u);
  EXPECT_EQ(fold.sums.reasons_ns, 0u);
}

TEST(SensorFold, AFailureCostsItsOwnFigureOnly) {
  SensorFold fold{};
  for (uint64_t s = 0; s <= 10; ++s) {
    SensorReading reading = reading_at(s);
    if (s == 5) reading.result[kClockSensor] = 15;
    fold.add(reading);
  }
  EXPECT_EQ(fold.sums.clock_ns, 8 * kSecond);
  EXPECT_EQ(fold.sums.temperature_ns, 10 * kSecond);
  EXPECT_EQ(fold.sums.result[kClockSensor], 0);
  SensorReading lost = reading_at(11);
  for (int32_t& result : lost.result) result = 15;
  fold.add(lost);
  EXPECT_EQ(fold.sums.energy_ns, 10 * kSecond);
  for (int32_t result : fold.sums.result) EXPECT_EQ(result, 15);
  EXPECT_EQ(sensor_fault(fold.sums), nullptr);
}

TEST(SensorFold, AnIdleClockIsNotASlowOne) {
  SensorFold fold{};
  for (uint64_t s = 0; s <= 10; ++s) {
    SensorReading reading = reading_at(s);
    if (s > 5) {
      reading.reasons = 1;
      reading.sm_clock_mhz = 345;
    }
    fold.add(reading);
  }
  EXPECT_EQ(1000 * fold.sums.sm_cycles / fold.sums.clock_ns, 1700u);
  EXPECT_EQ(fold.sums.clock_ns, 5 * kSecond);
  EXPECT_EQ(fold.sums.least_clock_mhz, 1700u);
  EXPECT_EQ(fold.sums.reason_ns[kClockIdle], 5 * kSecond);
  EXPECT_EQ(fold.sums.reasons_ns, 10 * kSecond);
}

TEST(SensorFold, TheLinkIsTheBestOfThoseUnderLoad) {
  SensorFold fold{};
  for (DeviceLink link : {DeviceLink{1, 16}, DeviceLink{4, 8}, DeviceLink{}, DeviceLink{3, 4}}) {
    SensorReading reading = reading_at(fold.sums.readings);
    reading.link = link;
    fold.add(reading);
  }
  SensorReading idle = reading_at(5);
  idle.reasons = 1;
  SensorReading failed = reading_at(6);
  failed.result[kLinkSensor] = nvml::kUnknown;
  idle.link = failed.link = {5, 16};
  fold.add(idle);
  fold.add(failed);
  EXPECT_EQ(fold.sums.link.generation, 4u);
  EXPECT_EQ(fold.sums.link.width, 16u);
  EXPECT_EQ(fold.sums.link_readings, 3u);
  EXPECT_FALSE(fold.sums.link_at_most()) << "the most is not known";
  fold.sums.most_link = {4, 16};
  EXPECT_TRUE(fold.sums.link_at_most());
  fold.sums.most_link = {5, 16};
  EXPECT_FALSE(fold.sums.link_at_most());
  EXPECT_EQ(sensor_fault(fold.sums), nullptr);
}

TEST(SensorFold, NumbersBeyondAnyDeviceAreNone) {
  SensorFold fold{};
  for (uint64_t s = 0; s <= 3; ++s) {
    SensorReading reading = reading_at(s);
    reading.power_mw = UINT32_MAX;
    reading.sm_clock_mhz = UINT32_MAX;
    reading.temperature_c = UINT32_MAX;
    reading.tensor = 1.5;
    reading.link = {UINT32_MAX, UINT32_MAX};
    fold.add(reading);
  }
  for (Sensor sensor :
       {kPowerSensor, kClockSensor, kTemperatureSensor, kTensorSensor, kLinkSensor}) {
    EXPECT_EQ(fold.sums.result[sensor], kImplausible) << sensor_name(sensor);
  }
  EXPECT_EQ(fold.sums.most_power_mw, 0u);
  EXPECT_EQ(fold.sums.clock_ns, 0u);
  EXPECT_EQ(fold.sums.tensor_ns, 0u);
  EXPECT_EQ(fold.sums.energy_ns, 3 * kSecond);
}

TEST(ClockReasons, AreGroupedByTheirCause) {
  auto bits = [](std::initializer_list<ClockReason> reasons) {
    uint32_t all = 0;
    for (ClockReason reason : reasons) all |= 1u << reason;
    return all;
  };
  EXPECT_EQ(clock_reason_bits(0), 0u);
  EXPECT_EQ(clock_reason_bits(0x1), bits({kClockIdle}));
  EXPECT_EQ(clock_reason_bits(0x4), bits({kClockPower}));
  EXPECT_EQ(clock_reason_bits(0x88), bits({kClockPower}));
  EXPECT_EQ(clock_reason_bits(0x20), bits({kClockThermal}));
  EXPECT_EQ(clock_reason_bits(0x48), bits({kClockThermal}));
  EXPECT_EQ(clock_reason_bits(0x8), bits({kClockHardware}));
  EXPECT_EQ(clock_reason_bits(0x112), bits({kClockSetting}));
  EXPECT_EQ(clock_reason_bits(0x200), bits({kClockOther}));
  EXPECT_EQ(clock_reason_bits(uint64_t{1} << 63 | 0x24),
            bits({kClockPower, kClockThermal, kClockOther}));
}

// Whatever is read, the sums are sound, only rise, and no time is longer than what has passed.
TEST(SensorFold, HoldsForAnyReadings) {
  std::mt19937_64 random(4);
  auto any = [&](uint64_t below) { return random() % below; };
  for (int round = 0; round < 200; ++round) {
    SensorFold fold{};
    SensorSums before{};
    SensorReading reading = reading_at(0);
    uint64_t begin_ns = reading.at_ns;
    for (int i = 0; i < 100; ++i) {
      uint64_t passed_ns = any(8) == 0 ? any(40 * kSecond) : any(2 * kSecond);
      reading.at_ns += passed_ns;
      reading.energy_mj = any(16) == 0 ? random() : reading.energy_mj + any(700'000);
      reading.power_mw = static_cast<uint32_t>(any(16) == 0 ? random() : any(700'000));
      reading.sm_clock_mhz = static_cast<uint32_t>(any(16) == 0 ? random() : any(2000));
      reading.temperature_c = static_cast<uint32_t>(any(16) == 0 ? random() : any(90));
      reading.reasons = any(4) == 0 ? random() : 0;
      reading.tensor = static_cast<double>(any(120)) / 100 - 0.1;
      reading.tensor_ns = passed_ns;
      reading.link = {static_cast<uint32_t>(any(18)), static_cast<uint32_t>(any(40))};
      for (int32_t& result : reading.result) result = any(10) == 0 ? 999 : 0;
      fold.add(reading);
      const SensorSums& sums = fold.sums;
      ASSERT_EQ(sensor_fault(sums), nullptr);
      const uint64_t all_ns = reading.at_ns - begin_ns;
      for (uint64_t ns :
           {sums.energy_ns, sums.clock_ns, sums.temperature_ns, sums.reasons_ns, sums.tensor_ns}) {
        ASSERT_LE(ns, all_ns);
      }
      ASSERT_GE(sums.energy_mj, before.energy_mj);
      ASSERT_GE(sums.sm_cycles, before.sm_cycles);
      ASSERT_GE(sums.tensor_active_ns, before.tensor_active_ns);
      before = sums;
    }
  }
}

TEST(SensorFault, FindsHostileBytes) {
  SensorFold fold{};
  for (uint64_t s = 0; s <= 10; ++s) fold.add(reading_at(s));
  const std::function<void(SensorSums*)> tricks[] = {
      [](SensorSums* s) { s->energy_mj = UINT64_MAX; },
      [](SensorSums* s) { s->energy_mj = uint64_t{1} << 50; },
      [](SensorSums* s) { s->energy_source = EnergySource::kNone; },
      [](SensorSums* s) { s->energy_source = static_cast<EnergySource>(7); },
      [](SensorSums* s) { s->sm_cycles = s->clock_ns * 11; },
      [](SensorSums* s) { s->least_clock_mhz = s->most_clock_mhz + 1; },
      [](SensorSums* s) { s->temperature_c_us = s->temperature_ns; },
      [](SensorSums* s) { s->reason_ns[kClockOther] = s->reasons_ns + 1; },
      [](SensorSums* s) { s->tensor_active_ns = s->tensor_ns + 1; },
      [](SensorSums* s) { s->readings = uint64_t{1} << 57; },
      [](SensorSums* s) { s->link.generation = kMostLinkGeneration + 1; },
      [](SensorSums* s) { s->link.width = UINT32_MAX; },
      [](SensorSums* s) { s->link = {}; },
      [](SensorSums* s) { s->link_readings = 0; },
      [](SensorSums* s) { s->link_readings = 12; },
      [](SensorSums* s) { s->most_link.generation = UINT32_MAX; },
      [](SensorSums* s) { s->most_link.width = kMostLinkWidth + 1; },
      [](SensorSums* s) { s->result[kTensorSensor] = -77; },
      [](SensorSums* s) { s->result[kEnergySensor] = 1'000'000; },
  };
  for (size_t i = 0; i < std::size(tricks); ++i) {
    SensorSums sums = fold.sums;
    tricks[i](&sums);
    EXPECT_NE(sensor_fault(sums), nullptr) << i;
  }
  EXPECT_EQ(sensor_fault(SensorSums{}), nullptr);
}

// --- the thread

using fake::Environment;

void watch_first() {
  CUuuid uuid = fake::visible_gpus().at(0).uuid();
  uint8_t bytes[16];
  std::memcpy(bytes, &uuid, sizeof(bytes));
  EXPECT_TRUE(device_sensors::watch(0, "0000:1B:00.0", bytes));
}

void pause_ms(long ms) {
  timespec pause{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

// The first sums that `fits`, or the last ones after a minute.
template <typename Fits>
SensorSums await_sums(Fits&& fits) {
  SensorSums sums{};
  for (int i = 0; i < 6000; ++i) {
    if (device_sensors::sums(0, &sums) && fits(sums)) break;
    pause_ms(10);
  }
  return sums;
}

fake::NvmlValues* fake_values() {
  return fake::function<decltype(&fakeNvmlValues)>(fake::load("libnvidia-ml.so.1"),
                                                   "fakeNvmlValues")();
}

TEST(DeviceSensors, ReadsUntilItIsFinished) {
  fake::in_process({}, [] {
    fake::NvmlValues* values = fake_values();
    values->reasons = 0x4;
    SensorSums sums{};
    EXPECT_FALSE(device_sensors::sums(0, &sums));
    const uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    watch_first();
    watch_first();
    sums = await_sums([](const SensorSums& s) { return s.readings >= 2; });
    const uint64_t readings = sums.readings;
    EXPECT_GE(readings, 2u);
    const uint64_t finish_ns = clock_ns(CLOCK_MONOTONIC);
    device_sensors::finish();
    const uint64_t end_ns = clock_ns(CLOCK_MONOTONIC);
    ASSERT_TRUE(device_sensors::sums(0, &sums));
    // One a second, and the last one.
    EXPECT_LE(sums.readings, (end_ns - begin_ns) / 1'000'000'000 + 2);
    // A tenth of a second is all that an exit waits for it.
    const bool is_last = end_ns - finish_ns < 100'000'000;
    if (is_last) {
      EXPECT_GT(sums.readings, readings);
    }
    EXPECT_EQ(sensor_fault(sums), nullptr);
    EXPECT_EQ(sums.clock_limit_mhz, 1980u);
    EXPECT_NEAR(1000.0 * static_cast<double>(sums.sm_cycles) / static_cast<double>(sums.clock_ns),
                1755, 0.001);
    EXPECT_EQ(sums.reason_ns[kClockPower], sums.reasons_ns);
    EXPECT_GT(sums.tensor_ns, 0u);
    EXPECT_EQ(sums.energy_source, EnergySource::kCounter);
    EXPECT_NEAR(static_cast<double>(sums.energy_mj) / static_cast<double>(sums.energy_ns) * 1e6,
                500, 5);  // W
    for (int32_t result : sums.result) EXPECT_EQ(result, 0);
    EXPECT_EQ(sums.link_readings, 1u);
    uint64_t calls = values->calls;
    pause_ms(1200);
    if (is_last) {
      EXPECT_EQ(values->calls, calls);
    }
    EXPECT_FALSE(device_sensors::sums(1, &sums));
    EXPECT_FALSE(device_sensors::sums(device_sensors::kMostDevices, &sums));
  });
}

TEST(DeviceSensors, WhatFailsIsUnknownWithNvmlsReason) {
  fake::in_process({{"FAKE_NVML_FAIL",
                     "nvmlDeviceGetTotalEnergyConsumption=3,nvmlDeviceGetTemperature=4,"
                     "nvmlGpmQueryDeviceSupport=999,nvmlDeviceGetClockInfo@2=15"}},
                   [] {
                     fake_values();
                     watch_first();
                     SensorSums sums =
                         await_sums([](const SensorSums& s) { return s.readings >= 2; });
                     EXPECT_EQ(sums.result[kEnergySensor], 3);
                     EXPECT_EQ(sums.energy_source, EnergySource::kPower);
                     EXPECT_GT(sums.energy_mj, 0u);
                     EXPECT_EQ(sums.result[kTemperatureSensor], 4);
                     EXPECT_EQ(sums.temperature_ns, 0u);
                     EXPECT_EQ(sums.result[kTensorSensor], 999);
                     EXPECT_EQ(sums.tensor_ns, 0u);
                     EXPECT_EQ(sums.result[kClockSensor], 15);
                     EXPECT_EQ(sums.clock_ns, 0u);
                     EXPECT_EQ(sums.result[kReasonSensor], 0);
                     device_sensors::finish();
                   });
}

TEST(DeviceSensors, ADeviceThatNvmlDoesNotShowHasNone) {
  for (auto [fail, result] :
       {std::pair{"nvmlInit_v2=9", 9}, std::pair{"nvmlDeviceGetHandleByPciBusId_v2=4", 4}}) {
    fake::in_process({{"FAKE_NVML_FAIL", fail}}, [result = result] {
      fake_values();
      watch_first();
      SensorSums sums = await_sums([](const SensorSums& s) { return s.readings >= 1; });
      for (int32_t found : sums.result) EXPECT_EQ(found, result);
      EXPECT_EQ(sums.energy_ns, 0u);
      device_sensors::finish();
    });
  }
}

TEST(DeviceSensors, AnIdleLinkIsNotReadAndAFullOneNoMore) {
  fake::in_process({}, [] {
    void* library = fake::load("libnvidia-ml.so.1");
    fake::NvmlValues* values = fake_values();
    values->busy_percent = 0;
    values->link_generation = 1;
    watch_first();
    SensorSums sums = await_sums([](const SensorSums& s) { return s.readings >= 1; });
    EXPECT_EQ(sums.link_readings, 0u);
    EXPECT_EQ(sums.result[kLinkSensor], 0);
    std::atomic_ref(values->link_generation) = 5;
    std::atomic_ref(values->busy_percent) = 90;
    sums = await_sums([](const SensorSums& s) { return s.link_readings != 0; });
    EXPECT_TRUE(sums.link_at_most());
    const auto fail = fake::function<decltype(&fakeNvmlFail)>(library, "fakeNvmlFail");
    fail("nvmlDeviceGetUtilizationRates", 999);
    const uint64_t readings = sums.readings;
    sums = await_sums([&](const SensorSums& s) { return s.readings > readings; });
    EXPECT_GT(sums.readings, readings);
    EXPECT_EQ(sums.result[kLinkSensor], 0) << "it was asked again";
    EXPECT_EQ(sums.link_readings, 1u);
    device_sensors::finish();
  });
}

TEST(DeviceSensors, ASlowLinkUnderLoadIsReadAgain) {
  fake::in_process({}, [] {
    fake::NvmlValues* values = fake_values();
    values->link_generation = 3;
    values->link_width = 8;
    watch_first();
    const SensorSums sums = await_sums([](const SensorSums& s) { return s.link_readings >= 2; });
    EXPECT_GE(sums.link_readings, 2u);
    EXPECT_EQ(sums.link.generation, 3u);
    EXPECT_EQ(sums.link.width, 8u);
    EXPECT_EQ(sums.most_link.generation, 5u);
    EXPECT_EQ(sums.most_link.width, 16u);
    EXPECT_FALSE(sums.link_at_most());
    device_sensors::finish();
  });
}

// The first function that is missing says so; a maximum that NVML does not know is none.
TEST(DeviceSensors, ALinkThatIsNotToldIsUnknown) {
  const std::pair<const char*, int32_t> cases[] = {
      {"nvmlDeviceGetUtilizationRates=3", nvml::kNotSupported},
      {"nvmlDeviceGetCurrPcieLinkGeneration=13", nvml::kFunctionNotFound},
      {"nvmlDeviceGetCurrPcieLinkWidth=15", 15},
      {"nvmlDeviceGetMaxPcieLinkGeneration=3", nvml::kNotSupported},
      {"nvmlDeviceGetMaxPcieLinkWidth=4", nvml::kNoPermission},
      {"", kImplausible},
  };
  for (const auto& [fail, result] : cases) {
    fake::in_process({{"FAKE_NVML_FAIL", fail}}, [fail = fail, result = result] {
      fake::NvmlValues* values = fake_values();
      if (fail[0] == '\0') values->most_link_width = 0;
      watch_first();
      const SensorSums sums = await_sums([](const SensorSums& s) { return s.readings >= 1; });
      EXPECT_EQ(sums.result[kLinkSensor], result) << fail;
      EXPECT_EQ(sums.link_readings, 0u) << fail;
      EXPECT_EQ(sensor_fault(sums), nullptr) << fail;
      device_sensors::finish();
    });
  }
}

// What was known before stays, the reader never waits, and neither does the exit or a fork.
TEST(DeviceSensors, AHangCostsNobodyElse) {
  fake::in_process({{"FAKE_NVML_HANG", "nvmlDeviceGetClockInfo@2"}}, [] {
    fake_values();
    const uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    watch_first();
    SensorSums sums = await_sums([](const SensorSums& s) { return s.readings >= 1; });
    const bool is_early = clock_ns(CLOCK_MONOTONIC) - begin_ns < device_sensors::kHungNs;
    if (is_early) {
      EXPECT_EQ(sums.result[kClockSensor], 0);
    }
    sums = await_sums([](const SensorSums& s) { return s.result[kClockSensor] != 0; });
    for (int32_t result : sums.result) EXPECT_EQ(result, kSensorHung);
    EXPECT_EQ(sums.readings, 1u);
    device_sensors::hold();
    device_sensors::release();
    device_sensors::finish();
    EXPECT_FALSE(device_sensors::watch(1, "0000:2B:00.0", {}));
  });
}

TEST(DeviceSensors, NoCallIsUnderWayWhileItIsHeld) {
  fake::in_process({}, [] {
    fake::NvmlValues* values = fake_values();
    device_sensors::hold();
    device_sensors::hold();
    watch_first();
    device_sensors::release();
    pause_ms(100);
    EXPECT_EQ(values->calls, 0u);
    device_sensors::release();
    SensorSums sums = await_sums([](const SensorSums& s) { return s.readings != 0; });
    EXPECT_GE(sums.readings, 1u);
    device_sensors::finish();
  });
}

}  // namespace
}  // namespace mfu
