// The gate to NVML. Pairs are asked for their peer-to-peer status over NVLink, which is what the
// driver itself goes by: it holds for bridges, for NVSwitches and within a node of a rack (NVL72).
// A single link's state or remote device would tell of the next switch only.
#include "topology/nvml_links.hh"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

#include "topology/nvml_abi.hh"

namespace mfu {
namespace {

struct Functions {
  nvml_abi::DeviceByText* by_bus_id;
  nvml_abi::DeviceText* uuid;
  nvml_abi::DeviceNumber* minor;
  nvml_abi::DeviceMode* mig_mode;
  nvml_abi::PairStatus* pair_status;
  nvml_abi::DeviceFabricV* fabric_v;
  nvml_abi::DeviceFabric* fabric;
};

template <typename Function>
void resolve(void* library, Function** out, const char* name, const char* older = nullptr) {
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  if (*out == nullptr && older != nullptr) resolve(library, out, older);
}

// False: the driver has no such function, or it fails.
template <typename Function, typename... Arguments>
bool answers(Function* function, Arguments... arguments) {
  return function != nullptr && function(arguments...) == 0;
}

std::string cluster_text(const uint8_t (&b)[16]) {
  char text[40];
  snprintf(text, sizeof text,
           "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
           b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

void read_fabric_info(const Functions& functions, nvml_abi::Handle device, NvmlGpu* gpu) {
  nvml_abi::FabricV info = {};
  info.version = nvml_abi::kFabricVersion;
  if (!answers(functions.fabric_v, device, &info)) {
    nvml_abi::Fabric older = {};
    if (!answers(functions.fabric, device, &older)) return;
    std::copy(std::begin(older.cluster), std::end(older.cluster), info.cluster);
    info.status = older.status;
    info.clique = older.clique;
    info.state = older.state;
  }
  if (info.state == nvml_abi::kNotStarted) gpu->fabric_fault = "not-started";
  if (info.state == nvml_abi::kInProgress) gpu->fabric_fault = "in-progress";
  if (info.state != nvml_abi::kCompleted) return;
  if (info.status != 0) {
    gpu->fabric_fault = "error-" + std::to_string(info.status);
    return;
  }
  // A node whose NVSwitches are all its own has a fabric, but no cluster.
  const bool cluster = std::any_of(std::begin(info.cluster), std::end(info.cluster),
                                   [](uint8_t byte) { return byte != 0; });
  if (cluster) gpu->clique = cluster_text(info.cluster) + "." + std::to_string(info.clique);
}

}  // namespace

std::vector<NvmlGpu> ask_nvml(const std::vector<std::string>& bus_ids) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  nvml_abi::Init* init;
  Functions functions;
  resolve(library, &init, "nvmlInit_v2", "nvmlInit");
  resolve(library, &functions.by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2",
          "nvmlDeviceGetHandleByPciBusId");
  resolve(library, &functions.uuid, "nvmlDeviceGetUUID");
  resolve(library, &functions.minor, "nvmlDeviceGetMinorNumber");
  resolve(library, &functions.mig_mode, "nvmlDeviceGetMigMode");
  resolve(library, &functions.pair_status, "nvmlDeviceGetP2PStatus");
  resolve(library, &functions.fabric_v, "nvmlDeviceGetGpuFabricInfoV");
  resolve(library, &functions.fabric, "nvmlDeviceGetGpuFabricInfo");
  if (!answers(init)) return {};

  std::vector<NvmlGpu> gpus;
  std::vector<nvml_abi::Handle> devices;
  for (const std::string& bus_id : bus_ids) {
    nvml_abi::Handle device = nullptr;
    if (!answers(functions.by_bus_id, bus_id.c_str(), &device)) continue;
    NvmlGpu gpu;
    gpu.bus_id = bus_id;
    char uuid[96] = {};
    if (answers(functions.uuid, device, uuid, static_cast<uint32_t>(sizeof uuid))) gpu.uuid = uuid;
    uint32_t minor = 0;
    if (answers(functions.minor, device, &minor)) gpu.minor = static_cast<int32_t>(minor);
    uint32_t mode = 0, next_mode = 0;
    gpu.mig = answers(functions.mig_mode, device, &mode, &next_mode) && mode == nvml_abi::kMigOn;
    read_fabric_info(functions, device, &gpu);
    gpus.push_back(std::move(gpu));
    devices.push_back(device);
  }
  // One that NVML cannot see may have links all the same, and one in MIG mode will.
  const bool sliced = std::any_of(gpus.begin(), gpus.end(), [](const NvmlGpu& g) { return g.mig; });
  if (gpus.size() != bus_ids.size() || sliced) return gpus;
  for (size_t a = 0; a < gpus.size(); ++a) {
    std::vector<std::string> linked;
    bool known = true;
    for (size_t b = 0; b < gpus.size(); ++b) {
      if (a == b) continue;
      int status = nvml_abi::kPairUnknown;
      known = known &&
              answers(functions.pair_status, devices[a], devices[b], nvml_abi::kNvlinkCapability,
                      &status) &&
              status != nvml_abi::kPairUnknown;
      if (status == nvml_abi::kPairLinked) linked.push_back(gpus[b].bus_id);
    }
    if (known) gpus[a].nvlinked = std::move(linked);
  }
  return gpus;
}

}  // namespace mfu
