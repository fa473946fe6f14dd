// What finding training steps costs: a kernel in the detector, and an NVTX range of the program.
#include <benchmark/benchmark.h>

#include <vector>

#include "profiler/nvtx_gate.hh"
#include "profiler/steps.hh"
// NVTX calls the gate that is linked in, which it finds by this variable.
extern "C" {
int InitializeInjectionNvtx2(const void* (*get_table)(uint32_t));
int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(uint32_t)) = InitializeInjectionNvtx2;
}
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

namespace mfu::bench {
namespace {

// A step of 96 layers and 30 tokens, 2,400 kernels.
struct Kernel {
  uint64_t token;
  KernelMark mark;
};
std::vector<Kernel> step() {
  std::vector<Kernel> kernels;
  for (uint64_t layer = 0; layer < 96; ++layer) {
    for (uint64_t i = 0; i < 24; ++i)
      kernels.push_back({step_token(i, {64, 1, 1}), KernelMark::kNone});
  }
  for (uint64_t i = 0; i < 96; ++i) {
    kernels.push_back({step_token(100 + i % 6, {64, 1, 1}), KernelMark::kOptimizer});
  }
  return kernels;
}

void detector_add(benchmark::State& state) {
  static StepDetector detector;
  const std::vector<Kernel> kernels = step();
  uint64_t now_ns = 1'000'000;
  for (auto _ : state) {
    for (const Kernel& kernel : kernels) {
      detector.add(kernel.token, now_ns, now_ns + 900, kernel.mark);
      now_ns += 1000;
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kernels.size()));
}
BENCHMARK(detector_add);

void detector_estimate(benchmark::State& state) {
  static StepDetector detector;
  uint64_t now_ns = 1'000'000;
  for (int i = 0; i < 20; ++i) {
    for (const Kernel& kernel : step()) {
      detector.add(kernel.token, now_ns, now_ns + 900, kernel.mark);
      now_ns += 1000;
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(detector.estimate());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(detector_estimate);

void nvtx_other_range(benchmark::State& state) {
  for (auto _ : state) {
    nvtxRangePushA("forward");
    nvtxRangePop();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(nvtx_other_range);

void nvtx_step_range(benchmark::State& state) {
  for (auto _ : state) {
    nvtxRangePushA("train_step 1234");
    nvtxRangePop();
  }
  state.SetItemsProcessed(state.iterations());
  if (nvtx_gate::estimate().count == 0) state.SkipWithError("NVTX did not call us");
}
BENCHMARK(nvtx_step_range);

}  // namespace
}  // namespace mfu::bench

BENCHMARK_MAIN();
