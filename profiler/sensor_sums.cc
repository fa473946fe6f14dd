#include "profiler/sensor_sums.hh"

#include <algorithm>

namespace mfu {
namespace {

// As record.cc's: 2^56 ns are 2.3 years.
constexpr uint64_t kMaxSum = uint64_t{1} << 56;

// Beyond any device: 10 kW, 10 GHz, 200 degrees.
constexpr uint64_t most_energy_mj(uint64_t ns) {
  return ns / 100;
}
constexpr uint64_t kMostCyclesPerNs = 10;
constexpr uint64_t kNsPerDegreeUs = 5;

// A counter moves on a few times a second: its step may be of so much more time than ours.
constexpr uint64_t kCounterSlackNs = 1'000'000'000;

// nvmlClocksEventReasons.
constexpr uint64_t kNvmlIdle = 0x1;
constexpr uint64_t kNvmlPower = 0x4 | 0x80;
constexpr uint64_t kNvmlThermal = 0x20 | 0x40;
constexpr uint64_t kNvmlSlowdown = 0x8;
constexpr uint64_t kNvmlHardware = 0x40 | 0x80;  // each of them sets kNvmlSlowdown as well
constexpr uint64_t kNvmlSetting = 0x2 | 0x10 | 0x100;
constexpr uint64_t kNvmlGrouped =
    kNvmlIdle | kNvmlPower | kNvmlThermal | kNvmlSlowdown | kNvmlSetting;

bool is_idle(const SensorReading& reading) {
  return reading.result[kReasonSensor] == 0 && (reading.reasons & kNvmlIdle) != 0;
}

// Adds a * b / divisor, and keeps what is left over for the next time.
void add_product(uint64_t a, uint64_t b, uint64_t divisor, uint64_t* sum, uint64_t* rest) {
  uint64_t product = a * b + *rest;
  *sum += product / divisor;
  *rest = product % divisor;
}

}  // namespace

const char* sensor_name(Sensor sensor) {
  constexpr const char* kNames[] = {"energy",   "power",  "clock", "temperature",
                                    "throttle", "tensor", "link"};
  return sensor < kSensors ? kNames[sensor] : "unknown";
}

const char* clock_reason_name(ClockReason reason) {
  constexpr const char* kNames[] = {"idle", "power", "thermal", "hardware", "setting", "other"};
  return reason < kClockReasons ? kNames[reason] : "unknown";
}

uint32_t clock_reason_bits(uint64_t nvml_reasons) {
  auto bit = [](ClockReason reason, bool holds) { return holds ? 1u << reason : 0u; };
  bool slowdown = (nvml_reasons & kNvmlSlowdown) != 0 && (nvml_reasons & kNvmlHardware) == 0;
  return bit(kClockIdle, (nvml_reasons & kNvmlIdle) != 0) |
         bit(kClockPower, (nvml_reasons & kNvmlPower) != 0) |
         bit(kClockThermal, (nvml_reasons & kNvmlThermal) != 0) | bit(kClockHardware, slowdown) |
         bit(kClockSetting, (nvml_reasons & kNvmlSetting) != 0) |
         bit(kClockOther, (nvml_reasons & ~kNvmlGrouped) != 0);
}

const char* sensor_fault(const SensorSums& sums) {
  const uint64_t values[] = {sums.energy_mj,  sums.energy_ns,        sums.sm_cycles,
                             sums.clock_ns,   sums.temperature_c_us, sums.temperature_ns,
                             sums.reasons_ns, sums.tensor_active_ns, sums.tensor_ns,
                             sums.readings};
  for (uint64_t value : values) {
    if (value > kMaxSum) return "sensor sum";
  }
  for (uint64_t ns : sums.reason_ns) {
    if (ns > sums.reasons_ns) return "clock reason";
  }
  if (sums.energy_source > EnergySource::kPower ||
      (sums.energy_source == EnergySource::kNone && sums.energy_mj != 0) ||
      sums.energy_mj > most_energy_mj(sums.energy_ns + kCounterSlackNs)) {
    return "energy";
  }
  if (sums.sm_cycles > sums.clock_ns * kMostCyclesPerNs) return "clock";
  if (sums.least_clock_mhz > sums.most_clock_mhz) return "clock extremes";
  if (sums.temperature_c_us > sums.temperature_ns / kNsPerDegreeUs) return "temperature";
  if (sums.tensor_active_ns > sums.tensor_ns) return "tensor activity";
  if (!sums.link.plausible() || !sums.most_link.plausible() || sums.link_readings > sums.readings ||
      sums.link.known() != (sums.link_readings != 0)) {
    return "link";
  }
  for (int32_t result : sums.result) {
    if (result < kSensorHung || result > kMostResult) return "sensor result";
  }
  return nullptr;
}

void SensorFold::add_energy(const SensorReading& reading) {
  bool counter = reading.result[kEnergySensor] == 0;
  bool power = reading.result[kPowerSensor] == 0;
  if (sums.energy_source == EnergySource::kNone) {
    if (counter) {
      sums.energy_source = EnergySource::kCounter;
      counter_mj_ = reading.energy_mj;
      counter_at_ns_ = reading.at_ns;
    } else if (power) {
      sums.energy_source = EnergySource::kPower;
    }
    return;
  }
  if (sums.energy_source == EnergySource::kCounter && counter) {
    uint64_t ns = reading.at_ns - counter_at_ns_;
    uint64_t most_mj = most_energy_mj(ns + kCounterSlackNs);
    // A reset device begins anew: what it took up to then since the last reading is not known.
    if (reading.energy_mj >= counter_mj_ && reading.energy_mj - counter_mj_ <= most_mj &&
        sums.energy_mj + (reading.energy_mj - counter_mj_) <=
            most_energy_mj(sums.energy_ns + ns + kCounterSlackNs)) {
      sums.energy_mj += reading.energy_mj - counter_mj_;
      sums.energy_ns += ns;
    }
    counter_mj_ = reading.energy_mj;
    counter_at_ns_ = reading.at_ns;
  } else if (sums.energy_source == EnergySource::kPower && power &&
             last_.result[kPowerSensor] == 0) {
    uint64_t ns = reading.at_ns - last_.at_ns;
    if (ns > kMostGapNs) return;
    add_product(uint64_t{last_.power_mw} + reading.power_mw, ns, 2'000'000'000, &sums.energy_mj,
                &energy_rest_);
    sums.energy_ns += ns;
  }
}

void SensorFold::add(const SensorReading& given) {
  SensorReading reading = given;
  // A device that fell off the bus may answer with all ones.
  auto doubt = [&](Sensor sensor, bool plausible) {
    if (reading.result[sensor] == 0 && !plausible) reading.result[sensor] = kImplausible;
  };
  doubt(kPowerSensor, reading.power_mw <= kMostPowerMw);
  doubt(kClockSensor, reading.sm_clock_mhz <= kMostClockMhz);
  doubt(kTemperatureSensor, reading.temperature_c <= kMostTemperatureC);
  doubt(kTensorSensor, reading.tensor >= 0 && reading.tensor <= 1);
  doubt(kLinkSensor, reading.link.plausible());

  bool first = sums.readings == 0;
  uint64_t ns = first || reading.at_ns < last_.at_ns ? 0 : reading.at_ns - last_.at_ns;
  if (reading.at_ns < last_.at_ns) reading.at_ns = last_.at_ns;
  uint64_t held_ns = ns <= kMostGapNs ? ns : 0;
  auto both = [&](Sensor sensor) {
    return !first && reading.result[sensor] == 0 && last_.result[sensor] == 0;
  };

  add_energy(reading);
  if (reading.result[kPowerSensor] == 0) {
    sums.most_power_mw = std::max(sums.most_power_mw, reading.power_mw);
  }
  if (reading.result[kClockSensor] == 0 && !is_idle(reading) && reading.sm_clock_mhz != 0) {
    sums.most_clock_mhz = std::max(sums.most_clock_mhz, reading.sm_clock_mhz);
    bool none = sums.least_clock_mhz == 0;
    sums.least_clock_mhz =
        none ? reading.sm_clock_mhz : std::min(sums.least_clock_mhz, reading.sm_clock_mhz);
  }
  if (both(kClockSensor) && !is_idle(reading) && !is_idle(last_)) {
    add_product(uint64_t{last_.sm_clock_mhz} + reading.sm_clock_mhz, held_ns, 2'000,
                &sums.sm_cycles, &cycles_rest_);
    sums.clock_ns += held_ns;
  }
  if (reading.result[kTemperatureSensor] == 0) {
    sums.most_temperature_c = std::max(sums.most_temperature_c, reading.temperature_c);
  }
  if (both(kTemperatureSensor)) {
    add_product(uint64_t{last_.temperature_c} + reading.temperature_c, held_ns, 2'000,
                &sums.temperature_c_us, &temperature_rest_);
    sums.temperature_ns += held_ns;
  }
  if (both(kReasonSensor)) {
    uint32_t bits = clock_reason_bits(reading.reasons);
    for (int reason = 0; reason < kClockReasons; ++reason) {
      if ((bits >> reason & 1) != 0) sums.reason_ns[reason] += held_ns;
    }
    sums.reasons_ns += held_ns;
  }
  if (reading.result[kTensorSensor] == 0) {
    double active_ns = reading.tensor * static_cast<double>(reading.tensor_ns);
    sums.tensor_active_ns += std::min(static_cast<uint64_t>(active_ns + 0.5), reading.tensor_ns);
    sums.tensor_ns += reading.tensor_ns;
  }
  if (reading.result[kLinkSensor] == 0 && reading.link.known() && !is_idle(reading)) {
    sums.link.generation = std::max(sums.link.generation, reading.link.generation);
    sums.link.width = std::max(sums.link.width, reading.link.width);
    ++sums.link_readings;
  }
  for (int sensor = 0; sensor < kSensors; ++sensor) sums.result[sensor] = reading.result[sensor];
  ++sums.readings;
  last_ = reading;
}

}  // namespace mfu
