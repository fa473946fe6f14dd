#include "profiler/nvml_gate.hh"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "profiler/nvml_abi.hh"

namespace mfu::nvml {
namespace {

struct Functions {
  abi::DeviceByText* device_by_pci;
  abi::DeviceByText* device_by_uuid;
  abi::DeviceText* uuid;
  abi::DeviceMode* mig_mode;
  abi::DeviceNumber* gpu_instance;
  abi::DeviceNumber64* energy;
  abi::DeviceNumber* power;
  abi::DeviceKindNumber* clock;
  abi::DeviceKindNumber* most_clock;
  abi::DeviceKindNumber* temperature;
  abi::DeviceTemperature* temperature_v;
  abi::DeviceNumber64* reasons;
  abi::DeviceUtilization* utilization;
  abi::DeviceNumber* link_generation;
  abi::DeviceNumber* link_width;
  abi::DeviceNumber* most_link_generation;
  abi::DeviceNumber* most_link_width;
  abi::DeviceC2cMode* c2c_mode;
  abi::QueryGpm* query_gpm;
  abi::AllocateSample* allocate_sample;
  abi::TakeSample* take_sample;
  abi::TakeMigSample* take_mig_sample;
  abi::GetMetrics* get_metrics;
};

constinit Functions functions{};

// The first of the names that this driver knows.
template <typename Function>
void resolve(void* library, Function** out, const char* name, const char* older = nullptr) {
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  if (*out == nullptr && older != nullptr) {
    *out = reinterpret_cast<Function*>(dlsym(library, older));
  }
}

template <typename Function, typename... Arguments>
int call(Function* function, Arguments... arguments) {
  return function != nullptr ? function(arguments...) : kFunctionNotFound;
}

// "GPU-5f7e...", as NVML writes them.
void write_uuid(const char* prefix, const uint8_t (&b)[16], char (&out)[48]) {
  snprintf(out, sizeof(out),
           "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", prefix, b[0],
           b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
           b[15]);
}

bool is_whole_gpu(void* handle, const uint8_t (&uuid)[16]) {
  constexpr uint8_t kNone[16] = {};
  char wanted[48];
  char found[96] = {};
  write_uuid("GPU", uuid, wanted);
  if (memcmp(uuid, kNone, sizeof(uuid)) != 0 &&
      call(functions.uuid, handle, found, static_cast<uint32_t>(sizeof(found))) == 0) {
    return strcasecmp(wanted, found) == 0;
  }
  uint32_t enabled = 0;
  uint32_t pending = 0;
  return call(functions.mig_mode, handle, &enabled, &pending) != 0 || enabled == 0;
}

}  // namespace

bool is_final(int result) {
  return result < 0 || result == kNotSupported || result == kNoPermission ||
         result == kFunctionNotFound;
}

int open() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return kNoLibrary;
  abi::Init* init;
  resolve(library, &init, "nvmlInit_v2", "nvmlInit");
  resolve(library, &functions.device_by_pci, "nvmlDeviceGetHandleByPciBusId_v2",
          "nvmlDeviceGetHandleByPciBusId");
  resolve(library, &functions.device_by_uuid, "nvmlDeviceGetHandleByUUID");
  resolve(library, &functions.uuid, "nvmlDeviceGetUUID");
  resolve(library, &functions.mig_mode, "nvmlDeviceGetMigMode");
  resolve(library, &functions.gpu_instance, "nvmlDeviceGetGpuInstanceId");
  resolve(library, &functions.energy, "nvmlDeviceGetTotalEnergyConsumption");
  resolve(library, &functions.power, "nvmlDeviceGetPowerUsage");
  resolve(library, &functions.clock, "nvmlDeviceGetClockInfo");
  resolve(library, &functions.most_clock, "nvmlDeviceGetMaxClockInfo");
  resolve(library, &functions.temperature, "nvmlDeviceGetTemperature");
  resolve(library, &functions.temperature_v, "nvmlDeviceGetTemperatureV");
  resolve(library, &functions.reasons, "nvmlDeviceGetCurrentClocksEventReasons",
          "nvmlDeviceGetCurrentClocksThrottleReasons");
  resolve(library, &functions.utilization, "nvmlDeviceGetUtilizationRates");
  resolve(library, &functions.link_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  resolve(library, &functions.link_width, "nvmlDeviceGetCurrPcieLinkWidth");
  resolve(library, &functions.most_link_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
  resolve(library, &functions.most_link_width, "nvmlDeviceGetMaxPcieLinkWidth");
  resolve(library, &functions.c2c_mode, "nvmlDeviceGetC2cModeInfoV");
  resolve(library, &functions.query_gpm, "nvmlGpmQueryDeviceSupport");
  resolve(library, &functions.allocate_sample, "nvmlGpmSampleAlloc");
  resolve(library, &functions.take_sample, "nvmlGpmSampleGet");
  resolve(library, &functions.take_mig_sample, "nvmlGpmMigSampleGet");
  resolve(library, &functions.get_metrics, "nvmlGpmMetricsGet");
  return call(init);
}

int find(const char* pci_bus_id, const uint8_t (&uuid)[16], Device* out) {
  *out = {};
  int result = call(functions.device_by_pci, pci_bus_id, &out->handle);
  if (result != 0) return result;
  if (is_whole_gpu(out->handle, uuid)) return 0;
  out->slice = true;
  char name[48];
  write_uuid("MIG", uuid, name);
  void* slice = nullptr;
  result = call(functions.device_by_uuid, name, &slice);
  return result == 0 ? call(functions.gpu_instance, slice, &out->gpu_instance) : result;
}

int energy_mj(const Device& device, uint64_t* out) {
  if (device.slice) return kOfWholeGpu;
  unsigned long long value = 0;
  int result = call(functions.energy, device.handle, &value);
  *out = value;
  return result;
}

int power_mw(const Device& device, uint32_t* out) {
  return device.slice ? kOfWholeGpu : call(functions.power, device.handle, out);
}

int sm_clock_mhz(const Device& device, uint32_t* out) {
  return call(functions.clock, device.handle, abi::kClockSm, out);
}

int most_sm_clock_mhz(const Device& device, uint32_t* out) {
  return call(functions.most_clock, device.handle, abi::kClockSm, out);
}

int temperature_c(const Device& device, uint32_t* out) {
  if (functions.temperature != nullptr) {
    return functions.temperature(device.handle, abi::kTemperatureGpu, out);
  }
  abi::Temperature value{abi::kTemperatureVersion, abi::kTemperatureGpu, 0};
  int result = call(functions.temperature_v, device.handle, &value);
  *out = value.celsius > 0 ? static_cast<uint32_t>(value.celsius) : 0;
  return result;
}

int clock_reasons(const Device& device, uint64_t* out) {
  unsigned long long value = 0;
  int result = call(functions.reasons, device.handle, &value);
  *out = value;
  return result;
}

int busy_percent(const Device& device, uint32_t* out) {
  if (device.slice) return kOfWholeGpu;
  abi::Utilization value{};
  int result = call(functions.utilization, device.handle, &value);
  *out = value.gpu;
  return result;
}

int pcie_link(const Device& device, uint32_t* generation, uint32_t* width) {
  if (device.slice) return kOfWholeGpu;
  int result = call(functions.link_generation, device.handle, generation);
  return result == 0 ? call(functions.link_width, device.handle, width) : result;
}

int most_pcie_link(const Device& device, uint32_t* generation, uint32_t* width) {
  if (device.slice) return kOfWholeGpu;
  abi::C2cMode c2c{};
  int result = call(functions.c2c_mode, device.handle, &c2c);
  if (result == 0 && c2c.enabled != 0) return kNotSupported;
  // Drivers that do not know the question are older than the devices that have such a link.
  if (result != 0 && result != kNotSupported && result != kFunctionNotFound) return result;
  result = call(functions.most_link_generation, device.handle, generation);
  return result == 0 ? call(functions.most_link_width, device.handle, width) : result;
}

int open_tensor_activity(Device* device) {
  abi::GpmSupport support{abi::kSupportVersion, 0};
  int result = call(functions.query_gpm, device->handle, &support);
  if (result != 0) return result;
  if (support.supported == 0) return kNotSupported;
  for (void*& sample : device->samples) {
    if (result == 0) result = call(functions.allocate_sample, &sample);
  }
  return result;
}

int tensor_activity(Device* device, double* out) {
  void* fresh = device->samples[1];
  int result = device->slice
                   ? call(functions.take_mig_sample, device->handle, device->gpu_instance, fresh)
                   : call(functions.take_sample, device->handle, fresh);
  if (result != 0) return result;
  auto keep = [device, fresh] {
    device->samples[1] = device->samples[0];
    device->samples[0] = fresh;
    device->sampled = true;
  };
  if (!device->sampled) {
    keep();
    return kNoData;
  }
  static constinit abi::GpmMetrics metrics{};
  metrics.version = abi::kMetricsVersion;
  metrics.count = 1;
  metrics.before = device->samples[0];
  metrics.after = fresh;
  metrics.metrics[0] = {};
  metrics.metrics[0].id = abi::kMetricTensor;
  result = call(functions.get_metrics, &metrics);
  if (result == 0) result = metrics.metrics[0].result;
  if (result != 0) return result;
  keep();
  double percent = metrics.metrics[0].value;
  if (!(percent >= 0 && percent <= 100)) return kNoData;  // not a number, too
  *out = percent / 100;
  return 0;
}

}  // namespace mfu::nvml
