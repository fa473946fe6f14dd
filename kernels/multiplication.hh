// A matrix multiplication by cublasLt that can be run any number of times, on random data.
#ifndef MFU_KERNELS_MULTIPLICATION_HH_
#define MFU_KERNELS_MULTIPLICATION_HH_

#include <cublasLt.h>

#include <cstdint>
#include <memory>

#include "kernels/gpu.hh"
#include "kernels/precision.hh"

namespace mfu {

// D[m x n] = A^T[m x k] B[k x n], column-major: the layout that all precisions have, fp8 no other.
struct MatrixShape {
  uint64_t m;
  uint64_t n;
  uint64_t k;

  // A multiplication and an addition for each term of the definition.
  uint64_t flops() const { return 2 * m * n * k; }
};

class Multiplication {
 public:
  // Allocates and fills the matrices on the device in use, multiplies until its clock has risen and
  // tries the algorithms that cublasLt proposes: the fastest one is kept. Throws
  // std::runtime_error, also where cublasLt has none.
  Multiplication(const Precision& precision, const MatrixShape& shape);

  // On the device that was in use when it was made.
  void enqueue(cudaStream_t stream) const;
  const MatrixShape& shape() const { return shape_; }
  // Multiplications that were executed to raise the clock and to find the algorithm.
  uint64_t trials() const { return trials_; }
  // Executions in a row that tell how long one takes: of small matrices hundreds, as a few would be
  // over before the host has launched them.
  uint64_t sample() const;

 private:
  struct LtDeleter {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
    void operator()(cublasLtMatmulDesc_t description) const {
      cublasLtMatmulDescDestroy(description);
    }
    void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
    void operator()(cublasLtMatmulPreference_t preference) const {
      cublasLtMatmulPreferenceDestroy(preference);
    }
  };
  template <typename Handle>
  using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, LtDeleter>;

  static Owner<cublasLtMatrixLayout_t> layout(cudaDataType_t type, uint64_t rows, uint64_t columns);
  void describe(const Precision& precision);
  void fill(const Precision& precision, cudaStream_t stream);
  void choose_algorithm(cudaStream_t stream);
  void try_out(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream);  // sample() times
  void raise_clock(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream);
  cublasStatus_t multiply(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const;

  MatrixShape shape_;
  bool is_double_;
  CudaOwner<void*> a_, b_, d_, workspace_;
  Owner<cublasLtHandle_t> handle_;
  Owner<cublasLtMatmulDesc_t> description_;
  Owner<cublasLtMatrixLayout_t> a_layout_, b_layout_, d_layout_;
  cublasLtMatmulAlgo_t algorithm_{};
  uint64_t trials_ = 0;
};

}  // namespace mfu

#endif
