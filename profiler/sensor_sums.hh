// What a device's sensors said while a process used it: energy, power, clock, temperature, why the
// clock was held back, and how busy the tensor cores were. Read through NVML about once a second
// (device_sensors.hh).
//
// Sums are of the device, not of the process: others may use it too. Two processes of one device
// have the same sums, and whoever adds up devices takes one of them.
//
// Runs inside the injected library: no C++ runtime, no allocation.
#ifndef MFU_PROFILER_SENSOR_SUMS_HH_
#define MFU_PROFILER_SENSOR_SUMS_HH_

#include <cstdint>
#include <type_traits>

namespace mfu {

enum Sensor : uint32_t {
  kEnergySensor,
  kPowerSensor,
  kClockSensor,
  kTemperatureSensor,
  kReasonSensor,
  kTensorSensor,
  kLinkSensor,
};
inline constexpr int kSensors = 7;
// "energy", "power", "clock", "temperature", "throttle", "tensor", "link".
const char* sensor_name(Sensor sensor);

// Results of our own, beside nvmlReturn_t's and those of nvml_gate.hh.
inline constexpr int32_t kNotRead = -3;
inline constexpr int32_t kImplausible = -4;  // a number beyond any device's
inline constexpr int32_t kSensorHung = -5;   // a call does not come back
inline constexpr int32_t kMostResult = 9999;

// Beyond any device.
inline constexpr uint32_t kMostPowerMw = 10'000'000;
inline constexpr uint32_t kMostClockMhz = 10'000;
inline constexpr uint32_t kMostTemperatureC = 200;
inline constexpr uint32_t kMostLinkGeneration = 15;
inline constexpr uint32_t kMostLinkWidth = 32;

// By NVML's clocks event reasons. Several may hold at once.
enum ClockReason : uint32_t {
  kClockIdle,      // nothing runs
  kClockPower,     // power cap by software, power brake by hardware
  kClockThermal,   // by software or by hardware
  kClockHardware,  // hardware slowdown that is neither of these
  kClockSetting,   // application, display or sync boost clocks: somebody wants it so
  kClockOther,
};
inline constexpr int kClockReasons = 6;
// "idle", "power", "thermal", "hardware", "setting", "other".
const char* clock_reason_name(ClockReason reason);
// A bit for each ClockReason.
uint32_t clock_reason_bits(uint64_t nvml_reasons);

enum class EnergySource : uint32_t {
  kNone,
  kCounter,  // the device's own counter (nvmlDeviceGetTotalEnergyConsumption)
  kPower,    // power readings, a second apart, integrated: on A100 and H100 the sensor sees only a
             // quarter of the time (arXiv 2312.02741)
};

// A PCIe link.
struct DeviceLink {
  uint32_t generation;
  uint32_t width;  // lanes

  bool known() const { return generation != 0 && width != 0; }
  bool plausible() const { return generation <= kMostLinkGeneration && width <= kMostLinkWidth; }
};

// Each figure comes with the time that it is known for: 0 is not known, and `result` says why. All
// sums only ever rise.
struct SensorSums {
  uint64_t energy_mj;
  uint64_t energy_ns;
  uint64_t sm_cycles;  // of one SM, while the device was not idle: clock times time
  uint64_t clock_ns;   // time that it was not idle, hence mean MHz = 1000 * sm_cycles / clock_ns
  uint64_t temperature_c_us;  // mean = 1000 * this / temperature_ns
  uint64_t temperature_ns;
  uint64_t reason_ns[kClockReasons];  // by ClockReason; of reasons_ns
  uint64_t reasons_ns;
  uint64_t tensor_active_ns;  // of tensor_ns
  uint64_t tensor_ns;
  uint64_t readings;
  EnergySource energy_source;
  uint32_t most_power_mw;    // the highest reading
  uint32_t least_clock_mhz;  // the extremes of readings while the device was not idle; 0: none
  uint32_t most_clock_mhz;
  uint32_t clock_limit_mhz;  // the highest one that the device offers; 0: not known
  uint32_t most_temperature_c;
  // The highest generation and the highest width of the readings under load; a link saves power
  // otherwise. It is read until it has reached the most.
  DeviceLink link;
  DeviceLink most_link;  // that both of its ends can; 0: not known
  uint32_t link_readings;
  int32_t result[kSensors];  // of the last reading: 0, nvmlReturn_t, or negative

  bool link_at_most() const {
    return most_link.known() && link.generation >= most_link.generation &&
           link.width >= most_link.width;
  }
};
static_assert(std::is_trivially_copyable_v<SensorSums>);
static_assert(std::has_unique_object_representations_v<SensorSums>, "padding would leak memory");

// Why hostile bytes are no SensorSums, or nullptr.
const char* sensor_fault(const SensorSums& sums);

struct SensorReading {
  uint64_t at_ns;  // CLOCK_MONOTONIC
  uint64_t energy_mj;
  uint64_t reasons;    // NVML's
  uint64_t tensor_ns;  // the time up to at_ns that `tensor` is of
  double tensor;       // 0 .. 1
  uint32_t power_mw;
  uint32_t sm_clock_mhz;
  uint32_t temperature_c;
  DeviceLink link;  // under load; 0: not read
  int32_t result[kSensors];
};

// Folds readings, in order of time, into sums. All zero bytes are a valid empty one.
struct SensorFold {
  SensorSums sums;

  // Between two readings a value counts as the mean of both, a reason as that of the later one. Of
  // more than kMostGapNs nothing is known but what counters counted.
  void add(const SensorReading& reading);

  static constexpr uint64_t kMostGapNs = 10'000'000'000;

 private:
  void add_energy(const SensorReading& reading);

  SensorReading last_;
  uint64_t counter_mj_;  // of the last good reading
  uint64_t counter_at_ns_;
  uint64_t energy_rest_;  // what integer divisions left
  uint64_t cycles_rest_;
  uint64_t temperature_rest_;
};

}  // namespace mfu

#endif
