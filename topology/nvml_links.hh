// What NVML tells of GPUs and nothing else does: their NVLinks, and the NVLink fabric beyond the
// node.
#ifndef MFU_TOPOLOGY_NVML_LINKS_HH_
#define MFU_TOPOLOGY_NVML_LINKS_HH_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mfu {

struct NvmlGpu {
  std::string bus_id;        // as it was asked for
  std::string uuid;          // "GPU-..."; empty: unknown
  int32_t minor = -1;        // N of /dev/nvidiaN; -1: unknown
  std::string clique;        // as Gpu::clique
  std::string fabric_fault;  // as Gpu::fabric_fault: "not-started", "in-progress", "error-19"
  // Bus ids of those asked for that it has NVLink to, directly or by way of an NVSwitch; nullopt:
  // of one of them it is unknown, or one is in MIG mode, in which NVML tells of no links: they come
  // back without a boot.
  std::optional<std::vector<std::string>> nvlinked;
  bool mig = false;  // in MIG mode now
};

// By libnvidia-ml.so.1. GPUs that it does not know are left out; without it there are none. Only
// reads. May hang where the driver does, and a driver that has let go of its GPUs takes seconds to
// take them up again: for a process of its own.
std::vector<NvmlGpu> ask_nvml(const std::vector<std::string>& bus_ids);

}  // namespace mfu

#endif
