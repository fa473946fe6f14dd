// What the counting of GEMMs costs a call, on fake libraries that do nothing: each function before
// the counter is loaded and after. The driver's answer whether a stream is being captured is the
// fake driver's: a real one takes its own time.
#include <benchmark/benchmark.h>
#include <cublasLt.h>
#include <cublas_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void* load(const char* library) {
  void* handle = dlopen((std::string(BUILD_FOLDER "/tests/fake/") + library).c_str(), RTLD_NOW);
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return handle;
}

// A function of the client library's that calls cuBLAS, or cublasLt, or launches a graph.
template <typename Function = int (*)(...)>
Function caller(const char* name) {
  static void* const client = load("libgemm_client_now.so");
  auto find = reinterpret_cast<void* (*)(const char*)>(dlsym(client, "gemmClient"));
  return reinterpret_cast<Function>(find(name));
}

template <typename Function>
Function* lt(Function*, const char* name) {
  static void* const library = load("libcublasLt.so.13");
  return reinterpret_cast<Function*>(dlsym(library, name));
}

cublasHandle_t handle() {
  static const cublasHandle_t made = [] {
    cublasHandle_t created = nullptr;
    void* library = load("libcublas.so.13");
    reinterpret_cast<decltype(&cublasCreate_v2)>(dlsym(library, "cublasCreate_v2"))(&created);
    return created;
  }();
  return made;
}

void gemm_ex(benchmark::State& state) {
  const auto call = caller("cublasGemmEx");
  for (auto _ : state) {
    call(handle(), 1, 0, 4096, 8192, 4096, nullptr, nullptr, CUDA_R_16BF, 4096, nullptr,
         CUDA_R_16BF, 4096, nullptr, nullptr, CUDA_R_16BF, 4096, CUBLAS_COMPUTE_32F, -1);
  }
  state.SetItemsProcessed(state.iterations());
}

void sgemm(benchmark::State& state) {
  const auto call = caller("cublasSgemm_v2");
  for (auto _ : state) {
    call(handle(), 0, 0, 512, 512, 512, nullptr, nullptr, 512, nullptr, 512, nullptr, nullptr, 512);
  }
  state.SetItemsProcessed(state.iterations());
}

// A new shape with every call, as requests of all lengths bring: the table is full soon.
void gemm_ex_of_any_shape(benchmark::State& state) {
  const auto call = caller("cublasGemmEx");
  int n = 0;
  for (auto _ : state) {
    call(handle(), 1, 0, 4096, ++n & 0xfffff, 4096, nullptr, nullptr, CUDA_R_16BF, 4096, nullptr,
         CUDA_R_16BF, 4096, nullptr, nullptr, CUDA_R_16BF, 4096, CUBLAS_COMPUTE_32F, -1);
  }
  state.SetItemsProcessed(state.iterations());
}

void lt_matmul(benchmark::State& state) {
  const auto call = caller("cublasLtMatmul");
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  lt(cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate")(&layout, CUDA_R_16BF, 64, 64, 64);
  lt(cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate")(&description, CUBLAS_COMPUTE_32F,
                                                           CUDA_R_32F);
  for (auto _ : state) {
    call(nullptr, description, nullptr, nullptr, layout, nullptr, layout, nullptr, nullptr, layout,
         nullptr, layout, nullptr, nullptr, size_t{0}, nullptr);
  }
  state.SetItemsProcessed(state.iterations());
}

void graph_launch(benchmark::State& state) {
  void* exec = nullptr;
  int graph = 0;
  caller("cudaGraphInstantiateWithFlags")(&exec, &graph, nullptr, nullptr, nullptr, nullptr);
  const auto call = caller("cudaGraphLaunch");
  for (auto _ : state) call(exec, nullptr, nullptr, nullptr, nullptr, nullptr);
  state.SetItemsProcessed(state.iterations());
}

void load_counter(benchmark::State& state) {
  void* counter = load("libgemm_probe.so");
  const auto open = reinterpret_cast<bool (*)()>(dlsym(counter, "gemmProbeOpen"));
  for (auto _ : state) open();
  state.SetItemsProcessed(state.iterations());
}

// A turn in which nothing has been loaded: once a second, in our own thread.
void look_for_new_objects(benchmark::State& state) {
  const auto apply =
      reinterpret_cast<void (*)()>(dlsym(load("libgemm_probe.so"), "gemmProbeApply"));
  for (auto _ : state) apply();
  state.SetItemsProcessed(state.iterations());
}
void take_sums(benchmark::State& state) {
  const auto take =
      reinterpret_cast<const void* (*)()>(dlsym(load("libgemm_probe.so"), "gemmProbeTake"));
  for (auto _ : state) benchmark::DoNotOptimize(take());
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(gemm_ex)->Name("not counted: cublasGemmEx");
BENCHMARK(sgemm)->Name("not counted: cublasSgemm");
BENCHMARK(lt_matmul)->Name("not counted: cublasLtMatmul");
BENCHMARK(graph_launch)->Name("not counted: cudaGraphLaunch");
BENCHMARK(load_counter)->Name("redirect the calls of all objects")->Iterations(1);
BENCHMARK(gemm_ex)->Name("counted: cublasGemmEx");
BENCHMARK(gemm_ex)->Name("counted: cublasGemmEx, two threads")->Threads(2);
BENCHMARK(sgemm)->Name("counted: cublasSgemm");
BENCHMARK(lt_matmul)->Name("counted: cublasLtMatmul");
BENCHMARK(graph_launch)->Name("counted: cudaGraphLaunch");
BENCHMARK(gemm_ex_of_any_shape)->Name("counted: cublasGemmEx, beyond the table");
BENCHMARK(look_for_new_objects)->Name("look for new objects");
BENCHMARK(take_sums)->Name("sums of 1024 shapes");

}  // namespace

// The layouts are the toolkit's own library's, where it is there.
int main(int argc, char** argv) {
  const std::string cupti = REAL_CUPTI_PATH;
  const std::string real = cupti.substr(0, cupti.rfind('/')) + "/libcublasLt.so.13";
  if (access(real.c_str(), R_OK) == 0) setenv("REAL_CUBLASLT", real.c_str(), 0);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
