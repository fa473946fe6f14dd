// What a workload hands to the fake GPU, and what the fake CUPTI sees of it.
//
// These symbols exist only in the fake libcuda.so.1. Callers find them with dlsym; a real driver
// does not have them. All times are CLOCK_REALTIME nanoseconds.
#ifndef MFU_TESTS_FAKE_GPU_WORK_HH_
#define MFU_TESTS_FAKE_GPU_WORK_HH_

#include <cuda.h>

#include <cstdint>

namespace mfu::fake {

enum class GpuWork : uint32_t { kKernel, kMemcpy, kMemcpyPeer, kMemset };

// One operation with its whole life already decided: the device runs it from start_ns to end_ns,
// and it is complete once real time has reached end_ns. An operation may be submitted late (its
// times already past); it is then complete at once.
struct GpuOperation {
  GpuWork work = GpuWork::kKernel;
  uint32_t stream = 7;          // CUPTI's stream id; the null stream of a torch process is 7
  CUdevice device = 0;          // ordinal
  CUcontext context = nullptr;  // nullptr: the device's primary context, which must be retained
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;           // >= start_ns
  uint64_t graph_node = 0;       // 0: not part of a CUDA graph
  uint32_t correlation = 0;      // 0: the driver numbers it
  uint32_t copy_kind = 0;        // CUpti_ActivityMemcpyKind; of a copy only
  uint64_t bytes = 0;            // of a copy or memset
  CUdevice peer = 0;             // destination device of a peer copy
  uint32_t grid[3] = {1, 1, 1};  // of a kernel
  uint32_t block[3] = {1, 1, 1};
  const char* name = nullptr;  // of a kernel; read during the call only
};

// Called in the submitting thread with `context` and `correlation` resolved, before the
// submission returns. It takes no lock of the driver.
using GpuObserver = void (*)(const GpuOperation& operation, uint32_t context_id);

extern "C" {
// CUDA_ERROR_INVALID_CONTEXT, _DEVICE or _VALUE for an operation that names none.
CUresult fakeGpuSubmit(const mfu::fake::GpuOperation* operation);
// One observer a process; nullptr takes it away.
void fakeGpuObserve(mfu::fake::GpuObserver observer);
// nullptr: the calling thread's current context.
CUresult fakeGpuContextDevice(CUcontext context, CUdevice* device);
}

}  // namespace mfu::fake

#endif
