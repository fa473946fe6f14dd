#include "kernels/precision.hh"

#include <stdexcept>

namespace mfu {
namespace {

constexpr FloatFormat kDouble = {11, 52};
constexpr FloatFormat kSingle = {8, 23};
constexpr FloatFormat kHalf = {5, 10};
constexpr FloatFormat kBrain = {8, 7};
constexpr FloatFormat kE4m3 = {4, 3};

// Tensor cores read single precision as tf32, whose mantissa has 10 bits, without a conversion.
constexpr Precision kAll[] = {
    {"fp64", CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, kDouble, kDouble, 60},
    {"fp32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, kSingle, kSingle, 50},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, kSingle, kSingle,
     80},
    {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, kHalf, kHalf, 70},
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, kBrain, kBrain, 80},
    {"fp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, kE4m3, kBrain, 89},
};

}  // namespace

std::span<const Precision> all_precisions() {
  return kAll;
}

const Precision& precision_of(std::string_view name) {
  for (const Precision& precision : kAll) {
    if (name == precision.name) return precision;
  }
  throw std::runtime_error("'" + std::string(name) +
                           "' is no precision; these are: " + precision_names());
}

std::string precision_names() {
  std::string names;
  for (const Precision& precision : kAll) {
    names += (names.empty() ? "" : ", ") + std::string(precision.name);
  }
  return names;
}

}  // namespace mfu
