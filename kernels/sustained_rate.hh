// How many FLOPs a GPU computes in a second when it does nothing but multiply matrices.
#ifndef MFU_KERNELS_SUSTAINED_RATE_HH_
#define MFU_KERNELS_SUSTAINED_RATE_HH_

#include <cstdint>

#include "kernels/multiplication.hh"

namespace mfu {

struct SustainedRate {
  uint64_t executed = 0;  // multiplications: trials and warm-up included
  uint64_t timed = 0;     // of them
  double seconds = 0;     // from the begin of the first timed one to the end of the last
  uint64_t batches = 0;   // that the timed ones were divided into
  // FLOP/s: of all that was timed, and of batches.
  double mean = 0;
  double median = 0;
  double best = 0;
};

// Warms the GPU up for a fifth of `seconds`, then multiplies for `seconds`, without a pause, on the
// device in use. `graph`: each batch is a CUDA graph that was captured once and is launched as
// often as there are batches. Times are the GPU's own (events). Throws std::runtime_error.
SustainedRate sustained_rate(const Multiplication& multiplication, double seconds, bool graph);

}  // namespace mfu

#endif
