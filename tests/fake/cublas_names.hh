// The matrix multiplications that libcublas.so.13 exports, written down from its symbol table; the
// cublasSgemm of cuBLAS's first interface and its three sisters left out.
#ifndef MFU_TESTS_FAKE_CUBLAS_NAMES_HH_
#define MFU_TESTS_FAKE_CUBLAS_NAMES_HH_

#define FAKE_CUBLAS_64(X, name) X(name) X(name##_64)
// Those that cublas_api.h declares with one type, and those whose name it declares twice.
#define FAKE_CUBLAS_PLAIN(X)                     \
  FAKE_CUBLAS_64(X, cublasSgemm_v2)              \
  FAKE_CUBLAS_64(X, cublasDgemm_v2)              \
  FAKE_CUBLAS_64(X, cublasCgemm_v2)              \
  FAKE_CUBLAS_64(X, cublasZgemm_v2)              \
  FAKE_CUBLAS_64(X, cublasHgemm)                 \
  FAKE_CUBLAS_64(X, cublasCgemm3m)               \
  FAKE_CUBLAS_64(X, cublasZgemm3m)               \
  FAKE_CUBLAS_64(X, cublasCgemm3mBatched)        \
  FAKE_CUBLAS_64(X, cublasCgemm3mEx)             \
  FAKE_CUBLAS_64(X, cublasCgemm3mStridedBatched) \
  FAKE_CUBLAS_64(X, cublasSgemmBatched)          \
  FAKE_CUBLAS_64(X, cublasDgemmBatched)          \
  FAKE_CUBLAS_64(X, cublasCgemmBatched)          \
  FAKE_CUBLAS_64(X, cublasZgemmBatched)          \
  FAKE_CUBLAS_64(X, cublasHgemmBatched)          \
  FAKE_CUBLAS_64(X, cublasSgemmEx)               \
  FAKE_CUBLAS_64(X, cublasCgemmEx)               \
  FAKE_CUBLAS_64(X, cublasSgemmStridedBatched)   \
  FAKE_CUBLAS_64(X, cublasDgemmStridedBatched)   \
  FAKE_CUBLAS_64(X, cublasCgemmStridedBatched)   \
  FAKE_CUBLAS_64(X, cublasZgemmStridedBatched)   \
  FAKE_CUBLAS_64(X, cublasHgemmStridedBatched)   \
  FAKE_CUBLAS_64(X, cublasSgemmGroupedBatched)   \
  FAKE_CUBLAS_64(X, cublasDgemmGroupedBatched)   \
  FAKE_CUBLAS_64(X, cublasGemmGroupedBatchedEx)  \
  X(cublasGemmEx_64)                             \
  X(cublasGemmBatchedEx_64)                      \
  X(cublasGemmStridedBatchedEx_64)               \
  X(cublasUint8gemmBias)                         \
  X(cublasXtSgemm)                               \
  X(cublasXtDgemm)                               \
  X(cublasXtCgemm)                               \
  X(cublasXtZgemm)
#define FAKE_CUBLAS_TWICE(X) X(cublasGemmEx) X(cublasGemmBatchedEx) X(cublasGemmStridedBatchedEx)
#define FAKE_CUBLAS_GEMMS(X) FAKE_CUBLAS_PLAIN(X) FAKE_CUBLAS_TWICE(X)

// Any of their arguments is a pointer or an integer and has a 64-bit word to itself: registers and
// stack as the machine's calling convention has them. The longest list has 23.
#define FAKE_WORDS(each)                                                                        \
  each(0), each(1), each(2), each(3), each(4), each(5), each(6), each(7), each(8), each(9),     \
      each(10), each(11), each(12), each(13), each(14), each(15), each(16), each(17), each(18), \
      each(19), each(20), each(21), each(22)
#define FAKE_WORD(i) unsigned long w##i
#define FAKE_WORD_NAME(i) w##i
#define FAKE_WORD_TYPE(i) unsigned long

#endif
