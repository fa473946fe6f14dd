#include "profiler/cublas_precision.hh"

#include <cublas_api.h>
#include <stdlib.h>
#include <string.h>

namespace mfu::cublas_precision {
namespace {

constinit bool tf32_forbidden = false;
// Single or double precision is emulated also where no mode and no compute type says so.
constinit bool single_emulated = false;
constinit bool double_emulated = false;

// What else a math mode says than one of the first four: since CUDA 12.9.
constexpr int kModes = 7;
constexpr int kDoubleEmulated = 8;  // CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH

bool is_switched_on(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && value[0] != '\0' && strcmp(value, "0") != 0;
}

bool is_complex(int type) {
  switch (type) {
    case CUDA_C_16F:
    case CUDA_C_16BF:
    case CUDA_C_32F:
    case CUDA_C_64F:
    case CUDA_C_8I:
    case CUDA_C_8U:
      return true;
    default:
      return false;
  }
}

Precision single_precision(const Types& types) {
  const Precision tf32 = tf32_forbidden ? Precision::kFp32 : Precision::kTf32;
  switch (types.compute) {
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return Precision::kFp16;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return Precision::kBf16;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return tf32;
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return Precision::kFp32;
    case CUBLAS_COMPUTE_32F:
      break;
    default:  // emulated, by 3 x 3 bf16 multiplications
      return Precision::kUnknown;
  }
  switch (types.math & kModes) {  // beyond are flags; 4 is one, too: emulated
    case CUBLAS_DEFAULT_MATH:
      return single_emulated ? Precision::kUnknown : Precision::kFp32;
    case CUBLAS_PEDANTIC_MATH:
      return Precision::kFp32;
    case CUBLAS_TENSOR_OP_MATH:
      return Precision::kFp16;
    case CUBLAS_TF32_TENSOR_OP_MATH:
      return tf32;
    default:
      return Precision::kUnknown;
  }
}

// Of numbers of this type, where the arithmetic is not of another one.
Precision precision_of(int type, const Types& types) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_C_16F:
      return Precision::kFp16;
    case CUDA_R_16BF:
    case CUDA_C_16BF:
      return Precision::kBf16;
    case CUDA_R_32F:
    case CUDA_C_32F:
      return single_precision(types);
    case CUDA_R_64F:
    case CUDA_C_64F: {
      // Emulated, it computes with int8.
      if (types.compute == CUBLAS_COMPUTE_64F_PEDANTIC) return Precision::kFp64;
      const bool emulated = double_emulated || (types.math & kDoubleEmulated) != 0;
      const bool plain = types.compute == CUBLAS_COMPUTE_64F && !emulated;
      return plain ? Precision::kFp64 : Precision::kUnknown;
    }
    case CUDA_R_8I:
    case CUDA_R_8U: {
      const bool integer =
          types.compute == CUBLAS_COMPUTE_32I || types.compute == CUBLAS_COMPUTE_32I_PEDANTIC;
      return integer ? Precision::kInt8 : Precision::kUnknown;
    }
    case 28:  // CUDA_R_8F_E4M3
    case 29:  // CUDA_R_8F_E5M2
      return Precision::kFp8;
    case 33:  // CUDA_R_4F_E2M1, since CUDA 12.8
      return Precision::kFp4;
    default:
      return Precision::kUnknown;
  }
}

}  // namespace

void read_environment() {
  const char* tf32 = getenv("NVIDIA_TF32_OVERRIDE");  // 0 forbids it to all NVIDIA libraries
  tf32_forbidden = tf32 != nullptr && strcmp(tf32, "0") == 0;
  single_emulated = is_switched_on("CUBLAS_EMULATE_SINGLE_PRECISION");
  double_emulated = is_switched_on("CUBLAS_EMULATE_DOUBLE_PRECISION");
}

bool depends_on_math(int type) {
  return type == CUDA_R_32F || type == CUDA_C_32F || type == CUDA_R_64F || type == CUDA_C_64F;
}

void set(const Types& types, GemmShape* shape) {
  const Precision a = precision_of(types.a, types);
  shape->precision = precision_of(types.b, types) == a ? a : Precision::kUnknown;
  shape->complex = is_complex(types.a);
}

}  // namespace mfu::cublas_precision
