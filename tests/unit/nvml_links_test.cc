// NVML's word on NVLinks: asked of fake libraries of three ages, each in a process of its own.
#include "topology/nvml_links.hh"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/fake/fake_process.hh"
#include "tests/fake/nvml_values.hh"

namespace mfu {
namespace {

constexpr int kNotSupported = 3;      // NVML_ERROR_NOT_SUPPORTED
constexpr int kVersionMismatch = 25;  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
constexpr int kFailure = 999;         // NVML_ERROR_UNKNOWN

// Physical devices 0, 1 and 2.
const std::vector<std::string> kGpus = {"0000:1b:00.0", "0000:2b:00.0", "0000:3b:00.0"};
using Ids = std::vector<std::string>;

fake::NvmlValues& values_of(void* library) {
  return *fake::function<decltype(&fakeNvmlValues)>(library, "fakeNvmlValues")();
}
void fail(void* library, const char* function, int result) {
  fake::function<decltype(&fakeNvmlFail)>(library, "fakeNvmlFail")(function, result);
}

// GPU 0 is in clique 7, GPU 1 has no fabric, GPU 2's is not done.
void set_fabrics(fake::NvmlValues* values) {
  auto& fabric = values->fabric;
  fabric[0].state = 3;
  fabric[0].clique = 7;
  for (uint8_t i = 0; i < 16; ++i) fabric[0].cluster[i] = static_cast<uint8_t>(0xa0 + i);
  fabric[2].state = 2;
}
constexpr char kClique[] = "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf.7";

TEST(NvmlLinks, ThereIsNoLibrary) {
  fake::in_process({}, [] {
    if (void* real = dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
      dlclose(real);
      return;
    }
    EXPECT_TRUE(ask_nvml(kGpus).empty());
  });
}

TEST(NvmlLinks, GpusAndTheirPairs) {
  for (const char* name : {"libnvidia-ml.so.1", "libnvidia-ml-old.so.1", "libnvidia-ml-new.so.1"}) {
    SCOPED_TRACE(name);
    fake::in_process({}, [name] {
      fake::NvmlValues& values = values_of(fake::load(name));
      values.nvlink_status[0][2] = values.nvlink_status[2][0] = 5;  // not supported
      const std::vector<NvmlGpu> gpus = ask_nvml(kGpus);
      ASSERT_EQ(gpus.size(), 3u);
      for (int i = 0; i < 3; ++i) {
        const NvmlGpu& gpu = gpus[static_cast<size_t>(i)];
        EXPECT_EQ(gpu.bus_id, kGpus[static_cast<size_t>(i)]);
        EXPECT_EQ(gpu.minor, i);
        EXPECT_EQ(gpu.uuid.size(), 40u);
        EXPECT_TRUE(gpu.uuid.starts_with("GPU-")) << gpu.uuid;
        EXPECT_EQ(gpu.clique, "");
        EXPECT_EQ(gpu.fabric_fault, "");
      }
      EXPECT_EQ(gpus[0].nvlinked, Ids{kGpus[1]});
      EXPECT_EQ(gpus[1].nvlinked, (Ids{kGpus[0], kGpus[2]}));
      EXPECT_EQ(gpus[2].nvlinked, Ids{kGpus[1]});
    });
  }
}

TEST(NvmlLinks, OneGpuHasNoPairs) {
  fake::in_process({}, [] {
    fake::load("libnvidia-ml.so.1");
    const std::vector<NvmlGpu> gpus = ask_nvml({kGpus[1]});
    ASSERT_EQ(gpus.size(), 1u);
    EXPECT_EQ(gpus[0].nvlinked, Ids());
  });
}

// By the versioned function, by the first one where there is no other or it refuses us, and not at
// all by a library of the time before.
TEST(NvmlLinks, FabricsByTheirFunctionsOfAllAges) {
  struct Case {
    const char* library;
    const char* broken;
    int result;
    bool told;
  };
  for (const Case& at :
       {Case{"libnvidia-ml.so.1", "", 0, true}, Case{"libnvidia-ml-new.so.1", "", 0, true},
        Case{"libnvidia-ml.so.1", "nvmlDeviceGetGpuFabricInfoV", kVersionMismatch, true},
        Case{"libnvidia-ml.so.1", "nvmlDeviceGetGpuFabricInfo", kFailure, true},
        Case{"libnvidia-ml-new.so.1", "nvmlDeviceGetGpuFabricInfoV", kFailure, false},
        Case{"libnvidia-ml-old.so.1", "", 0, false}}) {
    SCOPED_TRACE(std::string(at.library) + " " + at.broken);
    fake::in_process({}, [&at] {
      void* library = fake::load(at.library);
      set_fabrics(&values_of(library));
      fail(library, at.broken, at.result);
      const std::vector<NvmlGpu> gpus = ask_nvml(kGpus);
      ASSERT_EQ(gpus.size(), 3u);
      EXPECT_EQ(gpus[0].clique, at.told ? kClique : "");
      EXPECT_EQ(gpus[0].fabric_fault, "");
      EXPECT_EQ(gpus[1].clique, "");
      EXPECT_EQ(gpus[1].fabric_fault, "");
      EXPECT_EQ(gpus[2].clique, "");
      EXPECT_EQ(gpus[2].fabric_fault, at.told ? "in-progress" : "");
      EXPECT_EQ(gpus[0].nvlinked, (Ids{kGpus[1], kGpus[2]}));
    });
  }
}

TEST(NvmlLinks, FabricsWithoutAClique) {
  fake::in_process({}, [] {
    fake::NvmlValues& values = values_of(fake::load("libnvidia-ml.so.1"));
    set_fabrics(&values);
    values.fabric[0].status = 19;
    values.fabric[1].state = 3;  // with NVSwitches of its own: no cluster
    values.fabric[1].clique = 1;
    values.fabric[2].state = 1;
    const std::vector<NvmlGpu> gpus = ask_nvml(kGpus);
    ASSERT_EQ(gpus.size(), 3u);
    for (const NvmlGpu& gpu : gpus) EXPECT_EQ(gpu.clique, "");
    EXPECT_EQ(gpus[0].fabric_fault, "error-19");
    EXPECT_EQ(gpus[1].fabric_fault, "");
    EXPECT_EQ(gpus[2].fabric_fault, "not-started");
  });
}

TEST(NvmlLinks, WhatFailsIsUnknown) {
  fake::in_process({}, [] {
    void* library = fake::load("libnvidia-ml.so.1");
    for (const char* function :
         {"nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetP2PStatus"}) {
      fail(library, function, kFailure);
    }
    const std::vector<NvmlGpu> gpus = ask_nvml(kGpus);
    ASSERT_EQ(gpus.size(), 3u);
    EXPECT_EQ(gpus[0].uuid, "");
    EXPECT_EQ(gpus[0].minor, -1);
    EXPECT_EQ(gpus[0].nvlinked, std::nullopt);
    fail(library, "nvmlInit_v2", kFailure);
    EXPECT_TRUE(ask_nvml(kGpus).empty());
  });
}

TEST(NvmlLinks, APairThatIsUnknownLeavesBothUnknown) {
  fake::in_process({}, [] {
    fake::NvmlValues& values = values_of(fake::load("libnvidia-ml.so.1"));
    values.nvlink_status[0][2] = values.nvlink_status[2][0] = 6;
    const std::vector<NvmlGpu> gpus = ask_nvml(kGpus);
    ASSERT_EQ(gpus.size(), 3u);
    EXPECT_EQ(gpus[0].nvlinked, std::nullopt);
    EXPECT_EQ(gpus[1].nvlinked, (Ids{kGpus[0], kGpus[2]}));
    EXPECT_EQ(gpus[2].nvlinked, std::nullopt);
  });
}

// In MIG mode a GPU has no peers, and NVML says so of all its pairs: they are not without NVLink.
TEST(NvmlLinks, AGpuInMigModeLeavesAllLinksUnknown) {
  for (const char* name : {"libnvidia-ml.so.1", "libnvidia-ml-old.so.1", "libnvidia-ml-new.so.1"}) {
    SCOPED_TRACE(name);
    fake::in_process({}, [name] {
      void* library = fake::load(name);
      fake::NvmlValues& values = values_of(library);
      values.mig_mode[1] = true;
      std::vector<NvmlGpu> gpus = ask_nvml(kGpus);
      ASSERT_EQ(gpus.size(), 3u);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(gpus[i].mig, i == 1);
        EXPECT_NE(gpus[i].uuid, "");
        EXPECT_EQ(gpus[i].nvlinked, std::nullopt);
      }
      values.mig_mode[1] = false;
      gpus = ask_nvml(kGpus);
      ASSERT_EQ(gpus.size(), 3u);
      for (const NvmlGpu& gpu : gpus) {
        EXPECT_FALSE(gpu.mig);
        EXPECT_EQ(gpu.nvlinked.value_or(Ids()).size(), 2u);
      }
      // GPUs of the time before have no such mode.
      fail(library, "nvmlDeviceGetMigMode", kNotSupported);
      gpus = ask_nvml(kGpus);
      ASSERT_EQ(gpus.size(), 3u);
      EXPECT_TRUE(gpus[0].nvlinked);
    });
  }
}

// In a job's cgroup NVML sees some of the node's GPUs.
TEST(NvmlLinks, AGpuThatNvmlDoesNotSeeLeavesAllLinksUnknown) {
  fake::in_process({}, [] {
    fake::load("libnvidia-ml.so.1");
    const std::vector<NvmlGpu> gpus = ask_nvml({kGpus[0], "0000:ff:00.0", kGpus[1]});
    ASSERT_EQ(gpus.size(), 2u);
    for (const NvmlGpu& gpu : gpus) {
      EXPECT_NE(gpu.uuid, "");
      EXPECT_EQ(gpu.nvlinked, std::nullopt);
    }
    EXPECT_TRUE(ask_nvml({}).empty());
  });
}

}  // namespace
}  // namespace mfu
