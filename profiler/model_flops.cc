#include "profiler/model_flops.hh"

#include <algorithm>
#include <array>
#include <cstddef>

namespace mfu {

ModelShape completed(const ModelShape& shape) {
  ModelShape full = shape;
  if (full.kv_heads == 0) full.kv_heads = full.heads;
  if (full.head_dim == 0 && full.heads != 0) full.head_dim = full.hidden / full.heads;
  if (full.value_head_dim == 0) full.value_head_dim = full.head_dim;
  if (full.experts != 0) {
    if (full.expert_ffn == 0) full.expert_ffn = full.ffn;
    if (full.moe_layers == 0) full.moe_layers = full.layers;
  }
  if (full.window != 0 && full.window_layers == 0) full.window_layers = full.layers;
  return full;
}

std::string shape_error(const ModelShape& shape) {
  struct Range {
    const char* name;
    uint64_t value, least, most;
  };
  const uint64_t width = uint64_t{1} << 22;
  const uint64_t needed = shape.experts != 0 && shape.moe_layers == shape.layers ? 0 : 1;
  const Range ranges[] = {
      {"layers", shape.layers, 1, 10000},
      {"hidden", shape.hidden, 1, width},
      {"heads", shape.heads, 1, 65536},
      {"kv_heads", shape.kv_heads, 1, shape.heads},
      {"head_dim", shape.head_dim, 1, width / std::max<uint64_t>(shape.heads, 1)},
      {"value_head_dim", shape.value_head_dim, 1, width / std::max<uint64_t>(shape.heads, 1)},
      {"ffn", shape.ffn, needed, width},
      {"vocab", shape.vocab, 1, uint64_t{1} << 26},
      {"positions", shape.positions, 0, kMostSequence},
      {"experts", shape.experts, 0, 65536},
      {"active_experts", shape.active_experts, shape.experts == 0 ? 0u : 1u, shape.experts},
      {"expert_ffn", shape.expert_ffn, shape.experts == 0 ? 0u : 1u, width},
      {"shared_ffn", shape.shared_ffn, 0, shape.experts == 0 ? 0 : width},
      {"moe_layers", shape.moe_layers, shape.experts == 0 ? 0u : 1u, shape.layers},
      {"window", shape.window, 0, kMostSequence},
      {"window_layers", shape.window_layers, shape.window == 0 ? 0u : 1u, shape.layers},
      {"q_rank", shape.q_rank, 0, shape.kv_rank == 0 ? 0 : width},
      {"kv_rank", shape.kv_rank, 0, width},
      {"rope_dim", shape.rope_dim, 0, shape.kv_rank == 0 ? 0 : shape.head_dim}};
  for (const Range& range : ranges) {
    if (range.value < range.least || range.value > range.most) {
      return std::string(range.name) + "=" + std::to_string(range.value) + " is not within " +
             std::to_string(range.least) + ".." + std::to_string(range.most);
    }
  }
  if (shape.heads % shape.kv_heads != 0) {
    return "heads=" + std::to_string(shape.heads) +
           " is no multiple of kv_heads=" + std::to_string(shape.kv_heads);
  }
  return {};
}

// ---- tokens ----

namespace {

void add_sequences(uint64_t count, uint64_t length, uint64_t window, StepTokens* work) {
  const Flops square = Flops{length} * length;
  const bool cut = window != 0 && length > window;
  work->tokens += count * length;
  work->sequences += count;
  work->pairs += count * square;
  work->window_pairs += count * (cut ? Flops{length} * window : square);
  work->window_twice +=
      count * (cut ? 2 * Flops{length} * window - Flops{window} * window : square);
}

// Parameters of one layer's matrices, by part.
struct LayerMatrices {
  Flops qkv, out, mlp, expert, shared, router;
};

LayerMatrices matrices_of(const ModelShape& shape) {
  const Flops h = shape.hidden;
  const Flops query = Flops{shape.heads} * shape.head_dim;
  const Flops value = Flops{shape.heads} * shape.value_head_dim;
  const Flops per_mlp = (shape.gated ? 3 : 2) * h;
  LayerMatrices one{};
  if (shape.kv_rank == 0) {
    one.qkv = h * query + h * shape.kv_heads * (shape.head_dim + shape.value_head_dim);
  } else {
    // Latent attention: down and up again; the rotary part of a key is shared by all heads.
    one.qkv = shape.q_rank == 0 ? h * query : h * shape.q_rank + shape.q_rank * query;
    one.qkv += h * (shape.kv_rank + shape.rope_dim);
    one.qkv += Flops{shape.kv_rank} * shape.heads *
               (shape.head_dim - shape.rope_dim + shape.value_head_dim);
  }
  one.out = value * h;
  one.mlp = per_mlp * shape.ffn;
  one.expert = per_mlp * shape.expert_ffn;
  one.shared = per_mlp * shape.shared_ffn;
  one.router = h * shape.experts;
  return one;
}

}  // namespace

StepTokens uniform_tokens(uint64_t count, uint64_t length, uint64_t window) {
  StepTokens work;
  add_sequences(count, length, window, &work);
  return work;
}

StepTokens packed_tokens(std::span<const uint64_t> lengths, uint64_t window) {
  StepTokens work;
  for (uint64_t length : lengths) add_sequences(1, length, window, &work);
  return work;
}

// ---- exact ----

FlopParts forward_flops(const ModelShape& shape, const StepTokens& work) {
  const LayerMatrices one = matrices_of(shape);
  const Flops moe = shape.moe_layers;
  const Flops twice = 2 * Flops{work.tokens};
  const Flops wide = Flops{shape.heads} * (shape.head_dim + shape.value_head_dim);
  const Flops all = shape.layers - shape.window_layers;
  FlopParts parts;
  parts.qkv = twice * shape.layers * one.qkv;
  parts.out = twice * shape.layers * one.out;
  parts.scores_full = 2 * wide * (all * work.pairs + shape.window_layers * work.window_pairs);
  parts.scores_causal = wide * (all * work.pairs + shape.window_layers * work.window_twice);
  parts.mlp = twice * (shape.layers - moe) * one.mlp;
  parts.experts = twice * moe * (one.expert * shape.active_experts + one.shared);
  parts.router = twice * moe * one.router;
  parts.head = twice * shape.hidden * shape.vocab;
  return parts;
}

namespace {

// Forward FLOPs of the adapters: two narrow matrices beside each wide one.
Flops adapter_flops(const ModelShape& shape, const StepTokens& work, const Lora& lora) {
  const Flops h = shape.hidden;
  const Flops query = Flops{shape.heads} * shape.head_dim;
  const Flops key = Flops{shape.kv_heads} * shape.head_dim;
  const Flops value = Flops{shape.kv_heads} * shape.value_head_dim;
  const Flops attention =
      (h + query) + (h + key) + (h + value) + (Flops{shape.heads} * shape.value_head_dim + h);
  const Flops mlp = (shape.gated ? 3 : 2) * (h + shape.ffn);
  return 2 * Flops{work.tokens} *
         (shape.layers * attention * lora.attention_rank +
          (shape.layers - shape.moe_layers) * mlp * lora.mlp_rank);
}

}  // namespace

Flops training_flops(const ModelShape& shape, const StepTokens& work, bool causal,
                     const Lora& lora) {
  const FlopParts parts = forward_flops(shape, work);
  if (!lora.frozen) return 3 * parts.forward(causal);
  const Flops scores = causal ? parts.scores_causal : parts.scores_full;
  return 2 * (parts.layers() + parts.head) + 3 * scores + 3 * adapter_flops(shape, work, lora);
}

Flops hardware_flops(const ModelShape& shape, const StepTokens& work, bool causal,
                     Recompute recompute, const Lora& lora) {
  const FlopParts parts = forward_flops(shape, work);
  const Flops scores = causal ? parts.scores_causal : parts.scores_full;
  Flops again = 0;
  if (recompute == Recompute::kSelective) again = scores;
  if (recompute == Recompute::kFull) {
    again = parts.layers() + scores + (lora.frozen ? adapter_flops(shape, work, lora) : 0);
  }
  return training_flops(shape, work, causal, lora) + again;
}

ParameterCounts count_parameters(const ModelShape& shape) {
  const LayerMatrices one = matrices_of(shape);
  const Flops vocabulary = Flops{shape.vocab} * shape.hidden;
  const Flops fixed = shape.layers * (one.qkv + one.out) +
                      (shape.layers - shape.moe_layers) * one.mlp +
                      shape.moe_layers * (one.shared + one.router) +
                      (shape.tied ? 1 : 2) * vocabulary + Flops{shape.positions} * shape.hidden;
  ParameterCounts counts;
  counts.total = fixed + shape.moe_layers * one.expert * shape.experts;
  counts.active = fixed + shape.moe_layers * one.expert * shape.active_experts;
  counts.embedding = shape.tied ? 0 : vocabulary;
  return counts;
}

// ---- formulas of published sources ----

namespace {

// a (2 + 2g/a) in the matrix formulas is how their sources write the projections; f is the width of
// the active experts where there are any, and 3hf becomes 2hf without a gate.
constexpr auto kFormulas = std::to_array<Formula>({
    {"exact-full",
     "matrices and full attention",
     "the default of this tool",
     false,
     {.weights = 3, .router = 3, .scores_full = 3}},
    {"exact-causal",
     "matrices and causal attention",
     "printed beside it",
     false,
     {.weights = 3, .router = 3, .scores_causal = 3}},
    {"6N", "6N", "Kaplan et al. 2020, Hoffmann et al. 2022", false, {.parameters = 6}},
    {"6N+12Lhs",
     "6N + 12Lhs",
     "Chowdhery et al. 2022 (PaLM) where a*d = h",
     false,
     {.parameters = 6, .hidden_pairs = 12}},
    {"6N+6Lhs", "6N + 6Lhs", "the same, causal", false, {.parameters = 6, .hidden_pairs = 6}},
    {"palm",
     "6N + 12Lads",
     "Chowdhery et al. 2022, appendix B",
     false,
     {.parameters = 6, .head_pairs = 12}},
    {"nanogpt",
     "6(N - positions) + 12Lads",
     "nanoGPT, estimate_mfu",
     false,
     {.parameters = 6, .without_positions = true, .head_pairs = 12}},
    {"torchtitan",
     "6(N - embedding) + 12Lads",
     "torchtitan",
     false,
     {.parameters = 6, .without_embedding = true, .head_pairs = 12}},
    {"llm-foundry",
     "6N + 12Lhs",
     "MosaicML llm-foundry, benchmarking",
     false,
     {.parameters = 6, .hidden_pairs = 12}},
    {"llm-foundry-hfu",
     "8N + 16Lhs",
     "the same with activation checkpointing",
     true,
     {.parameters = 8, .hidden_pairs = 16}},
    {"megatron-lm-2021",
     "72Lh^2(1 + s/6h + V/12Lh)",
     "Korthikanti et al. 2022 eq. 7: g = a, f = 4h, no gate",
     false,
     {.square = 72, .vocabulary = 6, .hidden_pairs = 12}},
    {"megatron-lm-2021-recompute",
     "96Lh^2(1 + s/6h + V/16Lh)",
     "Narayanan et al. 2021 eq. 3: the layers recomputed",
     true,
     {.square = 96, .vocabulary = 6, .hidden_pairs = 16}},
    {"korthikanti-printed",
     "72Lh^2(1 + s/3h + V/12Lh)",
     "Korthikanti et al. 2022 as printed; wrong by Megatron-LM issue 523",
     true,
     {.square = 72, .vocabulary = 6, .hidden_pairs = 24}},
    {"korthikanti-selective",
     "72Lh^2(1 + 2s/9h + V/12Lh)",
     "the same, corrected: attention's products recomputed",
     true,
     {.square = 72, .vocabulary = 6, .hidden_pairs = 16}},
    {"megatron-lm",
     "6(L(had(2 + 2g/a) + 3hf) + hV) + 6Lads",
     "Megatron-Core and Megatron-Bridge since 2025: causal",
     false,
     {.weights = 3, .scores_causal = 3}},
    {"nemo",
     "6(L(had(2 + 2g/a) + 3hf) + hV) + 12Lads",
     "NeMo to 24, nanotron, Levanter",
     false,
     {.weights = 3, .scores_full = 3}},
    {"dgxc",
     "12Lh^2(1 + g/a + s/h) + 18Lhf + 6hV",
     "dgxc-benchmarking 25.04, Llama",
     false,
     {.weights = 3, .scores_full = 3}},
    {"dgxc-causal",
     "12Lh^2(1 + g/a + s/2h) + 18Lhf + 6hV",
     "dgxc-benchmarking, Grok 1 and Llama 4",
     false,
     {.weights = 3, .scores_causal = 3}},
    {"maxtext-2024", "as nemo", "MaxText before PR 1988", false, {.weights = 3, .scores_full = 3}},
    {"maxtext",
     "as megatron-lm",
     "MaxText since PR 1988",
     false,
     {.weights = 3, .scores_causal = 3}},
    {"dgxc-lora",
     "2/3 of megatron-lm",
     "dgxc-benchmarking 25.10, LoRA",
     false,
     {.weights = 2, .scores_causal = 2}},
    {"nemo-lora",
     "4(L(had(2 + 2g/a) + 3hf) + hV)",
     "NeMo, Megatron-Bridge LoRA: no attention term",
     false,
     {.weights = 2}},
});

}  // namespace

std::span<const Formula> formulas() {
  return kFormulas;
}

const Formula* find_formula(std::string_view name) {
  for (const Formula& formula : kFormulas) {
    if (formula.name == name) return &formula;
  }
  return nullptr;
}

Flops formula_flops(const Formula& formula, const ModelShape& shape, const StepTokens& work,
                    uint64_t parameters) {
  const FormulaTerms& terms = formula.terms;
  const ParameterCounts counts = count_parameters(shape);
  const FlopParts parts = forward_flops(shape, work);
  const Flops h = shape.hidden;
  const Flops layer_pairs = shape.layers * work.pairs;
  Flops n = parameters != 0 ? Flops{parameters} : counts.active;
  if (terms.without_positions) n -= std::min(n, shape.positions * h);
  if (terms.without_embedding) n -= std::min(n, counts.embedding);
  return (terms.parameters * n + terms.square * shape.layers * h * h +
          terms.vocabulary * h * shape.vocab) *
             work.tokens +
         terms.hidden_pairs * h * layer_pairs +
         terms.head_pairs * shape.heads * shape.head_dim * layer_pairs +
         terms.weights * (parts.layers() - parts.router + parts.head) +
         terms.router * parts.router + terms.scores_full * parts.scores_full +
         terms.scores_causal * parts.scores_causal;
}

std::string to_text(Flops flops) {
  std::string text;
  do {
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(flops % 10)));
    flops /= 10;
  } while (flops != 0);
  return text;
}

}  // namespace mfu
