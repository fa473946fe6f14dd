// How train and replay use the fake GPU: as PyTorch does, by dlopen of libcuda.so.1.
#ifndef MFU_TESTS_FAKE_GPU_CLIENT_HH_
#define MFU_TESTS_FAKE_GPU_CLIENT_HH_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fake/gpu_work.hh"

namespace mfu::fake {

// CLOCK_REALTIME in nanoseconds, and a sleep until then.
uint64_t wall_ns();
void sleep_until(uint64_t ns);

// Value of SLURM_PROCID or another number in the environment; `otherwise` when it is not set.
int environment_number(const char* variable, int otherwise);
// `path` with every "%r" and "%d" replaced by these numbers.
std::string numbered_path(std::string path, int rank, int device);

class GpuClient {
 public:
  // cuInit and the primary contexts of all visible devices. Throws std::runtime_error.
  GpuClient();

  int device_count() const { return static_cast<int>(contexts_.size()); }
  std::string device_name(CUdevice device) const;

  // Submits a little before the operation starts, as a program that runs ahead of its GPU: blocks
  // until then. Throws std::runtime_error.
  void submit(const GpuOperation& operation) const;

  // Returns when everything that was submitted has ended.
  void synchronize() const;

 private:
  template <typename Function>
  Function find(const char* name) const;
  void check(CUresult result, const char* what) const;

  void* library_;
  decltype(&fakeGpuSubmit) submit_;
  decltype(&cuCtxSetCurrent) set_current_;
  decltype(&cuCtxSynchronize) synchronize_;
  std::vector<CUcontext> contexts_;  // by device
};

}  // namespace mfu::fake

#endif
