// All-reduces among GPUs: by NCCL where there are several. With one, NCCL runs no kernel, so a
// kernel of known duration stands for it.
#ifndef MFU_KERNELS_ALL_REDUCE_HH_
#define MFU_KERNELS_ALL_REDUCE_HH_

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/gpu.hh"

namespace mfu {

// This process's place among those that reduce together.
struct Place {
  int rank = 0;
  int ranks = 1;
  // On storage that all ranks share: rank 0 leaves NCCL's id in it, and takes it away once all are
  // there. It must not exist before.
  std::string id_file;
  unsigned limit_seconds = 120;  // the process ends by then if the others have not come
};

class AllReduce {
 public:
  // Of `bytes` bytes of single precision (a multiple of 4) on each of this process's `gpus`.
  // Several processes have one GPU each. `stand_in_ns`: how long the kernel takes that stands for a
  // lone GPU's. Throws std::runtime_error.
  AllReduce(std::span<const Gpu> gpus, const Place& place, uint64_t bytes, uint64_t stand_in_ns);

  // One on each GPU, in the order of `gpus`.
  void enqueue(std::span<const cudaStream_t> streams);
  bool is_nccl() const { return !communicators_.empty(); }
  int ranks() const { return ranks_; }
  // That one's kernel runs at the most, where that is known: infinite with NCCL. Between two events
  // it can take longer: its kernel waits until a multiprocessor has room for it.
  double longest_seconds() const;
  // The highest of all processes' values. All must call; returns when all have.
  uint64_t highest(uint64_t value, cudaStream_t stream);

 private:
  struct CommunicatorDeleter {
    void operator()(ncclComm_t communicator) const { ncclCommDestroy(communicator); }
  };
  using Communicator = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, CommunicatorDeleter>;

  void join(const Place& place);
  void connect();

  std::span<const Gpu> gpus_;
  int ranks_;
  bool alone_;  // no other process
  uint64_t bytes_;
  uint64_t stand_in_ns_;
  std::vector<CudaOwner<void*>> buffers_;
  std::vector<Communicator> communicators_;
};

}  // namespace mfu

#endif
