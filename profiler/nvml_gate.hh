// The one door to NVML (libnvidia-ml.so.1), which is found at run time; nothing is linked. It knows
// no function that changes a device's state, and neither perfmon nor DCGM: the tensor activity
// comes from GPM (Hopper and later), which takes nothing from other tools.
//
// Every result is a plain int: 0, an nvmlReturn_t, or one of ours below 0. The first calls
// take up to seconds where no persistence daemon keeps the devices ready, and each may hang
// together with the driver: device_sensors.hh calls them in a thread of their own. NVML locks
// itself; a program that uses NVML waits for a call of ours like for any other.
//
// Only one thread at a time, no C++ runtime. NVML allocates while it is opened.
#ifndef MFU_PROFILER_NVML_GATE_HH_
#define MFU_PROFILER_NVML_GATE_HH_

#include <cstdint>

namespace mfu::nvml {

// nvmlReturn_t that we tell apart.
inline constexpr int kNotSupported = 3;
inline constexpr int kNoPermission = 4;
inline constexpr int kNotFound = 6;
inline constexpr int kFunctionNotFound = 13;
inline constexpr int kNoData = 21;
inline constexpr int kUnknown = 999;
// Ours.
inline constexpr int kNoLibrary = -1;
inline constexpr int kOfWholeGpu = -2;  // a MIG slice has none of its own, and its GPU's is not its

// Asking again will give the same answer.
bool is_final(int result);

// Loads the library and initialises it; it stays for good. NVML counts its users: the program may
// open and shut it as it likes.
int open();

struct Device {
  void* handle;           // of the whole GPU
  bool slice;             // of a MIG GPU, and then
  uint32_t gpu_instance;  // which
  void* samples[2];       // GPM's, the older one first
  bool sampled;           // there is an older one
};

// By the address that CUDA gave (cuDeviceGetPCIBusId), as that initialises no other device. Where
// the GPU there has another UUID than `uuid`, CUDA's device is a MIG slice of it. All zero bytes
// are no UUID.
int find(const char* pci_bus_id, const uint8_t (&uuid)[16], Device* out);

// Since the driver was loaded, in mJ. Volta and later.
int energy_mj(const Device& device, uint64_t* out);
// Board power in mW: instantaneous, or of the last second (Ampere and later, but not A100).
int power_mw(const Device& device, uint32_t* out);
// A slice runs with its GPU's clock, and its temperature and limits.
int sm_clock_mhz(const Device& device, uint32_t* out);
int most_sm_clock_mhz(const Device& device, uint32_t* out);
int temperature_c(const Device& device, uint32_t* out);
// Why the clock is not higher now: nvmlClocksEventReasons (throttle reasons, before CUDA 12.2).
int clock_reasons(const Device& device, uint64_t* out);

// The share of NVML's last sample (a sixth of a second to one) in which a kernel ran.
int busy_percent(const Device& device, uint32_t* out);
// The PCIe link as it is now: slow while nothing runs, to save power. Of a slice nobody says when
// its GPU is busy, so it has none.
int pcie_link(const Device& device, uint32_t* generation, uint32_t* width);
// The most that the device and what it is plugged into can together: generation 4 for a device of
// generation 5 in a slot of generation 4. kNotSupported where the CPU is reached by a chip-to-chip
// link instead (Grace): NVML then tells a maximum beyond the slot's, or a link that is not there.
int most_pcie_link(const Device& device, uint32_t* generation, uint32_t* width);

// Makes room for GPM's samples. kNotSupported before Hopper.
int open_tensor_activity(Device* device);
// The share of cycles in which a tensor core of the device (of the slice's GPU instance) was
// active, 0 .. 1, since the last call that gave 0 or kNoData. kNoData is for the first one, and
// where GPM gives no number. Calls are to be 100 ms apart.
int tensor_activity(Device* device, double* out);

}  // namespace mfu::nvml

#endif
