// Of the kernels that ran on a device: those that multiply matrices, and what is known of their
// FLOPs. What cuBLAS was called for is counted per process (gemm_calls.hh); attention kernels tell
// theirs by name and grid (attention_flops.hh); the rest multiplies by its name and tells nothing.
#ifndef MFU_PROFILER_COUNTED_KERNELS_HH_
#define MFU_PROFILER_COUNTED_KERNELS_HH_

#include <cstdint>
#include <type_traits>

#include "profiler/gemm_calls.hh"

namespace mfu {

// Of a device, or summed over several. Times are sums of kernels' durations.
struct CountedKernels {
  uint64_t gemm_kernels = 0;  // GEMMs by their names that cuBLAS may have been called for
  uint64_t gemm_ns = 0;
  uint64_t graph_gemm_kernels = 0;  // of gemm_kernels: nodes of CUDA graphs
  uint64_t attention_kernels = 0;   // whose FLOPs are known
  uint64_t attention_ns = 0;
  FlopSum attention_flops;        // executed
  FlopSum attention_model_flops;  // without what was recomputed
  // Other attention, convolutions, and GEMMs of other libraries, by their names: nobody counts
  // their FLOPs.
  uint64_t uncounted_kernels = 0;
  uint64_t uncounted_ns = 0;
};
static_assert(std::is_trivially_copyable_v<CountedKernels>);
static_assert(std::has_unique_object_representations_v<CountedKernels>);

// Why hostile bytes are no CountedKernels, or nullptr.
const char* counted_kernels_fault(const CountedKernels& counted);

// Model FLOPs are not told from counts when kernels beyond them, which multiply by their names,
// hold more of the compute kernels' time, nor when what is counted holds less than half of it: then
// no figure is told.
inline constexpr double kMostUncountedTime = 0.01;
inline constexpr double kLeastCountedTime = 0.5;

// Time of GEMM kernels whose FLOPs are in the sums: all of it where there are at least as many
// calls that ran as kernels (a call may run a kernel that does not call itself a GEMM), otherwise
// the calls' share: too little where a grouped call runs several, never too much. `gemms`: of the
// process that the kernels are of.
uint64_t counted_gemm_ns(const CountedKernels& kernels, const GemmSums& gemms);

}  // namespace mfu

#endif
