// FLOPs of FlashAttention-2 kernels, from their name and grid. The name has head dimension, blocks
// and masks as template arguments, the grid has blocks x batch x heads; flash_fwd_launch_template.h
// and flash_bwd_launch_template.h of the Dao-AILab/flash-attention repository, 2.0 to 2.8, say
// which.
//
// Known only where both tell all: whole blocks (Is_even_MN: no packed sequences, lengths that are
// multiples of the blocks), the template's head dimension (Is_even_K), no local window. A kernel of
// the forward pass tells the queries' number alone, one of the backward pass the keys' alone: they
// are taken as equal, which is self-attention. Not covered: FlashAttention 3 and cuDNN (persistent:
// the grid says nothing), split key-values (inference).
#ifndef MFU_PROFILER_ATTENTION_FLOPS_HH_
#define MFU_PROFILER_ATTENTION_FLOPS_HH_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "profiler/kernel.hh"

namespace mfu {

struct AttentionShape {
  uint64_t batch_heads = 0;  // batch x query heads
  uint64_t length = 0;       // queries (forward) or keys (backward) of one sequence
  uint32_t head_dimension = 0;
  bool causal = false;
  bool backward = false;
  Precision precision = Precision::kUnknown;

  // Of two matrix multiplications in the forward pass and five in the backward pass, one of which
  // is recomputed; half of it with a causal mask, as the paper counts. The blocks that the kernel
  // computes on the diagonal are a little more.
  uint64_t flops() const;
  // Without the recomputed one.
  uint64_t model_flops() const;
  bool operator==(const AttentionShape&) const = default;
};

// A kernel of this library that multiplies, covered or not.
bool is_flash_attention(std::string_view name);

// False: not known. `name` mangled or demangled, as a whole.
bool attention_shape(std::string_view name, const uint32_t (&grid)[3], AttentionShape* shape);

// Holds kernels of the backward pass against those of the forward pass: in deterministic mode their
// grid depends on the GPU instead of the keys, and the name does not tell. Fixed memory; not
// thread-safe.
class AttentionPairs {
 public:
  // Whether the shape's FLOPs may be counted: it is of the forward pass, or like one that came.
  bool accept(const AttentionShape& shape);

 private:
  static constexpr size_t kShapes = 32;
  AttentionShape forward_[kShapes] = {};
  size_t count_ = 0;  // that came; beyond kShapes the oldest is written over
};

}  // namespace mfu

#endif
