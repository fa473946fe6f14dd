#include "profiler/cupti_gate.hh"

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <string.h>

#include "profiler/cupti_library.hh"
#include "profiler/object_walk.hh"

namespace mfu::cupti {
namespace {

// The records' prefix is the same in every layout since CUDA 11.0 (Kernel4 to Kernel10, Memcpy3 to
// 6, PtoP to PtoP4, Memset2 to 4): what we read lies in it, whatever version wrote the record.
static_assert(offsetof(CUpti_ActivityKernel10, start) == 16);
static_assert(offsetof(CUpti_ActivityKernel10, end) == 24);
static_assert(offsetof(CUpti_ActivityKernel10, deviceId) == 40);
static_assert(offsetof(CUpti_ActivityKernel10, streamId) == 48);
static_assert(offsetof(CUpti_ActivityKernel10, gridX) == 52);
static_assert(offsetof(CUpti_ActivityKernel10, correlationId) == 92);
static_assert(offsetof(CUpti_ActivityKernel10, name) == 104);
static_assert(offsetof(CUpti_ActivityKernel10, graphNodeId) == 144);  // since CUDA 11.1
static_assert(offsetof(CUpti_ActivityMemcpy6, start) == 16);
static_assert(offsetof(CUpti_ActivityMemcpy6, deviceId) == 32);
static_assert(offsetof(CUpti_ActivityMemcpy6, streamId) == 40);
static_assert(offsetof(CUpti_ActivityMemcpy6, correlationId) == 44);
static_assert(offsetof(CUpti_ActivityMemcpyPtoP4, start) == 16);
static_assert(offsetof(CUpti_ActivityMemcpyPtoP4, deviceId) == 32);
static_assert(offsetof(CUpti_ActivityMemcpyPtoP4, streamId) == 40);
static_assert(offsetof(CUpti_ActivityMemcpyPtoP4, correlationId) == 60);
static_assert(offsetof(CUpti_ActivityMemset4, start) == 16);
static_assert(offsetof(CUpti_ActivityMemset4, deviceId) == 32);
static_assert(offsetof(CUpti_ActivityMemset4, streamId) == 40);
static_assert(offsetof(CUpti_ActivityMemset4, correlationId) == 44);

struct Functions {
  decltype(&cuptiGetVersion) get_version;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) get_next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped;
  decltype(&cuptiActivitySetAttribute) set_attribute;
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiUnsubscribe) unsubscribe;
};

constinit Functions functions{};
constinit void* library = nullptr;
constinit BufferCallbacks client{};
constinit uint32_t api_version = 0;  // as version() found it

template <typename F>
void resolve(void* from, const char* name, F* out) {
  *out = reinterpret_cast<F>(dlsym(from, name));
}

// A library that the process has mapped already, under whatever path.
void* mapped_library(const char* prefix) {
  char found[4096];
  const bool none = for_each_object([&](const dl_phdr_info& info) {
    const char* path = info.dlpi_name;
    if (path == nullptr || strlen(path) >= sizeof(found)) return true;
    const char* slash = strrchr(path, '/');
    const char* base = slash != nullptr ? slash + 1 : path;
    if (strncmp(base, prefix, strlen(prefix)) != 0) return true;
    strcpy(found, path);
    return false;
  });
  return none ? nullptr : dlopen(found, RTLD_NOW | RTLD_NOLOAD);
}

CUpti_ActivityKind cupti_kind(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::kKernel:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case ActivityKind::kMemcpy:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case ActivityKind::kMemcpyPeer:
      return CUPTI_ACTIVITY_KIND_MEMCPY2;
    case ActivityKind::kMemset:
      return CUPTI_ACTIVITY_KIND_MEMSET;
    case ActivityKind::kOther:
      break;
  }
  return CUPTI_ACTIVITY_KIND_INVALID;
}

// Field by field: a whole struct, made and then copied, would be read back before it is stored.
// What kernels alone have is nothing here.
template <typename Record>
void copy(ActivityKind kind, const Record& record, Activity* out) {
  out->kind = kind;
  out->start_ns = record.start;
  out->end_ns = record.end;
  out->device = record.deviceId;
  out->stream = record.streamId;
  out->correlation = record.correlationId;
  out->grid[0] = out->grid[1] = out->grid[2] = 0;
  out->graph_node = 0;
  out->name = nullptr;
}

void CUPTIAPI on_requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = 0;  // as many as fit
  client.requested(buffer, size);
}

void CUPTIAPI on_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                           size_t valid) {
  client.completed(context, stream, buffer, size, valid);
}

}  // namespace

bool load(const char* path) {
  library = open_library(path);
  if (library == nullptr) return false;
  resolve(library, "cuptiGetVersion", &functions.get_version);
  resolve(library, "cuptiActivityRegisterCallbacks", &functions.register_callbacks);
  resolve(library, "cuptiActivityEnable", &functions.enable);
  resolve(library, "cuptiActivityDisable", &functions.disable);
  resolve(library, "cuptiActivityFlushAll", &functions.flush_all);
  resolve(library, "cuptiActivityGetNextRecord", &functions.get_next_record);
  resolve(library, "cuptiActivityGetNumDroppedRecords", &functions.get_dropped);
  resolve(library, "cuptiActivitySetAttribute", &functions.set_attribute);
  resolve(library, "cuptiSubscribe", &functions.subscribe);
  resolve(library, "cuptiUnsubscribe", &functions.unsubscribe);
  return true;
}

