#include "kernels/gpu.hh"

#include <stdexcept>

namespace mfu {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

std::vector<Gpu> visible_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "no CUDA device");
  if (count == 0) throw std::runtime_error("no CUDA device: none is visible");
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "properties of the device");
    gpus.push_back({ordinal, properties.name, 10 * properties.major + properties.minor,
                    properties.multiProcessorCount});
  }
  return gpus;
}

void use(const Gpu& gpu) {
  check(cudaSetDevice(gpu.ordinal), "cudaSetDevice");
}

CudaOwner<void*> device_memory(size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "memory of the device");
  return CudaOwner<void*>(memory);
}

CudaOwner<cudaStream_t> new_stream(bool urgent) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
        "a stream");
  return CudaOwner<cudaStream_t>(stream);
}

CudaOwner<cudaEvent_t> new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "an event");
  return CudaOwner<cudaEvent_t>(event);
}

void record(cudaEvent_t event, cudaStream_t stream) {
  check(cudaEventRecord(event, stream), "cudaEventRecord");
}

void wait(cudaStream_t stream, cudaEvent_t event) {
  check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

void finish(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "work on the device");
}

double seconds_between(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace mfu
