// NVML as its header declares it, as far as topology/ asks it. Held against the headers of CUDA
// 11.8 to 13 by tests/build/nvml_versions_test.sh. Included by the gate and by the fake library
// only.
#ifndef MFU_TOPOLOGY_NVML_ABI_HH_
#define MFU_TOPOLOGY_NVML_ABI_HH_

#include <cstdint>

namespace mfu::nvml_abi {

// Handles are pointers, results and enumerations are ints; result 0 is success.
using Handle = void*;

inline constexpr uint32_t kMigOn = 1;  // NVML_DEVICE_MIG_ENABLE

inline constexpr int kNvlinkCapability = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
inline constexpr int kPairLinked = 0;        // NVML_P2P_STATUS_OK
inline constexpr int kPairUnknown = 6;       // NVML_P2P_STATUS_UNKNOWN

// NVML_GPU_FABRIC_STATE_...
inline constexpr uint8_t kNoFabric = 0;
inline constexpr uint8_t kNotStarted = 1;
inline constexpr uint8_t kInProgress = 2;
inline constexpr uint8_t kCompleted = 3;

struct Fabric {  // nvmlGpuFabricInfo_t
  uint8_t cluster[16];
  int32_t status;  // a result, of a completed state
  uint32_t clique;
  uint8_t state;
};

struct FabricV {  // nvmlGpuFabricInfo_v2_t
  uint32_t version;
  uint8_t cluster[16];
  int32_t status;
  uint32_t clique;
  uint8_t state;
  uint32_t health;
};
inline constexpr uint32_t kFabricVersion = sizeof(FabricV) | 2u << 24;

using Init = int();
using DeviceByText = int(const char* text, Handle* device);
using DeviceText = int(Handle device, char* text, uint32_t size);
using DeviceNumber = int(Handle device, uint32_t* value);
using DeviceMode = int(Handle device, uint32_t* current, uint32_t* pending);
using PairStatus = int(Handle a, Handle b, int capability, int* status);
using DeviceFabric = int(Handle device, Fabric* fabric);
using DeviceFabricV = int(Handle device, FabricV* fabric);

}  // namespace mfu::nvml_abi

#endif