void* function(const char* name) {
  return library != nullptr ? dlsym(library, name) : nullptr;
}

uint32_t number_of(ActivityKind kind) {
  return cupti_kind(kind);
}

int version(uint32_t* out) {
  int result = functions.get_version != nullptr ? functions.get_version(out) : kNoLibrary;
  if (result == 0) api_version = *out;
  return result;
}

int register_callbacks(const BufferCallbacks& callbacks) {
  client = callbacks;
  return functions.register_callbacks != nullptr
             ? functions.register_callbacks(on_requested, on_completed)
             : kNoLibrary;
}

int enable(ActivityKind kind) {
  return functions.enable != nullptr ? functions.enable(cupti_kind(kind)) : kNoLibrary;
}

int disable(ActivityKind kind) {
  return functions.disable != nullptr ? functions.disable(cupti_kind(kind)) : kNoLibrary;
}

int probe_subscription() {
  if (functions.subscribe == nullptr || functions.unsubscribe == nullptr) return kNoLibrary;
  CUpti_SubscriberHandle handle = nullptr;
  auto nothing = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  int result = functions.subscribe(&handle, nothing, nullptr);
  if (result == CUPTI_SUCCESS) functions.unsubscribe(handle);
  return result;
}

void promise_zeroed_buffers(bool zeroed) {
  if (functions.set_attribute == nullptr) return;
  uint8_t value = zeroed ? 1 : 0;
  size_t size = sizeof(value);
  functions.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &value);
}

int flush(bool forced) {
  if (functions.flush_all == nullptr) return kNoLibrary;
  return functions.flush_all(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
}

int dropped(void* context, uint32_t stream, uint64_t* out) {
  if (functions.get_dropped == nullptr) return kNoLibrary;
  size_t count = 0;
  int result = functions.get_dropped(static_cast<CUcontext>(context), stream, &count);
  *out = result == CUPTI_SUCCESS ? count : 0;
  return result;
}

bool next(uint8_t* buffer, size_t valid, void** cursor, Activity* out, int* result) {
  if (functions.get_next_record == nullptr) {
    *result = kNoLibrary;
    return false;
  }
  auto* record = static_cast<CUpti_Activity*>(*cursor);
  int code = functions.get_next_record(buffer, valid, &record);
  if (code != CUPTI_SUCCESS) {
    *result = code == CUPTI_ERROR_MAX_LIMIT_REACHED ? 0 : code;
    return false;
  }
  *cursor = record;
  *result = 0;
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      copy(ActivityKind::kKernel, *kernel, out);
      out->grid[0] = static_cast<uint32_t>(kernel->gridX);
      out->grid[1] = static_cast<uint32_t>(kernel->gridY);
      out->grid[2] = static_cast<uint32_t>(kernel->gridZ);
      out->graph_node = api_version > kOldestVersion ? kernel->graphNodeId : 0;
      out->name = kernel->name;
      return true;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      copy(ActivityKind::kMemcpy, *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record), out);
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      copy(ActivityKind::kMemcpyPeer, *reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record),
           out);
      return true;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      copy(ActivityKind::kMemset, *reinterpret_cast<const CUpti_ActivityMemset4*>(record), out);
      return true;
    default:
      *out = {.kind = ActivityKind::kOther};
      return true;
  }
}

bool identify(uint32_t ordinal, DeviceIdentity* out) {
  void* driver = mapped_library("libcuda.so");
  if (driver == nullptr) return false;
  CUresult (*get)(CUdevice*, int);
  CUresult (*get_name)(char*, int, CUdevice);
  CUresult (*get_uuid)(CUuuid*, CUdevice);
  CUresult (*get_pci)(char*, int, CUdevice);
  CUresult (*get_attribute)(int*, CUdevice_attribute, CUdevice);
  resolve(driver, "cuDeviceGet", &get);
  resolve(driver, "cuDeviceGetName", &get_name);
  resolve(driver, "cuDeviceGetUuid_v2", &get_uuid);  // of the MIG instance, where there is one
  if (get_uuid == nullptr) resolve(driver, "cuDeviceGetUuid", &get_uuid);
  resolve(driver, "cuDeviceGetPCIBusId", &get_pci);
  resolve(driver, "cuDeviceGetAttribute", &get_attribute);
  if (get == nullptr || get_name == nullptr || get_uuid == nullptr || get_attribute == nullptr) {
    return false;
  }
  *out = {};
  CUdevice device;
  CUuuid uuid;
  if (get(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS) return false;
  if (get_name(out->name, sizeof(out->name), device) != CUDA_SUCCESS) return false;
  if (get_uuid(&uuid, device) != CUDA_SUCCESS) return false;
  memcpy(out->uuid, uuid.bytes, sizeof(out->uuid));
  out->name[sizeof(out->name) - 1] = '\0';
  if (get_pci != nullptr) {
    get_pci(out->pci_bus_id, sizeof(out->pci_bus_id), device);
    out->pci_bus_id[sizeof(out->pci_bus_id) - 1] = '\0';
  }
  int value = 0;
  if (get_attribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS) {
    out->sm_count = static_cast<uint32_t>(value);
  }
  int major = 0;
  int minor = 0;
  if (get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS &&
      get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) == CUDA_SUCCESS) {
    out->compute_capability = static_cast<uint32_t>(10 * major + minor);
  }
  return true;
}

}  // namespace mfu::cupti
