#include "kernels/multiplication.hh"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace mfu {
namespace {

// NVIDIA's advice for Hopper is 32 MiB; more does no harm.
constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kAlgorithms = 8;
// Executions of small matrices that are timed together have this many FLOPs: a few hundred
// microseconds of a fast GPU.
constexpr uint64_t kSampleFlops = 200'000'000'000;
constexpr uint64_t kLeastSample = 3;
constexpr uint64_t kMostSample = 500;
// An idle GPU needs that long to raise its clock.
constexpr std::chrono::milliseconds kRamp{100};

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}

}  // namespace

Multiplication::Multiplication(const Precision& precision, const MatrixShape& shape)
    : shape_(shape), is_double_(precision.scale == CUDA_R_64F) {
  const auto bytes = [](uint64_t rows, uint64_t columns, const FloatFormat& format) {
    return rows * columns * static_cast<uint64_t>(format.bytes());
  };
  a_ = device_memory(bytes(shape.k, shape.m, precision.format));
  b_ = device_memory(bytes(shape.k, shape.n, precision.format));
  d_ = device_memory(bytes(shape.m, shape.n, precision.result));
  workspace_ = device_memory(kWorkspaceBytes);
  const CudaOwner<cudaStream_t> stream = new_stream();
  describe(precision);
  fill(precision, stream.get());
  choose_algorithm(stream.get());
}

Multiplication::Owner<cublasLtMatrixLayout_t> Multiplication::layout(cudaDataType_t type,
                                                                     uint64_t rows,
                                                                     uint64_t columns) {
  cublasLtMatrixLayout_t created = nullptr;
  check(cublasLtMatrixLayoutCreate(&created, type, rows, columns, static_cast<int64_t>(rows)),
        "a matrix");
  return Owner<cublasLtMatrixLayout_t>(created);
}

void Multiplication::describe(const Precision& precision) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLt");
  handle_.reset(handle);
  cublasLtMatmulDesc_t description = nullptr;
  check(cublasLtMatmulDescCreate(&description, precision.compute, precision.scale),
        "a multiplication");
  description_.reset(description);
  const int32_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof(transposed)),
        "a transposed matrix");
  if (precision.input == CUDA_R_8F_E4M3) {
    // As training has it in the forward pass. Where it is not known, it is not needed either.
    const int8_t fast = 1;
    (void)cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                         sizeof(fast));
  }
  a_layout_ = layout(precision.input, shape_.k, shape_.m);
  b_layout_ = layout(precision.input, shape_.k, shape_.n);
  d_layout_ = layout(precision.output, shape_.m, shape_.n);
}

void Multiplication::fill(const Precision& precision, cudaStream_t stream) {
  mfu::check(fill_uniform(a_.get(), shape_.k * shape_.m, precision.format, 1, stream),
             "random numbers");
  mfu::check(fill_uniform(b_.get(), shape_.k * shape_.n, precision.format, 2, stream),
             "random numbers");
  finish(stream);
}

uint64_t Multiplication::sample() const {
  return kLeastSample + std::min(kMostSample, kSampleFlops / shape_.flops());
}

void Multiplication::try_out(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
  for (uint64_t i = 0; i < sample(); ++i) check(multiply(algorithm, stream), "a multiplication");
  trials_ += sample();
}

void Multiplication::raise_clock(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
  const auto end = std::chrono::steady_clock::now() + kRamp;
  do {
    try_out(algorithm, stream);
    finish(stream);
  } while (std::chrono::steady_clock::now() < end);
}

void Multiplication::choose_algorithm(cudaStream_t stream) {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "a preference");
  const Owner<cublasLtMatmulPreference_t> preference(created);
  const uint64_t most = kWorkspaceBytes;
  check(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &most, sizeof(most)),
        "a preference");
  cublasLtMatmulHeuristicResult_t proposed[kAlgorithms] = {};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), description_.get(), a_layout_.get(),
                                       b_layout_.get(), d_layout_.get(), d_layout_.get(), created,
                                       kAlgorithms, proposed, &count),
        "no algorithm");
  const CudaOwner<cudaEvent_t> begin = new_event();
  const CudaOwner<cudaEvent_t> end = new_event();
  double best = 0;
  for (int i = 0; i < count; ++i) {
    const auto& algorithm = proposed[i].algo;
    if (proposed[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (multiply(algorithm, stream) != CUBLAS_STATUS_SUCCESS) continue;
    ++trials_;
    if (best == 0) raise_clock(algorithm, stream);
    record(begin.get(), stream);
    try_out(algorithm, stream);
    record(end.get(), stream);
    finish(stream);
    const double seconds = seconds_between(begin.get(), end.get());
    if (best != 0 && seconds >= best) continue;
    best = seconds;
    algorithm_ = algorithm;
  }
  if (trials_ == 0) throw std::runtime_error("cublasLt has no algorithm for it");
}

cublasStatus_t Multiplication::multiply(const cublasLtMatmulAlgo_t& algorithm,
                                        cudaStream_t stream) const {
  static constexpr double kOne = 1;
  static constexpr double kZero = 0;
  static constexpr float kOneSingle = 1;
  static constexpr float kZeroSingle = 0;
  const void* one = is_double_ ? static_cast<const void*>(&kOne) : &kOneSingle;
  const void* zero = is_double_ ? static_cast<const void*>(&kZero) : &kZeroSingle;
  return cublasLtMatmul(handle_.get(), description_.get(), one, a_.get(), a_layout_.get(), b_.get(),
                        b_layout_.get(), zero, d_.get(), d_layout_.get(), d_.get(), d_layout_.get(),
                        &algorithm, workspace_.get(), kWorkspaceBytes, stream);
}

void Multiplication::enqueue(cudaStream_t stream) const {
  check(multiply(algorithm_, stream), "cublasLtMatmul");
}

}  // namespace mfu
