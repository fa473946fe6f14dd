// The one door to cuBLAS and cublasLt, which nobody else includes: replacements of all their matrix
// multiplications (got_patch.hh) that pass the call on and, if it succeeded, tell gemm_counter.hh
// what it multiplied. Nothing is linked: functions are found in the process.
//
// Headers of CUDA 12.5 or later; libraries of CUDA 11 or later.
#ifndef MFU_PROFILER_CUBLAS_GATE_HH_
#define MFU_PROFILER_CUBLAS_GATE_HH_

#include <cstddef>

#include "profiler/got_patch.hh"

namespace mfu::cublas_gate {

const GotPatch::Symbol* symbols(size_t* count);
// The functions themselves, in the libraries that are there by now.
void find_functions();

}  // namespace mfu::cublas_gate

#endif
