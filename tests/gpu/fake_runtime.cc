// libcudart.so.13 without a GPU, as far as the programs of kernels/ and fork_client need it:
// streams on which work takes the time that it is said to take, events that tell that time, graphs.
// What runs goes to the fake driver, and so to the fake CUPTI. Memory is the host's, and no kernel
// touches it. The kernel that stands for an all-reduce waits FAKE_GPU_WAIT_US (default 0) for a
// multiprocessor.
#include <cuda.h>
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake/gpu_work.hh"
#include "tests/gpu/fake_stream.hh"

using mfu::fake::fakeGpuSubmit;
using mfu::fake::GpuOperation;
using mfu::fake::GpuWork;

// What cudaEvent_t points to.
struct CUevent_st {
  uint64_t at_ns = 0;
};
// What cudaKernel_t points to.
struct CUkern_st {
  std::string name;
};

namespace {

struct Stream {
  int device = 0;
  uint32_t number = 0;
  uint64_t end_ns = 0;  // of what was enqueued so far
};
struct Kernel {
  uint64_t ns;
  std::string name;
};

struct Runtime {
  std::mutex mutex;
  void* driver = nullptr;
  CUresult initialised = CUDA_ERROR_NOT_INITIALIZED;
  int devices = 0;
  std::map<cudaStream_t, Stream> streams;
  std::map<cudaStream_t, std::vector<Kernel>> captured;  // of the streams in capture
  std::map<cudaGraph_t, std::vector<Kernel>> graphs;
  std::map<cudaGraphExec_t, std::vector<Kernel>> executables;
  std::map<const void*, CUkern_st> kernels;  // by the host's function
};

// Never destroyed: other threads may call while the process exits.
Runtime& runtime() {
  static Runtime& instance = *new Runtime;
  return instance;
}

thread_local int current_device = 0;

struct Launch {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local Launch next_launch;

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_until(uint64_t ns) {
  const timespec until = {static_cast<time_t>(ns / 1'000'000'000),
                          static_cast<long>(ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

template <typename Function>
Function* driver(const char* name) {
  return reinterpret_cast<Function*>(dlsym(runtime().driver, name));
}
#define DRIVER(name) driver<decltype(name)>(#name)

// cudaError_t has the driver's numbers for all that we meet.
cudaError_t error_of(CUresult result) {
  return static_cast<cudaError_t>(result);
}

// As the real one: with the first call of anything.
cudaError_t initialise() {
  Runtime& self = runtime();
  {
    std::lock_guard lock(self.mutex);
    if (self.driver != nullptr) return error_of(self.initialised);
    self.driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (self.driver == nullptr) return cudaErrorInsufficientDriver;
  }
  const CUresult result = DRIVER(cuInit)(0);
  if (result == CUDA_SUCCESS) {
    DRIVER(cuDeviceGetCount)(&self.devices);
    CUcontext context;
    for (int i = 0; i < self.devices; ++i) DRIVER(cuDevicePrimaryCtxRetain)(&context, i);
  }
  self.initialised = result;
  return error_of(result);
}

// The caller holds the lock.
cudaError_t submit(Stream* stream, GpuWork work, uint64_t ns, const char* name, uint64_t node) {
  GpuOperation operation;
  operation.work = work;
  operation.device = stream->device;
  operation.stream = stream->number;
  operation.start_ns = std::max(now_ns(), stream->end_ns);
  operation.end_ns = stream->end_ns = operation.start_ns + ns;
  operation.graph_node = node;
  operation.name = name;
  return error_of(DRIVER(fakeGpuSubmit)(&operation));
}

bool is_captured(cudaStream_t stream) {
  return stream != nullptr && runtime().captured.contains(stream);
}

void await_multiprocessor(cudaStream_t stream) {
  const char* text = std::getenv("FAKE_GPU_WAIT_US");
  if (text == nullptr) return;
  std::lock_guard lock(runtime().mutex);
  uint64_t& end_ns = runtime().streams[stream].end_ns;
  end_ns = std::max(now_ns(), end_ns) + 1000 * std::strtoull(text, nullptr, 10);
}

cudaError_t launch(const CUkern_st& kernel, void** arguments, cudaStream_t stream) {
  uint64_t ns = 1000;
  // The only kernel that says how long it takes.
  if (kernel.name.starts_with("nccl")) {
    std::memcpy(&ns, arguments[0], sizeof(ns));
    await_multiprocessor(stream);
  }
  return fakeStreamRun(stream, ns, kernel.name.c_str());
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cudaError_t fakeStreamRun(cudaStream_t stream, uint64_t ns, const char* name) {
  Runtime& self = runtime();
  std::lock_guard lock(self.mutex);
  if (is_captured(stream)) {
    self.captured[stream].push_back({ns, name});
    return cudaSuccess;
  }
  return submit(&self.streams[stream], GpuWork::kKernel, ns, name, 0);
}

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t result = initialise();
  *count = result == cudaSuccess ? runtime().devices : 0;
  return result;
}
cudaError_t cudaSetDevice(int device) {
  const cudaError_t result = initialise();
  if (result != cudaSuccess) return result;
  if (device < 0 || device >= runtime().devices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  DRIVER(cuDeviceGetName)(properties->name, sizeof(properties->name), device);
  const auto attribute = [&](int* out, CUdevice_attribute which) {
    DRIVER(cuDeviceGetAttribute)(out, which, device);
  };
  attribute(&properties->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  attribute(&properties->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  attribute(&properties->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver) {
    return "CUDA driver version is insufficient for CUDA runtime version";
  }
  const char* text = nullptr;
  DRIVER(cuGetErrorString)(static_cast<CUresult>(error), &text);
  return text != nullptr ? text : "unrecognized error code";
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, size_t bytes) {
  const cudaError_t result = initialise();
  if (result != cudaSuccess) return result;
  *out = std::malloc(bytes);  // untouched pages cost nothing
  return *out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemset(void*, int, size_t) {
  std::lock_guard lock(runtime().mutex);
  Stream& stream = runtime().streams[nullptr];
  stream.device = current_device;
  return submit(&stream, GpuWork::kMemset, 1000, nullptr, 0);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned int flags, int) {
  const CUresult result = DRIVER(cuStreamCreate)(out, flags);
  std::lock_guard lock(runtime().mutex);
  const auto number = static_cast<uint32_t>(runtime().streams.size());
  runtime().streams[*out] = {current_device, 7 + number, 0};
  return error_of(result);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard lock(runtime().mutex);
  runtime().streams.erase(stream);
  return error_of(DRIVER(cuStreamDestroy_v2)(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  uint64_t end_ns;
  {
    std::lock_guard lock(runtime().mutex);
    end_ns = runtime().streams[stream].end_ns;
  }
  sleep_until(end_ns);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  uint64_t end_ns = 0;
  {
    std::lock_guard lock(runtime().mutex);
    for (const auto& [handle, stream] : runtime().streams) {
      if (stream.device == current_device) end_ns = std::max(end_ns, stream.end_ns);
    }
  }
  sleep_until(end_ns);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  std::lock_guard lock(runtime().mutex);
  uint64_t& end_ns = runtime().streams[stream].end_ns;
  end_ns = std::max(end_ns, event->at_ns);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  *out = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::lock_guard lock(runtime().mutex);
  event->at_ns = std::max(now_ns(), runtime().streams[stream].end_ns);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const auto difference = static_cast<int64_t>(end->at_ns - begin->at_ns);
  *milliseconds = static_cast<float>(static_cast<double>(difference) / 1e6);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const CUresult result =
      DRIVER(cuStreamBeginCapture_v2)(stream, static_cast<CUstreamCaptureMode>(mode));
  std::lock_guard lock(runtime().mutex);
  if (result == CUDA_SUCCESS) runtime().captured[stream] = {};
  return error_of(result);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const CUresult result = DRIVER(cuStreamEndCapture)(stream, graph);
  std::lock_guard lock(runtime().mutex);
  if (result == CUDA_SUCCESS) runtime().graphs[*graph] = runtime().captured[stream];
  runtime().captured.erase(stream);
  return error_of(result);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                 unsigned long long flags) {
  const CUresult result = DRIVER(cuGraphInstantiateWithFlags)(out, graph, flags);
  std::lock_guard lock(runtime().mutex);
  if (result == CUDA_SUCCESS) runtime().executables[*out] = runtime().graphs[graph];
  return error_of(result);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  CUresult result = DRIVER(cuGraphLaunch)(graph, stream);
  std::lock_guard lock(runtime().mutex);
  uint64_t node = 0;
  for (const Kernel& kernel : runtime().executables[graph]) {
    if (result != CUDA_SUCCESS) break;
    result = static_cast<CUresult>(submit(&runtime().streams[stream], GpuWork::kKernel, kernel.ns,
                                          kernel.name.c_str(), ++node));
  }
  return error_of(result);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::lock_guard lock(runtime().mutex);
  runtime().graphs.erase(graph);
  return error_of(DRIVER(cuGraphDestroy)(graph));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  std::lock_guard lock(runtime().mutex);
  runtime().executables.erase(graph);
  return error_of(DRIVER(cuGraphExecDestroy)(graph));
}

// What nvcc's code calls: kernels are registered before main().
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  std::lock_guard lock(runtime().mutex);
  runtime().kernels[host].name = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  next_launch = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = next_launch.grid;
  *block = next_launch.block;
  *shared = next_launch.shared;
  *static_cast<cudaStream_t*>(stream) = next_launch.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  std::lock_guard lock(runtime().mutex);
  *kernel = &runtime().kernels[host];
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void** arguments, size_t,
                               cudaStream_t stream) {
  return launch(*kernel, arguments, stream);
}
cudaError_t cudaLaunchKernel(const void* host, dim3, dim3, void** arguments, size_t,
                             cudaStream_t stream) {
  return launch(runtime().kernels[host], arguments, stream);
}
}
#pragma GCC visibility pop
