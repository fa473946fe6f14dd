// Matrix multiplications, told from a kernel's name: the vocabularies in which libraries write the
// types that they multiply.
//
// One rule: only what the name states. A wrong precision is a wrong peak and so a wrong MFU, an
// unknown one is shown as unknown.
#ifndef MFU_PROFILER_GEMM_NAME_HH_
#define MFU_PROFILER_GEMM_NAME_HH_

#include <string_view>

#include "profiler/kernel.hh"

namespace mfu {

bool is_gemm(std::string_view name);

// Of a kernel that is_gemm(): see KernelKind.
bool ends_gemm(std::string_view name);
bool is_foreign_gemm(std::string_view name);

// Of the inputs of a kernel that is_gemm().
Precision gemm_precision(std::string_view name);

}  // namespace mfu

#endif
