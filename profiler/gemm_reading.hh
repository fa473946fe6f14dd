// What a group of calls can be: forward passes, their gradients, recomputation, and how much of it
// is the model's work at least and at most. See model_inference.hh for the rules.
#ifndef MFU_PROFILER_GEMM_READING_HH_
#define MFU_PROFILER_GEMM_READING_HH_

#include "profiler/gemm_groups.hh"

namespace mfu {

// In calls.
struct GemmReading {
  double least = 0;  // of the model
  double most = 0;
  double forward = 0;  // of the model, with thread evidence only
  double recomputed = 0;
  bool trained = false;  // all have both gradients
  bool frozen = false;   // some have not
};

// Without threads, recomputation and forward passes without gradients are not told apart.
GemmReading read_at_large(const GemmGroup& group);
// With threads. `trained`: weights that could as well be frozen are not.
GemmReading read_by_threads(const GemmGroup& group, bool trained);

// Whether all are calls of forward passes, as far as a group tells.
bool without_gradients(const GemmGroup& group);

}  // namespace mfu

#endif
