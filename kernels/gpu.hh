// The CUDA runtime as mfu-peak and mfu-overlap use it: what fails throws std::runtime_error, and
// what was made is destroyed with its owner.
#ifndef MFU_KERNELS_GPU_HH_
#define MFU_KERNELS_GPU_HH_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace mfu {

// "WHAT: CUDA's words" if `result` is an error.
void check(cudaError_t result, const char* what);

struct Gpu {
  int ordinal = 0;  // among the visible ones
  std::string name;
  int capability = 0;  // 10 * major + minor
  int multiprocessors = 0;
};
// All that are visible. Throws "no CUDA device: why" where there is none.
std::vector<Gpu> visible_gpus();
// The thread's further calls go to this one.
void use(const Gpu& gpu);

struct CudaDeleter {
  void operator()(void* memory) const { cudaFree(memory); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
template <typename Handle>
using CudaOwner = std::unique_ptr<std::remove_pointer_t<Handle>, CudaDeleter>;

// All of the device in use.
CudaOwner<void*> device_memory(size_t bytes);
// Waits for no other stream. `urgent`: its kernels get free multiprocessors first.
CudaOwner<cudaStream_t> new_stream(bool urgent = false);
CudaOwner<cudaEvent_t> new_event();

void record(cudaEvent_t event, cudaStream_t stream);
// What comes on `stream` waits for the event as it was recorded last.
void wait(cudaStream_t stream, cudaEvent_t event);
// Returns when all of the stream has ended.
void finish(cudaStream_t stream);
// From one event to the other, by the GPU's clock. Both must have passed.
double seconds_between(cudaEvent_t begin, cudaEvent_t end);

}  // namespace mfu

#endif
