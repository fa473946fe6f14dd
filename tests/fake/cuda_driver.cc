// A CUDA driver without a GPU: libcuda.so.1 as far as the profiler and our workloads use it.
//
// The order of events inside cuInit is the part that matters to an injected library: it is loaded
// and initialised while cuInit runs, and until cuInit has returned every other call but
// cuDriverGetVersion says CUDA_ERROR_NOT_INITIALIZED. As with a real driver a child forked after
// cuInit has no usable CUDA.
#include <cuda.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/fake/gpu_model.hh"
#include "tests/fake/gpu_work.hh"

using mfu::fake::GpuModel;
using mfu::fake::GpuObserver;
using mfu::fake::GpuOperation;
using mfu::fake::GpuWork;

// The handle that CUcontext points to.
struct CUctx_st {
  CUdevice device;
  uint32_t id;  // process-unique, from 1
  bool alive = true;
  std::atomic<uint64_t> last_end_ns = 0;
};

namespace {

struct Driver {
  std::mutex mutex;  // guards everything below but the atomics
  bool injected = false;
  std::atomic<pid_t> initialised_pid = 0;
  std::vector<GpuModel> gpus;
  std::vector<std::unique_ptr<CUctx_st>> contexts;  // also dead ones: a handle is never reused
  std::vector<CUctx_st*> primary;
  std::atomic<GpuObserver> observer = nullptr;
  std::atomic<uint32_t> last_correlation = 0;
};

// Never destroyed: other threads may call the driver while the process exits.
Driver& driver() {
  static Driver& instance = *new Driver;
  return instance;
}

thread_local CUcontext current_context = nullptr;

bool initialised() {
  return driver().initialised_pid == getpid();
}

void load_injection() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

// The device's row, or nullptr with *result set.
const GpuModel* gpu_of(CUdevice device, CUresult* result) {
  if (!initialised()) {
    *result = CUDA_ERROR_NOT_INITIALIZED;
    return nullptr;
  }
  std::vector<GpuModel>& gpus = driver().gpus;
  if (device < 0 || static_cast<size_t>(device) >= gpus.size()) {
    *result = CUDA_ERROR_INVALID_DEVICE;
    return nullptr;
  }
  *result = CUDA_SUCCESS;
  return &gpus[static_cast<size_t>(device)];
}

CUctx_st* live_context(CUcontext handle) {
  std::lock_guard lock(driver().mutex);
  for (auto& context : driver().contexts) {
    if (context.get() == handle && context->alive) return context.get();
  }
  return nullptr;
}

CUctx_st* add_context(CUdevice device) {  // the caller holds the mutex
  auto& contexts = driver().contexts;
  contexts.push_back(std::make_unique<CUctx_st>());
  contexts.back()->device = device;
  contexts.back()->id = static_cast<uint32_t>(contexts.size());
  return contexts.back().get();
}

CUresult create_context(CUcontext* out, CUdevice device) {
  CUresult result;
  if (gpu_of(device, &result) == nullptr) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(driver().mutex);
  current_context = *out = add_context(device);
  return CUDA_SUCCESS;
}

template <typename Bytes>
CUresult write_uuid(Bytes* out, CUdevice device) {
  CUresult result;
  const GpuModel* gpu = gpu_of(device, &result);
  if (gpu == nullptr) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = gpu->uuid();
  return CUDA_SUCCESS;
}

CUresult write_text(char* out, int size, const char* text) {
  if (out == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(out, static_cast<size_t>(size), "%s", text);
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
};

const ErrorText* error_text(CUresult error) {
  for (const ErrorText& row : kErrors) {
    if (row.error == error) return &row;
  }
  return nullptr;
}

}  // namespace

// cuda.h declares its functions without a visibility, and the build hides what is not asked for.
#pragma GCC visibility push(default)
extern "C" {

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& self = driver();
  {
    std::lock_guard lock(self.mutex);
    if (self.injected) {
      // A second call waits for nothing: only the forked child of an initialised parent fails.
      if (self.initialised_pid != 0 && !initialised()) return CUDA_ERROR_NOT_INITIALIZED;
      return self.gpus.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
    }
    self.injected = true;
    self.gpus = mfu::fake::visible_gpus();
    self.primary.resize(self.gpus.size());
  }
  load_injection();
  if (self.gpus.empty()) return CUDA_ERROR_NO_DEVICE;
  self.initialised_pid = getpid();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver().gpus.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  CUresult result;
  if (gpu_of(ordinal, &result) == nullptr) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  CUresult result;
  const GpuModel* gpu = gpu_of(dev, &result);
  return gpu == nullptr ? result : write_text(name, len, gpu->name.c_str());
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return write_uuid(uuid, dev);
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  CUresult result;
  const GpuModel* gpu = gpu_of(dev, &result);
  if (gpu == nullptr) return result;
  char text[16];
  std::snprintf(text, sizeof(text), "0000:%02X:00.0", static_cast<unsigned>(gpu->pci_bus()));
  return write_text(pciBusId, len, text);
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  CUresult result;
  const GpuModel* gpu = gpu_of(dev, &result);
  if (gpu == nullptr) return result;
  if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attrib) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *pi = gpu->sm_count;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *pi = gpu->major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *pi = gpu->minor;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *pi = gpu->clock_khz;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *pi = gpu->pci_bus();
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      *pi = 0;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  CUresult result;
  const GpuModel* gpu = gpu_of(dev, &result);
  if (gpu == nullptr) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = gpu->memory_bytes;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams*, unsigned int, CUdevice dev) {
  return create_context(pctx, dev);
}

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int, CUdevice dev) {
  return create_context(pctx, dev);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  CUresult result;
  if (gpu_of(dev, &result) == nullptr) return result;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(driver().mutex);
  CUctx_st*& primary = driver().primary[static_cast<size_t>(dev)];
  if (primary == nullptr) primary = add_context(dev);
  *pctx = primary;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = current_context;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (ctx != nullptr && live_context(ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  current_context = ctx;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  CUctx_st* context = live_context(current_context);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  uint64_t end_ns = context->last_end_ns;
  timespec until = {static_cast<time_t>(end_ns / 1000000000),
                    static_cast<long>(end_ns % 1000000000)};
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  CUctx_st* context = live_context(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(driver().mutex);
  context->alive = false;
  if (current_context == ctx) current_context = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* row = error_text(error);
  *pStr = row != nullptr ? row->text : nullptr;
  return row != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* row = error_text(error);
  *pStr = row != nullptr ? row->name : nullptr;
  return row != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fakeGpuSubmit(const GpuOperation* operation) {
  CUresult result;
  if (operation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (gpu_of(operation->device, &result) == nullptr) return result;
  if (operation->end_ns < operation->start_ns ||
      (operation->work == GpuWork::kKernel && operation->name == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUcontext handle = operation->context;
  if (handle == nullptr) {
    std::lock_guard lock(driver().mutex);
    handle = driver().primary[static_cast<size_t>(operation->device)];
  }
  CUctx_st* context = live_context(handle);
  if (context == nullptr || context->device != operation->device) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  uint64_t last = context->last_end_ns;
  while (last < operation->end_ns &&
         !context->last_end_ns.compare_exchange_weak(last, operation->end_ns)) {
  }
  GpuOperation resolved = *operation;
  resolved.context = handle;
  if (resolved.correlation == 0) resolved.correlation = ++driver().last_correlation;
  if (GpuObserver observer = driver().observer) observer(resolved, context->id);
  return CUDA_SUCCESS;
}

void fakeGpuObserve(GpuObserver observer) {
  driver().observer = observer;
}

CUresult fakeGpuContextDevice(CUcontext context, CUdevice* device) {
  if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  CUctx_st* found = live_context(context != nullptr ? context : current_context);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = found->device;
  return CUDA_SUCCESS;
}

// cuda.h renames the old name to the new symbol; the old symbol exists in a real driver, too.
#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return write_uuid(uuid, dev);
}

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t,
                             CUdriverProcAddressQueryResult* symbolStatus) {
  if (symbol == nullptr || pfn == nullptr || cudaVersion > CUDA_VERSION) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Base name and the first CUDA version that has this variant, newest variant first.
  struct Entry {
    const char* name;
    int since;
    void* function;
  };
  static const Entry kEntries[] = {
      {"cuInit", 2000, reinterpret_cast<void*>(cuInit)},
      {"cuDriverGetVersion", 2020, reinterpret_cast<void*>(cuDriverGetVersion)},
      {"cuDeviceGetCount", 2000, reinterpret_cast<void*>(cuDeviceGetCount)},
      {"cuDeviceGet", 2000, reinterpret_cast<void*>(cuDeviceGet)},
      {"cuDeviceGetName", 2000, reinterpret_cast<void*>(cuDeviceGetName)},
      {"cuDeviceGetUuid", 11040, reinterpret_cast<void*>(cuDeviceGetUuid_v2)},
      {"cuDeviceGetUuid", 9020, reinterpret_cast<void*>(cuDeviceGetUuid)},
      {"cuDeviceGetPCIBusId", 4010, reinterpret_cast<void*>(cuDeviceGetPCIBusId)},
      {"cuDeviceGetAttribute", 2000, reinterpret_cast<void*>(cuDeviceGetAttribute)},
      {"cuDeviceTotalMem", 3020, reinterpret_cast<void*>(cuDeviceTotalMem_v2)},
      {"cuCtxCreate", 13000, reinterpret_cast<void*>(cuCtxCreate_v4)},
      {"cuCtxCreate", 3020, reinterpret_cast<void*>(cuCtxCreate_v2)},
      {"cuCtxGetCurrent", 4000, reinterpret_cast<void*>(cuCtxGetCurrent)},
      {"cuCtxSetCurrent", 4000, reinterpret_cast<void*>(cuCtxSetCurrent)},
      {"cuCtxSynchronize", 2000, reinterpret_cast<void*>(cuCtxSynchronize)},
      {"cuCtxDestroy", 4000, reinterpret_cast<void*>(cuCtxDestroy_v2)},
      {"cuDevicePrimaryCtxRetain", 7000, reinterpret_cast<void*>(cuDevicePrimaryCtxRetain)},
      {"cuGetErrorString", 6000, reinterpret_cast<void*>(cuGetErrorString)},
      {"cuGetErrorName", 6000, reinterpret_cast<void*>(cuGetErrorName)},
      {"cuGetProcAddress", 12000, reinterpret_cast<void*>(cuGetProcAddress_v2)},
  };
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *pfn = nullptr;
  for (const Entry& entry : kEntries) {
    if (*pfn != nullptr || std::strcmp(symbol, entry.name) != 0) continue;
    status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (cudaVersion < entry.since) continue;
    status = CU_GET_PROC_ADDRESS_SUCCESS;
    *pfn = entry.function;
  }
  if (symbolStatus != nullptr) *symbolStatus = status;
  return CUDA_SUCCESS;
}
}
#pragma GCC visibility pop
