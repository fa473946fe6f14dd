#include "profiler/counted_kernels.hh"

#include <algorithm>

namespace mfu {
namespace {

constexpr uint64_t kMostCount = uint64_t{1} << 60;  // no process runs as many kernels

}  // namespace

const char* counted_kernels_fault(const CountedKernels& counted) {
  for (const uint64_t value :
       {counted.gemm_kernels, counted.gemm_ns, counted.attention_kernels, counted.attention_ns,
        counted.uncounted_kernels, counted.uncounted_ns, counted.attention_flops.mega,
        counted.attention_model_flops.mega}) {
    if (value > kMostCount) return "too much of counted kernels";
  }
  for (const FlopSum& sum : {counted.attention_flops, counted.attention_model_flops}) {
    if (sum.rest >> FlopSum::kRestBits != 0) return "impossible FLOPs of attention";
    if (counted.attention_kernels == 0 && sum != FlopSum{}) return "FLOPs without attention";
  }
  if (counted.graph_gemm_kernels > counted.gemm_kernels ||
      counted.attention_model_flops.value() > counted.attention_flops.value()) {
    return "counted kernels that contradict each other";
  }
  return nullptr;
}

uint64_t counted_gemm_ns(const CountedKernels& kernels, const GemmSums& gemms) {
  uint64_t calls = 0;
  for (const uint64_t each : gemms.calls) calls += each;
  if (calls >= kernels.gemm_kernels) return kernels.gemm_ns;
  return static_cast<uint64_t>(static_cast<double>(kernels.gemm_ns) * static_cast<double>(calls) /
                               static_cast<double>(kernels.gemm_kernels));
}

}  // namespace mfu
