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

#include "profiler/gemm_calls.hh"
#include "profiler/kernel.hh"

namespace mfu {

// What the name tells: to be read once, as it does not change with the launch.
struct AttentionTraits {
  uint16_t block = 0;  // queries (forward) or keys (backward) of one block; 0: not known
  uint16_t head_dimension = 0;
  Precision precision = Precision::kUnknown;
  bool causal : 1 = false;
  bool backward : 1 = false;
};

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

// `name` mangled or demangled, as a whole. With block 0 if it tells too little.
AttentionTraits attention_traits(std::string_view name);

// False: not known.
bool attention_shape(const AttentionTraits& traits, const uint32_t (&grid)[3],
                     AttentionShape* shape);

// The FLOPs of kernels, by shape. Zeroed memory is an empty table; fixed memory, not thread-safe.
//
// Those of the backward pass are held against those of the forward pass: in deterministic mode
// their grid depends on the GPU instead of the keys, and the name does not tell.
class AttentionSums {
 public:
  // False: its FLOPs are not known, as it is of the backward pass and no shape like it came before.
  bool add(const AttentionShape& shape);

  FlopSum executed() const { return executed_; }
  // Without what was recomputed. Full recomputation runs the forward pass once more: of a shape
  // that ran backwards, as many forward passes belong to the model as backward ones. Between the
  // two passes of a step it is less than at its end.
  FlopSum model() const;

 private:
  static constexpr size_t kShapes = 32;
  struct Pair {
    AttentionShape forward;
    uint64_t forward_count;
    uint64_t backward_count;

    void add_model(FlopSum* sum) const;
  };
  Pair* find(const AttentionShape& forward);

  Pair pairs_[kShapes];
  size_t count_;  // that came; beyond kShapes the oldest is written over
  size_t last_;   // index of the last one that was found
  FlopSum executed_;
  FlopSum forgotten_;  // of the model, of pairs that were written over
};

}  // namespace mfu

#endif
