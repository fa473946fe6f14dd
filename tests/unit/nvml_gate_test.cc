// The gate to NVML over fake libraries of three ages, each in a process of its own.
#include "profiler/nvml_gate.hh"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string_view>

#include "tests/fake/fake_process.hh"
#include "tests/fake/gpu_model.hh"
#include "tests/fake/nvml_values.hh"

namespace mfu {
namespace {

using fake::Environment;

fake::NvmlValues* values_of(void* library) {
  return fake::function<decltype(&fakeNvmlValues)>(library, "fakeNvmlValues")();
}

void fail(void* library, const char* function, int result) {
  fake::function<decltype(&fakeNvmlFail)>(library, "fakeNvmlFail")(function, result);
}

struct Uuid {
  uint8_t bytes[16];
};
Uuid uuid_of(int physical) {
  fake::GpuModel gpu = fake::visible_gpus().at(0);
  gpu.physical = physical;
  CUuuid uuid = gpu.uuid();
  Uuid result;
  std::memcpy(result.bytes, &uuid, sizeof(result.bytes));
  return result;
}
constexpr char kPci[] = "0000:1B:00.0";  // physical device 0

int find_first(nvml::Device* device) {
  return nvml::find(kPci, uuid_of(0).bytes, device);
}

TEST(NvmlGate, ThereIsNoLibrary) {
  fake::in_process({}, [] {
    if (void* real = dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
      dlclose(real);
      return;
    }
    EXPECT_EQ(nvml::open(), nvml::kNoLibrary);
    nvml::Device device;
    EXPECT_EQ(find_first(&device), nvml::kFunctionNotFound);
  });
}

TEST(NvmlGate, ReadsEachSensor) {
  fake::in_process({}, [] {
    fake::NvmlValues& values = *values_of(fake::load("libnvidia-ml.so.1"));
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    ASSERT_EQ(find_first(&device), 0);
    EXPECT_FALSE(device.slice);
    values.energy_mj = 123'456'789'012;
    values.reasons = 0x400000004;
    uint64_t wide = 0;
    uint32_t number = 0;
    EXPECT_EQ(nvml::energy_mj(device, &wide), 0);
    EXPECT_EQ(wide, 123'456'789'012u);
    EXPECT_EQ(nvml::power_mw(device, &number), 0);
    EXPECT_EQ(number, 500'000u);
    EXPECT_EQ(nvml::sm_clock_mhz(device, &number), 0);
    EXPECT_EQ(number, 1755u);
    EXPECT_EQ(nvml::most_sm_clock_mhz(device, &number), 0);
    EXPECT_EQ(number, 1980u);
    EXPECT_EQ(nvml::temperature_c(device, &number), 0);
    EXPECT_EQ(number, 61u);
    EXPECT_EQ(nvml::clock_reasons(device, &wide), 0);
    EXPECT_EQ(wide, 0x400000004u);
  });
}

TEST(NvmlGate, ReadsTheLink) {
  fake::in_process({}, [] {
    void* library = fake::load("libnvidia-ml.so.1");
    fake::NvmlValues& values = *values_of(library);
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    ASSERT_EQ(find_first(&device), 0);
    values.link_generation = 1;
    values.link_width = 8;
    values.most_link_generation = 4;
    uint32_t busy = 0;
    uint32_t generation = 0;
    uint32_t width = 0;
    EXPECT_EQ(nvml::busy_percent(device, &busy), 0);
    EXPECT_EQ(busy, 90u);
    EXPECT_EQ(nvml::pcie_link(device, &generation, &width), 0);
    EXPECT_EQ(generation, 1u);
    EXPECT_EQ(width, 8u);
    EXPECT_EQ(nvml::most_pcie_link(device, &generation, &width), 0);
    EXPECT_EQ(generation, 4u);
    EXPECT_EQ(width, 16u);
    for (const char* function : {"nvmlDeviceGetMaxPcieLinkGeneration",
                                 "nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetC2cModeInfoV"}) {
      fail(library, function, 15);
      EXPECT_EQ(nvml::most_pcie_link(device, &generation, &width), 15) << function;
      fail(library, function, 0);
    }
    for (const char* function :
         {"nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth"}) {
      fail(library, function, nvml::kNotSupported);
      EXPECT_EQ(nvml::pcie_link(device, &generation, &width), nvml::kNotSupported) << function;
    }
    values.c2c = true;
    EXPECT_EQ(nvml::most_pcie_link(device, &generation, &width), nvml::kNotSupported);
  });
}

TEST(NvmlGate, TensorActivityIsBetweenTwoCalls) {
  fake::in_process({}, [] {
    void* library = fake::load("libnvidia-ml.so.1");
    fake::NvmlValues& values = *values_of(library);
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    ASSERT_EQ(find_first(&device), 0);
    ASSERT_EQ(nvml::open_tensor_activity(&device), 0);
    EXPECT_EQ(values.samples, 2u);
    double activity = -1;
    EXPECT_EQ(nvml::tensor_activity(&device, &activity), nvml::kNoData);
    EXPECT_EQ(nvml::tensor_activity(&device, &activity), 0);
    EXPECT_DOUBLE_EQ(activity, 0.55);
    for (double odd : {-1.0, 100.5, std::numeric_limits<double>::quiet_NaN()}) {
      values.tensor_percent = odd;
      EXPECT_EQ(nvml::tensor_activity(&device, &activity), nvml::kNoData);
    }
    // A failure keeps the older sample for the next call.
    values.tensor_percent = 40;
    void* older = device.samples[0];
    for (const char* function : {"nvmlGpmSampleGet", "nvmlGpmMetricsGet"}) {
      fail(library, function, 999);
      EXPECT_EQ(nvml::tensor_activity(&device, &activity), 999) << function;
      EXPECT_EQ(device.samples[0], older) << function;
      fail(library, function, 0);
    }
    EXPECT_EQ(nvml::tensor_activity(&device, &activity), 0);
    EXPECT_DOUBLE_EQ(activity, 0.4);
    EXPECT_EQ(values.samples, 2u) << "samples are allocated when GPM is opened, never later";
  });
}

TEST(NvmlGate, BeforeHopperThereIsNoTensorActivity) {
  fake::in_process({{"FAKE_CUDA_DEVICE_NAME", "NVIDIA A100-SXM4-80GB"}}, [] {
    fake::load("libnvidia-ml.so.1");
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    ASSERT_EQ(find_first(&device), 0);
    EXPECT_EQ(nvml::open_tensor_activity(&device), nvml::kNotSupported);
  });
}

TEST(NvmlGate, TakesOlderAndNewerNamesOfFunctions) {
  for (const char* name : {"libnvidia-ml-old.so.1", "libnvidia-ml-new.so.1"}) {
    fake::in_process({}, [&] {
      fake::NvmlValues& values = *values_of(fake::load(name));
      values.reasons = 0x44;
      ASSERT_EQ(nvml::open(), 0);
      nvml::Device device;
      ASSERT_EQ(find_first(&device), 0);
      uint32_t celsius = 0;
      EXPECT_EQ(nvml::temperature_c(device, &celsius), 0);
      EXPECT_EQ(celsius, 61u);
      uint64_t reasons = 0;
      EXPECT_EQ(nvml::clock_reasons(device, &reasons), 0);
      EXPECT_EQ(reasons, 0x44u);
      uint32_t generation = 0;
      uint32_t width = 0;
      EXPECT_EQ(nvml::most_pcie_link(device, &generation, &width), 0);
      EXPECT_EQ(generation, 5u);
      bool old = std::string_view(name).find("old") != std::string_view::npos;
      EXPECT_EQ(nvml::open_tensor_activity(&device), old ? nvml::kFunctionNotFound : 0);
    });
  }
}

// CUDA tells a slice's UUID and its GPU's address.
TEST(NvmlGate, ASliceHasItsGpusClockAndNoPowerOfItsOwn) {
  fake::in_process({}, [] {
    fake::NvmlValues& values = *values_of(fake::load("libnvidia-ml.so.1"));
    values.mig = true;
    std::memset(values.slice_uuid, 0xa7, sizeof(values.slice_uuid));
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    ASSERT_EQ(nvml::find(kPci, values.slice_uuid, &device), 0);
    EXPECT_TRUE(device.slice);
    EXPECT_EQ(device.gpu_instance, 3u);
    uint64_t wide = 0;
    uint32_t number = 0;
    EXPECT_EQ(nvml::energy_mj(device, &wide), nvml::kOfWholeGpu);
    EXPECT_EQ(nvml::power_mw(device, &number), nvml::kOfWholeGpu);
    EXPECT_EQ(nvml::busy_percent(device, &number), nvml::kOfWholeGpu);
    EXPECT_EQ(nvml::pcie_link(device, &number, &number), nvml::kOfWholeGpu);
    EXPECT_EQ(nvml::most_pcie_link(device, &number, &number), nvml::kOfWholeGpu);
    EXPECT_EQ(nvml::sm_clock_mhz(device, &number), 0);
    EXPECT_EQ(nvml::temperature_c(device, &number), 0);
    double activity = 0;
    ASSERT_EQ(nvml::open_tensor_activity(&device), 0);
    EXPECT_EQ(nvml::tensor_activity(&device, &activity), nvml::kNoData);
    EXPECT_EQ(values.gpm_instance, 3u);
    EXPECT_EQ(nvml::tensor_activity(&device, &activity), 0);
  });
}

// Never a neighbour's power for one's own.
TEST(NvmlGate, AnotherGpuOrSliceIsNotFound) {
  fake::in_process({}, [] {
    fake::NvmlValues& values = *values_of(fake::load("libnvidia-ml.so.1"));
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    EXPECT_EQ(nvml::find("0000:99:00.0", uuid_of(0).bytes, &device), nvml::kNotFound);
    EXPECT_EQ(nvml::find(kPci, uuid_of(1).bytes, &device), nvml::kNotFound);
    EXPECT_EQ(nvml::find("0000:2B:00.0", uuid_of(1).bytes, &device), 0);
    EXPECT_NE(nvml::find("nonsense", uuid_of(1).bytes, &device), 0);
    // Without a UUID the address counts, unless the GPU is cut into slices.
    Uuid none{};
    EXPECT_EQ(nvml::find(kPci, none.bytes, &device), 0);
    values.mig = true;
    std::memset(values.slice_uuid, 0xa7, sizeof(values.slice_uuid));
    EXPECT_EQ(nvml::find(kPci, none.bytes, &device), nvml::kNotFound);
  });
}

TEST(NvmlGate, ResultsAreNvmls) {
  fake::in_process({{"FAKE_NVML_FAIL", "nvmlDeviceGetPowerUsage@2=15,nvmlInit_v2=9"}}, [] {
    void* library = fake::load("libnvidia-ml.so.1");
    EXPECT_EQ(nvml::open(), 9);
    fail(library, "nvmlInit_v2", 0);
    ASSERT_EQ(nvml::open(), 0);
    nvml::Device device;
    ASSERT_EQ(find_first(&device), 0);
    uint32_t power_mw;
    EXPECT_EQ(nvml::power_mw(device, &power_mw), 0);
    EXPECT_EQ(nvml::power_mw(device, &power_mw), 15);
  });
  for (int code : {nvml::kNotSupported, nvml::kNoPermission, nvml::kFunctionNotFound,
                   nvml::kNoLibrary, nvml::kOfWholeGpu}) {
    EXPECT_TRUE(nvml::is_final(code)) << code;
  }
  for (int code : {0, 10, 15, nvml::kNoData, nvml::kUnknown}) {
    EXPECT_FALSE(nvml::is_final(code)) << code;
  }
}

}  // namespace
}  // namespace mfu
