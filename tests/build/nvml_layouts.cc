// Our declarations of NVML against its own header, of the version on the include path. Compiled by
// nvml_versions_test.sh; there is nothing to run.
#include <nvml.h>

#include <cstddef>
#include <type_traits>

#include "profiler/nvml_abi.hh"
#include "profiler/nvml_gate.hh"
#include "topology/nvml_abi.hh"

namespace abi = mfu::nvml::abi;

// The same number of arguments, and each passed in the same way: pointers, enumerations and
// integers differ by name only.
template <typename Theirs, typename Ours>
constexpr bool kFits = false;
template <typename R, typename... A, typename S, typename... B>
constexpr bool kFits<R(A...), S(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B)) && ...) &&
           ((std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
  }
  return false;
}();
#define SAME_FUNCTION(name, type) static_assert(kFits<decltype(name), abi::type>, #name)

SAME_FUNCTION(nvmlInit_v2, Init);
SAME_FUNCTION(nvmlDeviceGetHandleByPciBusId_v2, DeviceByText);
SAME_FUNCTION(nvmlDeviceGetHandleByUUID, DeviceByText);
SAME_FUNCTION(nvmlDeviceGetUUID, DeviceText);
SAME_FUNCTION(nvmlDeviceGetMigMode, DeviceMode);
SAME_FUNCTION(nvmlDeviceGetGpuInstanceId, DeviceNumber);
SAME_FUNCTION(nvmlDeviceGetTotalEnergyConsumption, DeviceNumber64);
SAME_FUNCTION(nvmlDeviceGetPowerUsage, DeviceNumber);
SAME_FUNCTION(nvmlDeviceGetClockInfo, DeviceKindNumber);
SAME_FUNCTION(nvmlDeviceGetMaxClockInfo, DeviceKindNumber);
SAME_FUNCTION(nvmlDeviceGetTemperature, DeviceKindNumber);
SAME_FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons, DeviceNumber64);
SAME_FUNCTION(nvmlDeviceGetUtilizationRates, DeviceUtilization);
SAME_FUNCTION(nvmlDeviceGetCurrPcieLinkGeneration, DeviceNumber);
SAME_FUNCTION(nvmlDeviceGetCurrPcieLinkWidth, DeviceNumber);
SAME_FUNCTION(nvmlDeviceGetMaxPcieLinkGeneration, DeviceNumber);
SAME_FUNCTION(nvmlDeviceGetMaxPcieLinkWidth, DeviceNumber);
SAME_FUNCTION(nvmlGpmQueryDeviceSupport, QueryGpm);
SAME_FUNCTION(nvmlGpmSampleAlloc, AllocateSample);
SAME_FUNCTION(nvmlGpmSampleGet, TakeSample);
SAME_FUNCTION(nvmlGpmMetricsGet, GetMetrics);

#define SAME_FIELD(theirs, their_field, ours, our_field)                           \
  static_assert(offsetof(theirs, their_field) == offsetof(abi::ours, our_field) && \
                sizeof(theirs::their_field) == sizeof(abi::ours::our_field))
SAME_FIELD(nvmlGpmMetric_t, metricId, GpmMetric, id);
SAME_FIELD(nvmlGpmMetric_t, nvmlReturn, GpmMetric, result);
SAME_FIELD(nvmlGpmMetric_t, value, GpmMetric, value);
static_assert(sizeof(nvmlGpmMetric_t) == sizeof(abi::GpmMetric));
SAME_FIELD(nvmlGpmMetricsGet_t, version, GpmMetrics, version);
SAME_FIELD(nvmlGpmMetricsGet_t, numMetrics, GpmMetrics, count);
SAME_FIELD(nvmlGpmMetricsGet_t, sample1, GpmMetrics, before);
SAME_FIELD(nvmlGpmMetricsGet_t, sample2, GpmMetrics, after);
static_assert(offsetof(nvmlGpmMetricsGet_t, metrics) == offsetof(abi::GpmMetrics, metrics));
static_assert(sizeof(nvmlGpmMetricsGet_t) <= sizeof(abi::GpmMetrics));
SAME_FIELD(nvmlUtilization_t, gpu, Utilization, gpu);
static_assert(sizeof(nvmlUtilization_t) == sizeof(abi::Utilization));
SAME_FIELD(nvmlGpmSupport_t, version, GpmSupport, version);
SAME_FIELD(nvmlGpmSupport_t, isSupportedDevice, GpmSupport, supported);

