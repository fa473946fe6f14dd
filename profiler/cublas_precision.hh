// At which precision cuBLAS multiplies, told from what a call hands over. Part of cublas_gate.hh:
// no other file includes cuBLAS's headers.
//
// What is not surely one of our precisions is unknown: emulated single precision (bf16 nine times)
// and double precision (int8), inputs of two different precisions, int8 computed as float.
#ifndef MFU_PROFILER_CUBLAS_PRECISION_HH_
#define MFU_PROFILER_CUBLAS_PRECISION_HH_

#include "profiler/gemm_calls.hh"

namespace mfu::cublas_precision {

struct Types {
  int a;  // cudaDataType of the inputs
  int b;
  int compute;  // cublasComputeType_t
  int math;     // cublasMath_t of the handle; cublasLt has none: 0
};

// NVIDIA_TF32_OVERRIDE, CUBLAS_EMULATE_SINGLE_PRECISION and CUBLAS_EMULATE_DOUBLE_PRECISION.
void read_environment();
// Single and double precision are computed as the handle says.
bool depends_on_math(int type);
// Fills in the precision, and whether the numbers are complex.
void set(const Types& types, GemmShape* shape);

}  // namespace mfu::cublas_precision

#endif
