#include "tests/fake/gpu_client.hh"

#include <dlfcn.h>
#include <time.h>

#include <cstdlib>
#include <stdexcept>

namespace mfu::fake {
namespace {

constexpr uint64_t kSubmitAheadNs = 5'000'000;

}  // namespace

uint64_t wall_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_until(uint64_t ns) {
  timespec until = {static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

int environment_number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::atoi(value) : otherwise;
}

std::string numbered_path(std::string path, int rank, int device) {
  for (size_t at = path.find('%'); at != path.npos; at = path.find('%', at + 1)) {
    if (path.compare(at, 2, "%r") == 0) path.replace(at, 2, std::to_string(rank));
    if (path.compare(at, 2, "%d") == 0) path.replace(at, 2, std::to_string(device));
  }
  return path;
}

template <typename Function>
Function GpuClient::find(const char* name) const {
  auto function = reinterpret_cast<Function>(dlsym(library_, name));
  if (function == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return function;
}

void GpuClient::check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  find<decltype(&cuGetErrorName)>("cuGetErrorName")(result, &name);
  throw std::runtime_error(std::string(what) + ": " +
                           (name != nullptr ? name : std::to_string(result).c_str()));
}

GpuClient::GpuClient() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw std::runtime_error(dlerror());
  submit_ = find<decltype(submit_)>("fakeGpuSubmit");
  set_current_ = find<decltype(set_current_)>("cuCtxSetCurrent");
  synchronize_ = find<decltype(synchronize_)>("cuCtxSynchronize");
  check(find<decltype(&cuInit)>("cuInit")(0), "cuInit");
  int count = 0;
  check(find<decltype(&cuDeviceGetCount)>("cuDeviceGetCount")(&count), "cuDeviceGetCount");
  auto retain = find<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  contexts_.resize(static_cast<size_t>(count));
  for (int device = 0; device < count; ++device) {
    check(retain(&contexts_[static_cast<size_t>(device)], device), "cuDevicePrimaryCtxRetain");
  }
}

std::string GpuClient::device_name(CUdevice device) const {
  char name[256];
  check(find<decltype(&cuDeviceGetName)>("cuDeviceGetName")(name, sizeof(name), device),
        "cuDeviceGetName");
  return name;
}

void GpuClient::submit(const GpuOperation& operation) const {
  if (operation.start_ns > wall_ns() + kSubmitAheadNs) {
    sleep_until(operation.start_ns - kSubmitAheadNs);
  }
  check(submit_(&operation), "fakeGpuSubmit");
}

void GpuClient::synchronize() const {
  for (CUcontext context : contexts_) {
    check(set_current_(context), "cuCtxSetCurrent");
    check(synchronize_(), "cuCtxSynchronize");
  }
}

}  // namespace mfu::fake
