// What the fake cuBLAS can be asked and told beyond cuBLAS's own functions.
#ifndef MFU_TESTS_FAKE_CUBLAS_STATE_HH_
#define MFU_TESTS_FAKE_CUBLAS_STATE_HH_

#include <atomic>

namespace mfu::fake {

// What cublasHandle_t points to.
struct CublasHandle {
  void* stream = nullptr;
  int math = 0;
  int status = 0;  // of the next multiplications
  int depth = 0;   // so many calls of itself a multiplication makes, by cublasLtMatmul
  std::atomic<unsigned long> last[23] = {};  // words of the last call
};

// Whether REAL_CUBLASLT in the environment names a library to which the layouts go.
extern "C" int fakeCublasLtIsReal();
// Multiplications since the library was loaded.
extern "C" long fakeCublasLtCalls();

}  // namespace mfu::fake

#endif
