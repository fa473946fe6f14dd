// train's --gemms: calls cuBLAS for each matrix multiplication of a step, as PyTorch does: by a
// library that is linked with it, the forward pass in the program's thread, the backward pass in a
// second one.
#ifndef MFU_TESTS_FAKE_CUBLAS_CALLS_HH_
#define MFU_TESTS_FAKE_CUBLAS_CALLS_HH_

#include <memory>
#include <vector>

#include "tests/fake/training_step.hh"

namespace mfu::fake {

class CublasCalls {
 public:
  // Loads the libraries now, as a program that is linked with them. Throws std::runtime_error, as
  // all of it. Without `on` nothing ever happens.
  explicit CublasCalls(bool on);
  ~CublasCalls();

  void make(const std::vector<GemmCall>& calls);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace mfu::fake

#endif
