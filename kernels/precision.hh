// The precisions at which cublasLt multiplies, as mfu-peak and mfu-overlap name them.
#ifndef MFU_KERNELS_PRECISION_HH_
#define MFU_KERNELS_PRECISION_HH_

#include <cublasLt.h>

#include <span>
#include <string>
#include <string_view>

#include "kernels/device_code.hh"

namespace mfu {

struct Precision {
  const char* name;
  cudaDataType_t input;
  cudaDataType_t output;
  cublasComputeType_t compute;
  cudaDataType_t scale;  // of alpha and beta
  FloatFormat format;    // of the input
  FloatFormat result;    // of the output
  int least_capability;  // 10 * major + minor of the first GPUs that have it in hardware
};

// fp64, fp32, tf32, fp16, bf16, fp8 (e4m3).
std::span<const Precision> all_precisions();
// Throws std::runtime_error for a name that is none of them.
const Precision& precision_of(std::string_view name);
// "fp64, fp32, ..."
std::string precision_names();

}  // namespace mfu

#endif