static_assert(NVML_CLOCK_SM == abi::kClockSm);
static_assert(NVML_TEMPERATURE_GPU == abi::kTemperatureGpu);
static_assert(NVML_GPM_METRIC_ANY_TENSOR_UTIL == abi::kMetricTensor);
static_assert(NVML_GPM_METRICS_GET_VERSION == abi::kMetricsVersion);
static_assert(NVML_GPM_SUPPORT_VERSION == abi::kSupportVersion);
static_assert(NVML_ERROR_NOT_SUPPORTED == mfu::nvml::kNotSupported);
static_assert(NVML_ERROR_NO_PERMISSION == mfu::nvml::kNoPermission);
static_assert(NVML_ERROR_NOT_FOUND == mfu::nvml::kNotFound);
static_assert(NVML_ERROR_FUNCTION_NOT_FOUND == mfu::nvml::kFunctionNotFound);
static_assert(NVML_ERROR_NO_DATA == mfu::nvml::kNoData);
static_assert(NVML_ERROR_UNKNOWN == mfu::nvml::kUnknown);

// As sensor_sums.cc groups them.
static_assert(nvmlClocksThrottleReasonGpuIdle == 0x1);
static_assert(nvmlClocksThrottleReasonApplicationsClocksSetting == 0x2);
static_assert(nvmlClocksThrottleReasonSwPowerCap == 0x4);
static_assert(nvmlClocksThrottleReasonHwSlowdown == 0x8);
static_assert(nvmlClocksThrottleReasonSyncBoost == 0x10);
static_assert(nvmlClocksThrottleReasonSwThermalSlowdown == 0x20);
static_assert(nvmlClocksThrottleReasonHwThermalSlowdown == 0x40);
static_assert(nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80);
static_assert(nvmlClocksThrottleReasonDisplayClockSetting == 0x100);

// What topology/ asks.
namespace links = mfu::nvml_abi;
static_assert(kFits<decltype(nvmlDeviceGetMigMode), links::DeviceMode>);
static_assert(NVML_DEVICE_MIG_ENABLE == links::kMigOn);
static_assert(kFits<decltype(nvmlDeviceGetMinorNumber), links::DeviceNumber>);
static_assert(kFits<decltype(nvmlDeviceGetP2PStatus), links::PairStatus>);
static_assert(kFits<decltype(nvmlDeviceGetUUID), links::DeviceText>);
static_assert(kFits<decltype(nvmlDeviceGetHandleByPciBusId_v2), links::DeviceByText>);
static_assert(NVML_P2P_CAPS_INDEX_NVLINK == links::kNvlinkCapability);
static_assert(NVML_P2P_STATUS_OK == links::kPairLinked);
static_assert(NVML_P2P_STATUS_UNKNOWN == links::kPairUnknown);

#if NVML_API_VERSION >= 12
SAME_FUNCTION(nvmlDeviceGetCurrentClocksEventReasons, DeviceNumber64);
SAME_FUNCTION(nvmlGpmMigSampleGet, TakeMigSample);
SAME_FUNCTION(nvmlDeviceGetC2cModeInfoV, DeviceC2cMode);
SAME_FIELD(nvmlC2cModeInfo_v1_t, isC2cEnabled, C2cMode, enabled);
static_assert(sizeof(nvmlC2cModeInfo_v1_t) == sizeof(abi::C2cMode));
SAME_FUNCTION(nvmlDeviceGetTemperatureV, DeviceTemperature);
SAME_FIELD(nvmlTemperature_v1_t, version, Temperature, version);
SAME_FIELD(nvmlTemperature_v1_t, sensorType, Temperature, sensor);
SAME_FIELD(nvmlTemperature_v1_t, temperature, Temperature, celsius);
static_assert(nvmlTemperature_v1 == abi::kTemperatureVersion);
#endif

#ifdef NVML_GPU_FABRIC_UUID_LEN
#define SAME_FABRIC(theirs, ours)                                                  \
  static_assert(sizeof(theirs) == sizeof(links::ours) &&                           \
                offsetof(theirs, clusterUuid) == offsetof(links::ours, cluster) && \
                offsetof(theirs, status) == offsetof(links::ours, status) &&       \
                offsetof(theirs, cliqueId) == offsetof(links::ours, clique) &&     \
                offsetof(theirs, state) == offsetof(links::ours, state))
SAME_FABRIC(nvmlGpuFabricInfo_t, Fabric);
SAME_FABRIC(nvmlGpuFabricInfo_v2_t, FabricV);
static_assert(nvmlGpuFabricInfo_v2 == links::kFabricVersion);
static_assert(kFits<decltype(nvmlDeviceGetGpuFabricInfo), links::DeviceFabric>);
static_assert(kFits<decltype(nvmlDeviceGetGpuFabricInfoV), links::DeviceFabricV>);
static_assert(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED == links::kNoFabric);
static_assert(NVML_GPU_FABRIC_STATE_NOT_STARTED == links::kNotStarted);
static_assert(NVML_GPU_FABRIC_STATE_IN_PROGRESS == links::kInProgress);
static_assert(NVML_GPU_FABRIC_STATE_COMPLETED == links::kCompleted);
#endif
