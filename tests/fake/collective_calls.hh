// train's --nccl: tells the profiler plugin that NCCL_PROFILER_PLUGIN names of each collective that
// the program launches, as NCCL does.
#ifndef MFU_TESTS_FAKE_COLLECTIVE_CALLS_HH_
#define MFU_TESTS_FAKE_COLLECTIVE_CALLS_HH_

#include <cstdint>
#include <memory>

#include "tests/fake/gpu_work.hh"
#include "tests/fake/nccl_host.hh"

namespace mfu::fake {

class CollectiveCalls {
 public:
  static constexpr uint64_t kElements = 1 << 20;  // of each, bfloat16

  // As an NCCL that knows the plugin's interface up to version `abi`; 0: none. Throws
  // std::runtime_error when the variable names nothing that can be loaded.
  CollectiveCalls(int abi, int rank, int ranks);
  ~CollectiveCalls();

  void submitted(const GpuOperation& operation);

 private:
  std::unique_ptr<NcclHost> host_;
  NcclCommunicator world_;
};

}  // namespace mfu::fake

#endif
