// FLOPs of a transformer's training step, from its shape.
//
// Model FLOPs are those of the matrix multiplications that the mathematics asks for: every
// parameter of a matrix once a token, two FLOPs each (a multiplication and an addition),
// attention's two products, and the LM head once. No embedding look-up, no norms, no recomputation,
// no padding, of experts the active ones. Backward costs twice the forward. All numbers are exact
// integers.
//
// Attention is told both ways, since both are published: full (every token sees its whole sequence:
// PaLM, nanoGPT, llm-foundry, torchtitan, Levanter, NeMo to 24) and causal (half of that:
// Megatron-Core and Megatron-Bridge since 2025, MaxText since its PR 1988). The causal half is the
// sources' s*s/2, not s*(s+1)/2.
#ifndef MFU_PROFILER_MODEL_FLOPS_HH_
#define MFU_PROFILER_MODEL_FLOPS_HH_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mfu {

using Flops = unsigned __int128;

// A decoder, layer by layer alike but for the MLP: moe_layers of the layers have experts, the
// others a dense MLP. Counts, all of them; a width is a matrix's number of rows or columns.
struct ModelShape {
  uint64_t layers = 0;
  uint64_t hidden = 0;
  uint64_t heads = 0;           // of queries
  uint64_t kv_heads = 0;        // 0: as many as heads
  uint64_t head_dim = 0;        // 0: hidden / heads
  uint64_t value_head_dim = 0;  // 0: head_dim
  uint64_t ffn = 0;             // width of a dense MLP
  uint64_t vocab = 0;
  bool gated = false;           // an MLP of three matrices (SwiGLU, GeGLU) instead of two
  bool tied = false;            // one matrix for embedding and LM head: matters to N only
  uint64_t positions = 0;       // rows of a learned position embedding: matters to N only
  uint64_t experts = 0;         // 0: no layer has any
  uint64_t active_experts = 0;  // chosen for a token
  uint64_t expert_ffn = 0;      // width of one; 0: ffn
  uint64_t shared_ffn = 0;      // width of the experts that every token passes, together
  uint64_t moe_layers = 0;      // 0 with experts: all layers
  uint64_t window = 0;          // sliding window of attention in tokens; 0: none
  uint64_t window_layers = 0;   // layers that have it; 0 with a window: all layers
  uint64_t q_rank = 0;          // multi-head latent attention (DeepSeek): rank of the queries
  uint64_t kv_rank = 0;         // and of keys and values; 0: ordinary attention
  uint64_t rope_dim = 0;        // then the part of head_dim that carries the position

  bool operator==(const ModelShape&) const = default;
};

// The shape with its zeroes replaced by what they stand for.
ModelShape completed(const ModelShape& shape);

// Empty, or what is wrong with a completed shape, naming the field. A shape without an error cannot
// overflow any result here for work of at most kMostTokens.
std::string shape_error(const ModelShape& shape);
inline constexpr uint64_t kMostTokens = uint64_t{1} << 44;
inline constexpr uint64_t kMostSequence = uint64_t{1} << 30;

// What a step works on: token counts and, for attention, pairs of tokens.
struct StepTokens {
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  Flops pairs = 0;         // sum of s * s
  Flops window_pairs = 0;  // sum of s * min(s, window)
  Flops window_twice = 0;  // twice the causal pairs within the window: s*s, or 2*s*w - w*w
};
// `count` sequences of the same length. Padding is not to be counted in.
StepTokens uniform_tokens(uint64_t count, uint64_t length, uint64_t window = 0);
// Packed: attention stays within each sequence (cu_seqlens of variable-length kernels).
StepTokens packed_tokens(std::span<const uint64_t> lengths, uint64_t window = 0);

// Forward FLOPs by part, for all tokens of a step.
struct FlopParts {
  Flops qkv = 0;            // projections to queries, keys and values
  Flops scores_full = 0;    // QK^T and PV
  Flops scores_causal = 0;  // the same, causal: not in addition
  Flops out = 0;            // attention's output projection
  Flops mlp = 0;            // dense layers
  Flops experts = 0;        // active and shared ones
  Flops router = 0;
  Flops head = 0;  // LM head

  Flops layers() const { return qkv + out + mlp + experts + router; }  // weights, without the head
  Flops forward(bool causal) const {
    return layers() + head + (causal ? scores_causal : scores_full);
  }
};
FlopParts forward_flops(const ModelShape& shape, const StepTokens& work);

enum class Recompute : uint8_t {
  kNone,
  kSelective,  // attention's products a second time (Korthikanti et al. 2022)
  kFull,       // all layers a second time, not the LM head (Narayanan et al. 2021)
};

// Frozen weights need no weight gradient: they cost twice the forward instead of three times, while
// attention's products and the adapters cost three times. Ranks are of adapters on all matrices of
// the kind; 0: none. (The lowest layer's input gradient is counted, although it could be saved.)
struct Lora {
  bool frozen = false;
  uint64_t attention_rank = 0;  // on the q, k, v and output projections
  uint64_t mlp_rank = 0;        // on the dense MLP's matrices
};

// Forward and backward of a training step: the model FLOPs, MFU's numerator.
Flops training_flops(const ModelShape& shape, const StepTokens& work, bool causal,
                     const Lora& lora = {});
// And with what is computed twice: HFU's numerator. A FlashAttention backward recomputes the scores
// once more, which no published HFU counts.
Flops hardware_flops(const ModelShape& shape, const StepTokens& work, bool causal,
                     Recompute recompute, const Lora& lora = {});

// Parameters of matrices and embeddings; no norms, no biases (below 0.02% of a large model).
struct ParameterCounts {
  Flops total = 0;      // all experts, both embeddings unless tied, learned positions
  Flops active = 0;     // the same with the active experts only
  Flops embedding = 0;  // the input embedding's part of both; 0 when tied
};
ParameterCounts count_parameters(const ModelShape& shape);

// ---- formulas of published sources ----

// What a formula multiplies, summed over a step's tokens; all coefficients are whole numbers.
struct FormulaTerms {
  uint8_t parameters = 0;          // N
  bool without_positions = false;  // N less the learned positions
  bool without_embedding = false;  // N less the input embedding
  uint8_t square = 0;              // L h h
  uint8_t vocabulary = 0;          // h V
  uint8_t hidden_pairs = 0;        // L h s
  uint8_t head_pairs = 0;          // L a d s
  uint8_t weights = 0;             // FlopParts: all matrices and the head, without the router
  uint8_t router = 0;
  uint8_t scores_full = 0;
  uint8_t scores_causal = 0;
};

// Training FLOPs as a source counts them, so that its published figures can be compared.
struct Formula {
  std::string_view name;        // for --formula
  std::string_view expression;  // a token; a: heads, d: head_dim, g: kv_heads, f: ffn
  std::string_view source;
  bool hardware;  // counts recomputation: gives HFU, not MFU
  FormulaTerms terms;
};
std::span<const Formula> formulas();
const Formula* find_formula(std::string_view name);

// N: parameters as the source counts them (active ones of a mixture of experts); 0: this file's
// count by the source's rule. The attention term has a*d where the source has it (PaLM's HQ), h
// elsewhere.
Flops formula_flops(const Formula& formula, const ModelShape& shape, const StepTokens& work,
                    uint64_t parameters = 0);

// Decimal digits.
std::string to_text(Flops flops);

}  // namespace mfu

#endif
