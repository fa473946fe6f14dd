// What a GPU kernel is, told from its name: communication or compute, which collective, and, for
// matrix multiplications, the precision of their inputs.
//
// Runs inside the injected library: no C++ runtime, no allocation, no locale.
#ifndef MFU_PROFILER_KERNEL_HH_
#define MFU_PROFILER_KERNEL_HH_

#include <cstdint>
#include <string_view>

namespace mfu {

// Precision of a matrix multiplication's inputs: it selects the peak.
enum class Precision : uint8_t { kUnknown, kFp64, kFp32, kTf32, kFp16, kBf16, kInt8, kFp8, kFp4 };
inline constexpr int kPrecisions = 9;

// "fp64", "tf32", ... as in the accounting line and in options; "unknown" for kUnknown.
const char* precision_name(Precision precision);
// kUnknown for a name that is none of the above.
Precision precision_from_name(std::string_view name);

enum class Collective : uint8_t {
  kNone,  // a compute kernel
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSendReceive,
  kAllToAll,  // expert-parallel dispatch and combine (DeepEP and relatives)
  kOther,     // communication whose collective the name does not tell (generic, barriers, NVSHMEM)
};
inline constexpr int kCollectives = 9;
const char* collective_name(Collective collective);

struct KernelKind {
  bool communication = false;
  Collective collective = Collective::kNone;
  bool gemm = false;  // a matrix multiplication (cuBLAS, CUTLASS, nvjet, Triton's named ones)
  Precision precision = Precision::kUnknown;  // of a gemm only
  bool multiplies : 1 = false;  // no gemm, yet it multiplies matrices: attention or a convolution
  // Of a gemm: no product of its own, but the end of one that another kernel began (split-K); by
  // its name of another library than cuBLAS.
  bool ends_gemm : 1 = false;
  bool foreign_gemm : 1 = false;
};

// Mangled or demangled names, any NCCL generation. Unknown names are compute.
KernelKind classify_kernel(std::string_view name);

}  // namespace mfu

#endif
