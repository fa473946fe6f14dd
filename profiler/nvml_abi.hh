// NVML as its header declares it, as far as we use it: NVIDIA's nvml.h is not in every CUDA Toolkit
// that is otherwise complete, and each driver has the library. Held against the headers of
// CUDA 11.8 to 13 by tests/build/nvml_versions_test.sh. Included by the gate and by the fake
// library only.
#ifndef MFU_PROFILER_NVML_ABI_HH_
#define MFU_PROFILER_NVML_ABI_HH_

#include <cstdint>

namespace mfu::nvml::abi {

// Handles are pointers, results and enumerations are ints.
using Handle = void*;
using GpmSample = void*;

inline constexpr int kClockSm = 1;            // NVML_CLOCK_SM
inline constexpr int kTemperatureGpu = 0;     // NVML_TEMPERATURE_GPU
inline constexpr uint32_t kMetricTensor = 5;  // NVML_GPM_METRIC_ANY_TENSOR_UTIL: percent
inline constexpr uint32_t kMetricsVersion = 1;
inline constexpr uint32_t kSupportVersion = 1;

struct Temperature {  // nvmlTemperature_v1_t
  uint32_t version;
  int32_t sensor;
  int32_t celsius;
};
inline constexpr uint32_t kTemperatureVersion = sizeof(Temperature) | 1u << 24;

struct Utilization {  // nvmlUtilization_t: percent
  uint32_t gpu;
  uint32_t memory;
};

struct C2cMode {  // nvmlC2cModeInfo_v1_t, which tells no version
  uint32_t enabled;
};

struct GpmSupport {  // nvmlGpmSupport_t
  uint32_t version;
  uint32_t supported;
};

struct GpmMetric {  // nvmlGpmMetric_t
  uint32_t id;
  int32_t result;
  double value;
  char* texts[3];
};

// nvmlGpmMetricsGet_t: its array has grown from 98 to 477 metrics without a new version, so the
// library cannot touch more than `count` of them; room for all the same.
struct GpmMetrics {
  uint32_t version;
  uint32_t count;
  GpmSample before;
  GpmSample after;
  GpmMetric metrics[512];
};

using Init = int();
using DeviceByText = int(const char* text, Handle* device);
using DeviceOfDevice = int(Handle device, Handle* other);
using DeviceText = int(Handle device, char* text, uint32_t size);
using DeviceNumber = int(Handle device, uint32_t* value);
using DeviceNumber64 = int(Handle device, unsigned long long* value);
using DeviceMode = int(Handle device, uint32_t* current, uint32_t* pending);
using DeviceKindNumber = int(Handle device, int kind, uint32_t* value);
using DeviceUtilization = int(Handle device, Utilization* value);
using DeviceC2cMode = int(Handle device, C2cMode* value);
using DeviceTemperature = int(Handle device, Temperature* value);
using QueryGpm = int(Handle device, GpmSupport* support);
using AllocateSample = int(GpmSample* sample);
using TakeSample = int(Handle device, GpmSample sample);
using TakeMigSample = int(Handle device, uint32_t gpu_instance, GpmSample sample);
using GetMetrics = int(GpmMetrics* metrics);

}  // namespace mfu::nvml::abi

#endif
