// libcublas.so.13 without a GPU: every multiplication keeps its arguments and says what it was told
// to say. Like the real one it may do its work by cublasLtMatmul.
#include "tests/fake/cublas_names.hh"
#include "tests/fake/cublas_state.hh"

using mfu::fake::CublasHandle;

extern "C" {
// Of cublasLt, in words.
int cublasLtMatmul(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                   unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                   unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                   unsigned long);
int cublasLtMatrixLayoutCreate(void**, int, unsigned long, unsigned long, long);
int cublasLtMatrixLayoutDestroy(void*);
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescDestroy(void*);
}

namespace {

// cublasXt's handles are none of ours.
CublasHandle multi_gpu;

int multiply(CublasHandle* handle, const unsigned long (&words)[23]) {
  for (int i = 0; i < 23; ++i) handle->last[i].store(words[i], std::memory_order_relaxed);
  for (int i = 0; i < handle->depth; ++i) {
    void* layout = nullptr;
    void* description = nullptr;
    cublasLtMatrixLayoutCreate(&layout, 0, 64, 64, 64);
    cublasLtMatmulDescCreate(&description, 68, 0);
    const auto l = reinterpret_cast<unsigned long>(layout);
    const auto d = reinterpret_cast<unsigned long>(description);
    cublasLtMatmul(0, d, 0, 0, l, 0, l, 0, 0, l, 0, l, 0, 0, 0, 0);
    cublasLtMatmulDescDestroy(description);
    cublasLtMatrixLayoutDestroy(layout);
  }
  return handle->status;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cublasCreate_v2(CublasHandle** out) {
  *out = new CublasHandle;
  return 0;
}
int cublasDestroy_v2(CublasHandle* handle) {
  delete handle;
  return 0;
}
int cublasSetStream_v2(CublasHandle* handle, void* stream) {
  handle->stream = stream;
  return 0;
}
int cublasGetStream_v2(CublasHandle* handle, void** stream) {
  *stream = handle->stream;
  return 0;
}
int cublasSetMathMode(CublasHandle* handle, int mode) {
  handle->math = mode;
  return 0;
}
int cublasGetMathMode(CublasHandle* handle, int* mode) {
  *mode = handle->math;
  return 0;
}

#define FAKE_GEMM(name)                                              \
  int name(FAKE_WORDS(FAKE_WORD)) {                                  \
    const unsigned long words[23] = {FAKE_WORDS(FAKE_WORD_NAME)};    \
    auto* handle = reinterpret_cast<CublasHandle*>(w0);              \
    return multiply(handle != nullptr ? handle : &multi_gpu, words); \
  }
FAKE_CUBLAS_GEMMS(FAKE_GEMM)
}
#pragma GCC visibility pop
