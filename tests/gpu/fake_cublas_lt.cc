// libcublasLt.so.13 without a GPU, for the programs of kernels/: layouts and descriptions are those
// of tests/fake/cublas_lt.cc; a multiplication takes the time that its FLOPs need on a GPU of
// FAKE_GPU_TFLOPS (default 1). FAKE_CUBLASLT_CALLS names a file into which the process's FLOPs go
// at its end.
#include <cublasLt.h>
#include <cuda.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "tests/gpu/fake_stream.hh"

namespace {

std::atomic<uint64_t> flops = 0;
std::atomic<uint64_t> calls = 0;

double flops_per_ns() {
  const char* text = std::getenv("FAKE_GPU_TFLOPS");
  return 1e3 * (text != nullptr ? std::atof(text) : 1.0);
}

uint64_t number(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which) {
  uint64_t value = 0;
  cublasLtMatrixLayoutGetAttribute(layout, which, &value, sizeof(value), nullptr);
  return value;
}

// As cuBLAS's kernels are called that read such numbers.
const char* kernel_name(cublasLtMatrixLayout_t input, cublasLtMatmulDesc_t description) {
  int32_t type = 0;
  int32_t compute = 0;
  cublasLtMatrixLayoutGetAttribute(input, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof(type),
                                   nullptr);
  cublasLtMatmulDescGetAttribute(description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute,
                                 sizeof(compute), nullptr);
  switch (type) {
    case CUDA_R_64F:
      return "cutlass_80_tensorop_d884gemm_64x64_16x4_tn_align1";
    case CUDA_R_16F:
      return "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_cublas";
    case CUDA_R_16BF:
      return "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
             "cublas";
    case CUDA_R_8F_E4M3:
      return "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_warpgroupsize1x1x1_"
             "cublas";
    default:
      return compute == CUBLAS_COMPUTE_32F
                 ? "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_cublas"
                 : "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_"
                   "cublas";
  }
}

struct Report {
  ~Report() {
    const char* path = std::getenv("FAKE_CUBLASLT_CALLS");
    FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    std::fprintf(file, "calls %llu\nflops %llu\n", static_cast<unsigned long long>(calls.load()),
                 static_cast<unsigned long long>(flops.load()));
    std::fclose(file);
  }
} report;

// Only the programs of kernels/ make graphs: what is captured is executed later, by whoever
// launches.
bool is_captured(cudaStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuStreamIsCapturing(stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&report);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                               : "CUBLAS_STATUS_UNKNOWN";
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

// Three: the second is slower by half (its first word says so), the third does not run.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  if (std::getenv("FAKE_CUBLASLT_NO_ALGORITHM") != nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (*found = 0; *found < 3 && *found < most; ++*found) {
    results[*found] = {};
    results[*found].algo.data[0] = static_cast<uint64_t>(*found);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void*,
                              const void*, cublasLtMatrixLayout_t a, const void*,
                              cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t stream) {
  if (algorithm->data[0] == 2) return CUBLAS_STATUS_NOT_SUPPORTED;
  // A is handed over transposed: its rows are what is summed over.
  const uint64_t of_this = 2 * number(d, CUBLASLT_MATRIX_LAYOUT_ROWS) *
                           number(d, CUBLASLT_MATRIX_LAYOUT_COLS) *
                           number(a, CUBLASLT_MATRIX_LAYOUT_ROWS);
  const double slowness = algorithm->data[0] == 1 ? 1.5 : 1.0;
  if (!is_captured(stream)) {
    ++calls;
    flops += of_this;
  }
  const auto ns = static_cast<uint64_t>(slowness * static_cast<double>(of_this) / flops_per_ns());
  return fakeStreamRun(stream, ns, kernel_name(a, description)) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
#pragma GCC visibility pop
