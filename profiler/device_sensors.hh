// Reads the sensors of devices, in a thread of its own.
//
// It shares nothing with the worker, which publishes records, but the last whole SensorSums, and
// those are copied without waiting. So an NVML that hangs, as it does when the driver does, costs
// the sums that would have come: no record, no flush of CUPTI, no exit. The thread calls NVML for
// at most 1% of the time: where readings are slow they come more rarely.
//
// Runs inside the injected library: no C++ runtime, no allocation but NVML's own.
#ifndef MFU_PROFILER_DEVICE_SENSORS_HH_
#define MFU_PROFILER_DEVICE_SENSORS_HH_

#include <cstdint>

#include "profiler/sensor_sums.hh"

namespace mfu::device_sensors {

inline constexpr uint64_t kHungNs = 5'000'000'000;

// All but hold() and release() are for one thread, the worker's. A slot stands for one device for
// good: the first watch() of it counts.

// Reads this device from now on, as number `slot` (below kMostDevices). The first time it starts
// the thread. False when there can be none. The caller's signal mask is the thread's: all blocked.
inline constexpr uint32_t kMostDevices = 16;
bool watch(uint32_t slot, const char* pci_bus_id, const uint8_t (&uuid)[16]);
// The last whole sums. False before the first, and while they are being written.
bool sums(uint32_t slot, SensorSums* out);
// CPU time of the thread.
uint64_t cpu_ns();
// One last reading of each device, waited for 120 ms at most. No call to NVML begins after it.
void finish();

// Around fork(): a child that is forked during a call would inherit NVML's locks and have nobody to
// open them. Waits 20 ms at most, and for no
// call that hangs; readings go on after as many release()s as hold()s. Any thread.
void hold();
void release();

}  // namespace mfu::device_sensors

#endif
