// What mfu-peak and mfu-overlap run on the GPU beside cuBLAS's and NCCL's kernels.
#ifndef MFU_KERNELS_DEVICE_CODE_HH_
#define MFU_KERNELS_DEVICE_CODE_HH_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mfu {

// A binary floating-point number: sign, exponent, mantissa. Its exponent is biased as IEEE 754 has
// it: by 2^(exponent_bits - 1) - 1.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;

  constexpr int bytes() const { return (1 + exponent_bits + mantissa_bits) / 8; }
};

// Fills `count` numbers with random ones, uniform in (-1, 1), none of them denormal. Constant data
// would not do: a GPU draws less power with it, clocks higher and shows a rate that no program has.
cudaError_t fill_uniform(void* numbers, uint64_t count, FloatFormat format, uint64_t seed,
                         cudaStream_t stream);

// Keeps one warp busy for `ns` nanoseconds. Profilers take it for an all-reduce of NCCL: its kernel
// has such a name.
cudaError_t stand_in_all_reduce(uint64_t ns, cudaStream_t stream);

}  // namespace mfu

#endif
