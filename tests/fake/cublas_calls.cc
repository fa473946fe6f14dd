#include "tests/fake/cublas_calls.hh"

#include <cublas_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace mfu::fake {
namespace {

void* open(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

// One thread for all of the program's backward passes.
class Autograd {
 public:
  ~Autograd() { run(nullptr); }

  // Returns when it is done. Nothing to run: the end.
  void run(std::function<void()> work) {
    work_ = std::move(work);
    begin_.release();
    done_.acquire();
  }

 private:
  std::function<void()> work_;
  std::binary_semaphore begin_{0};
  std::binary_semaphore done_{0};
  std::jthread thread_{[this] {
    for (begin_.acquire(); work_; begin_.acquire()) {
      work_();
      done_.release();
    }
    done_.release();
  }};
};

}  // namespace

struct CublasCalls::Library {
  using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                const void*, const void*, cudaDataType, int, const void*,
                                cudaDataType, int, const void*, void*, cudaDataType, int,
                                cublasComputeType_t, cublasGemmAlgo_t);
  using Destroy = cublasStatus_t(cublasHandle_t);

  Library() {
    void* client = open("libgemm_client.so");
    const auto find = reinterpret_cast<void* (*)(const char*)>(dlsym(client, "gemmClient"));
    if (find != nullptr) multiply = reinterpret_cast<GemmEx*>(find("cublasGemmEx"));
    void* library = open("libcublas.so.13");
    void* create = dlsym(library, "cublasCreate_v2");
    destroy = reinterpret_cast<Destroy*>(dlsym(library, "cublasDestroy_v2"));
    if (multiply == nullptr || create == nullptr || destroy == nullptr) {
      throw std::runtime_error("no fake cuBLAS");
    }
    reinterpret_cast<cublasStatus_t (*)(cublasHandle_t*)>(create)(&handle);
  }
  ~Library() { destroy(handle); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void make(const GemmCall& call) {
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const int m = static_cast<int>(call.m);
    const int n = static_cast<int>(call.n);
    const int k = static_cast<int>(call.k);
    const cublasStatus_t status =
        multiply(handle, operation(call.transposed_a), operation(call.transposed_b), m, n, k,
                 nullptr, nullptr, CUDA_R_16BF, call.transposed_a ? k : m, nullptr, CUDA_R_16BF,
                 call.transposed_b ? n : k, nullptr, nullptr, CUDA_R_16BF, m, CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublasGemmEx fails");
  }

  GemmEx* multiply = nullptr;
  Destroy* destroy = nullptr;
  cublasHandle_t handle = nullptr;
  Autograd autograd;
};

CublasCalls::CublasCalls(bool on) {
  if (on) library_ = std::make_unique<Library>();
}

CublasCalls::~CublasCalls() = default;

void CublasCalls::make(const std::vector<GemmCall>& calls) {
  if (library_ == nullptr) return;
  const auto backward =
      std::find_if(calls.begin(), calls.end(), [](const GemmCall& call) { return call.backward; });
  std::for_each(calls.begin(), backward, [this](const GemmCall& call) { library_->make(call); });
  library_->autograd.run([&] {
    std::for_each(backward, calls.end(), [this](const GemmCall& call) { library_->make(call); });
  });
}

}  // namespace mfu::fake
