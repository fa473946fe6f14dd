// A libnvidia-ml.so.1 without a GPU, for the devices that the fake driver shows. Handles point to
// GPUs, with their lowest bit set to slices of them. With FAKE_NVML_OLD it is a library of the time
// before GPM, clocks event reasons and the second versions of functions.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "profiler/nvml_abi.hh"
#include "tests/fake/gpu_model.hh"
#include "tests/fake/nvml_values.hh"
#include "topology/nvml_abi.hh"

using namespace mfu::nvml::abi;
using mfu::fake::GpuModel;
using mfu::fake::NvmlValues;

namespace {

constexpr int kUninitialized = 1;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kVersionMismatch = 25;
constexpr int kNoPeers = 5;  // a pair's status: not supported
constexpr int kMostGpus = 8;

struct Rule {
  int result = 0;  // kHang: never returns
  uint64_t from_call = 1;
  uint64_t calls = 0;
};
constexpr int kHang = -1;

struct Gpu {
  GpuModel model;
};

struct Library {
  std::mutex mutex;
  NvmlValues values{};
  std::map<std::string, Rule, std::less<>> rules;
  int users = 0;
  uint64_t loaded_ns = 0;
  Gpu gpus[kMostGpus];
};

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

void read_rules(const char* variable, bool hang, Library* out) {
  const char* list = std::getenv(variable);
  std::string_view rest = list != nullptr ? list : "";
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string item(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    Rule rule{kHang};
    size_t equals = item.find('=');
    if (!hang && equals == item.npos) std::abort();
    if (!hang) rule.result = std::atoi(item.c_str() + equals + 1);
    std::string name = item.substr(0, std::min(equals, item.size()));
    if (size_t at = name.find('@'); at != name.npos) {
      rule.from_call = std::strtoul(name.c_str() + at + 1, nullptr, 10);
      name.resize(at);
    }
    out->rules[name] = rule;
  }
}

Library& library() {
  static Library& instance = *[] {
    auto* fresh = new Library;
    const char* power = std::getenv("FAKE_NVML_POWER");
    fresh->values.power_mw = power != nullptr ? static_cast<uint32_t>(std::atoi(power)) : 500'000;
    fresh->values.clock_mhz = 1755;
    fresh->values.clock_limit_mhz = 1980;
    fresh->values.temperature_c = 61;
    fresh->values.tensor_percent = 55;
    fresh->values.busy_percent = 90;
    fresh->values.link_generation = fresh->values.most_link_generation = 5;
    fresh->values.link_width = fresh->values.most_link_width = 16;
    if (const char* link = std::getenv("FAKE_NVML_LINK")) {
      NvmlValues& values = fresh->values;
      if (std::sscanf(link, "%ux%u", &values.link_generation, &values.link_width) != 2) {
        std::abort();
      }
    }
    fresh->loaded_ns = now_ns();
    read_rules("FAKE_NVML_FAIL", false, fresh);
    read_rules("FAKE_NVML_HANG", true, fresh);
    for (int i = 0; i < kMostGpus; ++i) {
      fresh->gpus[i].model = mfu::fake::visible_gpus().at(0);
      fresh->gpus[i].model.physical = i;
    }
    return fresh;
  }();
  return instance;
}

// What the rules say of this call.
int enter(const char* function, bool before_init = false) {
  int result = 0;
  {
    std::lock_guard lock(library().mutex);
    ++library().values.calls;
    if (!before_init && library().users == 0) return kUninitialized;
    auto found = library().rules.find(function);
    if (found != library().rules.end() && ++found->second.calls >= found->second.from_call) {
      result = found->second.result;
    }
  }
  while (result == kHang) pause();
  return result;
}

Gpu* gpu_of(Handle device) {
  return reinterpret_cast<Gpu*>(reinterpret_cast<uintptr_t>(device) & ~uintptr_t{1});
}
int index_of(Handle device) {
  return static_cast<int>(gpu_of(device) - library().gpus);
}
bool is_slice(Handle device) {
  return (reinterpret_cast<uintptr_t>(device) & 1) != 0;
}

std::string uuid_text(const char* prefix, const void* bytes) {
  auto* b = static_cast<const uint8_t*>(bytes);
  std::string text = prefix;
  for (int i = 0; i < 16; ++i) {
    char digits[4];
    bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    std::snprintf(digits, sizeof(digits), "%s%02x", dash ? "-" : "", b[i]);
    text += digits;
  }
  return text;
}

// A number of a whole GPU.
template <typename Value, typename Out>
int tell(const char* function, Handle device, Value NvmlValues::*value, Out* out) {
  if (int result = enter(function)) return result;
  if (is_slice(device)) return kNotSupported;
  std::lock_guard lock(library().mutex);
  // A test may be changing it.
  *out = static_cast<Out>(std::atomic_ref(library().values.*value).load());
  return 0;
}

// Either version of what a fabric is told in.
template <typename Fabric>
void tell_fabric(Handle device, Fabric* out) {
  const auto& fabric = library().values.fabric[index_of(device)];
  std::memcpy(out->cluster, fabric.cluster, sizeof(out->cluster));
  out->status = fabric.status;
  out->clique = fabric.clique;
  out->state = fabric.state;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

NvmlValues* fakeNvmlValues() {
  return &library().values;
}

void fakeNvmlFail(const char* function, int result) {
  std::lock_guard lock(library().mutex);
  library().rules[function] = Rule{result};
}

#ifdef FAKE_NVML_OLD
#define NVML_INIT nvmlInit
#define NVML_BY_PCI nvmlDeviceGetHandleByPciBusId
#define NVML_REASONS nvmlDeviceGetCurrentClocksThrottleReasons
#else
#define NVML_INIT nvmlInit_v2
#define NVML_BY_PCI nvmlDeviceGetHandleByPciBusId_v2
#define NVML_REASONS nvmlDeviceGetCurrentClocksEventReasons
#endif
#define NVML_NAME_OF(name) #name
#define NVML_NAME(name) NVML_NAME_OF(name)

int NVML_INIT() {
  int result = enter(NVML_NAME(NVML_INIT), true);
  if (result == 0) ++library().users;
  return result;
}

int NVML_BY_PCI(const char* pci, Handle* device) {
  if (int result = enter(NVML_NAME(NVML_BY_PCI))) return result;
  unsigned domain = 0;
  unsigned bus = 0;
  if (std::sscanf(pci, "%x:%x:", &domain, &bus) != 2) return kInvalidArgument;
  for (Gpu& gpu : library().gpus) {
    if (gpu.model.pci_bus() != static_cast<int>(bus)) continue;
    *device = &gpu;
    return 0;
  }
  return kNotFound;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, Handle* device) {
  if (int result = enter("nvmlDeviceGetHandleByUUID")) return result;
  NvmlValues& values = library().values;
  if (!values.mig || uuid != uuid_text("MIG-", values.slice_uuid)) return kNotFound;
  *device = reinterpret_cast<Handle>(reinterpret_cast<uintptr_t>(&library().gpus[0]) | 1);
  return 0;
}

int nvmlDeviceGetUUID(Handle device, char* text, uint32_t size) {
  if (int result = enter("nvmlDeviceGetUUID")) return result;
  CUuuid uuid = gpu_of(device)->model.uuid();
  std::snprintf(text, size, "%s", uuid_text("GPU-", &uuid).c_str());
  return 0;
}

int nvmlDeviceGetMigMode(Handle device, uint32_t* current, uint32_t* pending) {
  if (int result = enter("nvmlDeviceGetMigMode")) return result;
  const NvmlValues& values = library().values;
  *current = values.mig || values.mig_mode[index_of(device)] ? 1 : 0;
  *pending = 0;
  return 0;
}

int nvmlDeviceGetGpuInstanceId(Handle device, uint32_t* id) {
  if (int result = enter("nvmlDeviceGetGpuInstanceId")) return result;
  if (!is_slice(device)) return kNotFound;
  *id = 3;
  return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(Handle device, unsigned long long* out) {
  int result = tell("nvmlDeviceGetTotalEnergyConsumption", device, &NvmlValues::energy_mj, out);
  if (result == 0 && *out == 0) {
    uint64_t us = (now_ns() - library().loaded_ns) / 1000;
    *out = library().values.power_mw * us / 1'000'000 + 1;
  }
  return result;
}

int nvmlDeviceGetPowerUsage(Handle device, uint32_t* out) {
  return tell("nvmlDeviceGetPowerUsage", device, &NvmlValues::power_mw, out);
}

int nvmlDeviceGetClockInfo(Handle device, int kind, uint32_t* out) {
  if (kind != kClockSm) return kInvalidArgument;
  return tell("nvmlDeviceGetClockInfo", device, &NvmlValues::clock_mhz, out);
}

int nvmlDeviceGetMaxClockInfo(Handle device, int kind, uint32_t* out) {
  if (kind != kClockSm) return kInvalidArgument;
  return tell("nvmlDeviceGetMaxClockInfo", device, &NvmlValues::clock_limit_mhz, out);
}

#ifdef FAKE_NVML_NEW
int nvmlDeviceGetTemperatureV(Handle device, Temperature* out) {
  if (out->version != kTemperatureVersion) return kVersionMismatch;
  return tell("nvmlDeviceGetTemperatureV", device, &NvmlValues::temperature_c, &out->celsius);
}
#else
int nvmlDeviceGetTemperature(Handle device, int sensor, uint32_t* out) {
  if (sensor != kTemperatureGpu) return kInvalidArgument;
  return tell("nvmlDeviceGetTemperature", device, &NvmlValues::temperature_c, out);
}
#endif

int NVML_REASONS(Handle device, unsigned long long* out) {
  return tell(NVML_NAME(NVML_REASONS), device, &NvmlValues::reasons, out);
}

int nvmlDeviceGetUtilizationRates(Handle device, Utilization* out) {
  return tell("nvmlDeviceGetUtilizationRates", device, &NvmlValues::busy_percent, &out->gpu);
}

int nvmlDeviceGetCurrPcieLinkGeneration(Handle device, uint32_t* out) {
  return tell("nvmlDeviceGetCurrPcieLinkGeneration", device, &NvmlValues::link_generation, out);
}

int nvmlDeviceGetCurrPcieLinkWidth(Handle device, uint32_t* out) {
  return tell("nvmlDeviceGetCurrPcieLinkWidth", device, &NvmlValues::link_width, out);
}

int nvmlDeviceGetMaxPcieLinkGeneration(Handle device, uint32_t* out) {
  return tell("nvmlDeviceGetMaxPcieLinkGeneration", device, &NvmlValues::most_link_generation, out);
}

int nvmlDeviceGetMaxPcieLinkWidth(Handle device, uint32_t* out) {
  return tell("nvmlDeviceGetMaxPcieLinkWidth", device, &NvmlValues::most_link_width, out);
}

int nvmlDeviceGetMinorNumber(Handle device, uint32_t* out) {
  if (int result = enter("nvmlDeviceGetMinorNumber")) return result;
  *out = static_cast<uint32_t>(index_of(device));
  return 0;
}

int nvmlDeviceGetP2PStatus(Handle a, Handle b, int capability, int* status) {
  if (int result = enter("nvmlDeviceGetP2PStatus")) return result;
  if (a == b || capability != mfu::nvml_abi::kNvlinkCapability) return kInvalidArgument;
  const NvmlValues& values = library().values;
  *status = values.nvlink_status[index_of(a)][index_of(b)];
  if (values.mig_mode[index_of(a)] || values.mig_mode[index_of(b)]) *status = kNoPeers;
  return 0;
}

#if !defined(FAKE_NVML_OLD) && !defined(FAKE_NVML_NEW)
int nvmlDeviceGetGpuFabricInfo(Handle device, mfu::nvml_abi::Fabric* out) {
  if (int result = enter("nvmlDeviceGetGpuFabricInfo")) return result;
  tell_fabric(device, out);
  return 0;
}
#endif

#ifndef FAKE_NVML_OLD

int nvmlDeviceGetGpuFabricInfoV(Handle device, mfu::nvml_abi::FabricV* out) {
  if (int result = enter("nvmlDeviceGetGpuFabricInfoV")) return result;
  if (out->version != mfu::nvml_abi::kFabricVersion) return kVersionMismatch;
  tell_fabric(device, out);
  return 0;
}

int nvmlDeviceGetC2cModeInfoV(Handle device, C2cMode* out) {
  if (int result = enter("nvmlDeviceGetC2cModeInfoV")) return result;
  if (is_slice(device) || !library().values.c2c) return kNotSupported;
  out->enabled = 1;
  return 0;
}

int nvmlGpmQueryDeviceSupport(Handle device, GpmSupport* support) {
  if (int result = enter("nvmlGpmQueryDeviceSupport")) return result;
  if (support->version != kSupportVersion) return kVersionMismatch;
  support->supported = gpu_of(device)->model.major >= 9 ? 1 : 0;
  return 0;
}

// A sample holds when it was taken.
int nvmlGpmSampleAlloc(GpmSample* sample) {
  if (int result = enter("nvmlGpmSampleAlloc")) return result;
  *sample = new uint64_t(0);
  ++library().values.samples;
  return 0;
}

int nvmlGpmSampleGet(Handle device, GpmSample sample) {
  if (int result = enter("nvmlGpmSampleGet")) return result;
  if (is_slice(device) || library().values.mig) return kNotSupported;
  *static_cast<uint64_t*>(sample) = now_ns();
  library().values.gpm_instance = UINT32_MAX;
  return 0;
}

int nvmlGpmMigSampleGet(Handle device, uint32_t gpu_instance, GpmSample sample) {
  if (int result = enter("nvmlGpmMigSampleGet")) return result;
  if (is_slice(device)) return kInvalidArgument;
  *static_cast<uint64_t*>(sample) = now_ns();
  library().values.gpm_instance = gpu_instance;
  return 0;
}

int nvmlGpmMetricsGet(GpmMetrics* metrics) {
  if (int result = enter("nvmlGpmMetricsGet")) return result;
  if (metrics->version != kMetricsVersion) return kVersionMismatch;
  uint64_t before = *static_cast<uint64_t*>(metrics->before);
  uint64_t after = *static_cast<uint64_t*>(metrics->after);
  if (metrics->count == 0 || before == 0 || after <= before) return kInvalidArgument;
  for (uint32_t i = 0; i < metrics->count; ++i) {
    GpmMetric& metric = metrics->metrics[i];
    metric.result = metric.id == kMetricTensor ? 0 : kNotSupported;
    metric.value = library().values.tensor_percent;
  }
  return 0;
}

#endif

}  // extern "C"
#pragma GCC visibility pop
