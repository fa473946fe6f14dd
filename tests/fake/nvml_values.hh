// What the fake libnvidia-ml.so.1 answers. A test that has loaded it may change all of it
// (fakeNvmlValues()); the environment may too:
//   FAKE_NVML_FAIL=nvmlDeviceGetPowerUsage=4,...   results of calls; "@3" before '=': from the
//   third FAKE_NVML_HANG=nvmlDeviceGetPowerUsage         a call that never returns; "@3" as above
//   FAKE_NVML_POWER=700000                         in mW
//   FAKE_NVML_LINK=3x16                            PCIe's generation and width now
#ifndef MFU_TESTS_FAKE_NVML_VALUES_HH_
#define MFU_TESTS_FAKE_NVML_VALUES_HH_

#include <cstdint>

namespace mfu::fake {

struct NvmlValues {
  uint64_t energy_mj;  // 0: power times the time since the library was loaded
  uint32_t power_mw;
  uint32_t clock_mhz;
  uint32_t clock_limit_mhz;
  uint32_t temperature_c;
  uint64_t reasons;
  double tensor_percent;
  uint32_t busy_percent;
  // The PCIe link now, and the most that both of its ends can.
  uint32_t link_generation;
  uint32_t link_width;
  uint32_t most_link_generation;
  uint32_t most_link_width;
  bool c2c;  // the CPU is reached by a chip-to-chip link
  // The GPUs are in MIG mode, each with one slice, of GPU instance 3.
  bool mig;
  uint8_t slice_uuid[16];
  bool mig_mode[8];       // of single GPUs, which then have no links to others
  uint32_t gpm_instance;  // whose sample was taken last; UINT32_MAX: the whole GPU's
  uint64_t calls;         // of all functions
  uint64_t samples;       // that GPM allocated
  // NVLink between GPUs: what nvmlDeviceGetP2PStatus says of each pair; 0: linked.
  int nvlink_status[8][8];
  // The fabric of each GPU, as nvmlDeviceGetGpuFabricInfo tells it; state 0: none.
  struct {
    uint8_t cluster[16];
    int32_t status;
    uint32_t clique;
    uint8_t state;
  } fabric[8];
};

}  // namespace mfu::fake

#pragma GCC visibility push(default)
extern "C" {
mfu::fake::NvmlValues* fakeNvmlValues();
// From now on `function` returns this; 0: works again.
void fakeNvmlFail(const char* function, int result);
}
#pragma GCC visibility pop

#endif
