// The devices that the fake driver shows, taken from the environment.
#ifndef MFU_TESTS_FAKE_GPU_MODEL_HH_
#define MFU_TESTS_FAKE_GPU_MODEL_HH_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mfu::fake {

struct GpuModel {
  std::string name;
  int physical;  // index on the node, from CUDA_VISIBLE_DEVICES
  int sm_count;
  int major;
  int minor;
  int clock_khz;
  uint64_t memory_bytes;

  // The same for every process of this node that sees this physical GPU, another on other nodes.
  CUuuid uuid() const;
  int pci_bus() const { return (0x1b + 0x10 * physical) & 0xff; }
};

// FAKE_CUDA_DEVICES (count), FAKE_CUDA_DEVICE_NAME, CUDA_VISIBLE_DEVICES.
std::vector<GpuModel> visible_gpus();

}  // namespace mfu::fake

#endif
