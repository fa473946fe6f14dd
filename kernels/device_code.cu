#include "kernels/device_code.hh"

namespace {

constexpr int kBlocks = 1024;
constexpr int kThreads = 256;

// The finalizer of splitmix64.
__device__ uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Half of all uniform numbers below 1 lie above 1/2, a quarter above 1/4, ...: the exponent falls
// by one for every leading zero of random bits.
__device__ uint64_t uniform(uint64_t bits, mfu::FloatFormat format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int zeros = __clz(static_cast<int>((bits & 0x7ff) << 21 | 1 << 20));
  const uint64_t exponent = bias - 1 - min(zeros, bias - 2);
  const uint64_t mantissa = (bits >> 11) & ((uint64_t{1} << format.mantissa_bits) - 1);
  return ((bits >> 63) << format.exponent_bits | exponent) << format.mantissa_bits | mantissa;
}

__global__ void fill(void* numbers, uint64_t count, mfu::FloatFormat format, uint64_t seed) {
  for (uint64_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += kBlocks * kThreads) {
    const uint64_t number = uniform(mixed(seed + (i + 1) * 0x9e3779b97f4a7c15), format);
    switch (1 + format.exponent_bits + format.mantissa_bits) {
      case 8:
        static_cast<uint8_t*>(numbers)[i] = number;
        break;
      case 16:
        static_cast<uint16_t*>(numbers)[i] = number;
        break;
      case 32:
        static_cast<uint32_t*>(numbers)[i] = number;
        break;
      default:
        static_cast<uint64_t*>(numbers)[i] = number;
    }
  }
}

__device__ uint64_t now_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace

extern "C" __global__ void ncclDevKernel_AllReduce_Sum_f32_RING_LL(uint64_t ns) {
  const uint64_t end_ns = now_ns() + ns;
  while (now_ns() < end_ns) __nanosleep(100);
}

namespace mfu {

cudaError_t fill_uniform(void* numbers, uint64_t count, FloatFormat format, uint64_t seed,
                         cudaStream_t stream) {
  fill<<<kBlocks, kThreads, 0, stream>>>(numbers, count, format, seed);
  return cudaGetLastError();
}

cudaError_t stand_in_all_reduce(uint64_t ns, cudaStream_t stream) {
  ncclDevKernel_AllReduce_Sum_f32_RING_LL<<<1, 32, 0, stream>>>(ns);
  return cudaGetLastError();
}

}  // namespace mfu
