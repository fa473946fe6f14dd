#include "profiler/model_flops.hh"

#include <gtest/gtest.h>

namespace mfu {
namespace {

// Numbers small enough to count by hand.
ModelShape tiny() {
  ModelShape shape;
  shape.layers = 2;
  shape.hidden = 8;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 3;  // heads x head_dim is not hidden, as in PaLM and Gemma
  shape.ffn = 10;
  shape.vocab = 7;
  return completed(shape);
}

uint64_t number(Flops flops) {
  return static_cast<uint64_t>(flops);
}

ModelShape llama3_70b() {
  ModelShape shape;
  shape.layers = 80;
  shape.hidden = 8192;
  shape.heads = 64;
  shape.kv_heads = 8;
  shape.ffn = 28672;
  shape.vocab = 128256;
  shape.gated = true;
  return completed(shape);
}

TEST(ModelFlops, parts_counted_by_hand) {
  const FlopParts parts = forward_flops(tiny(), uniform_tokens(3, 5));  // 15 tokens, 75 pairs
  EXPECT_EQ(number(parts.qkv), 2u * 15 * 2 * (8 * 12 + 2 * 8 * 6));
  EXPECT_EQ(number(parts.scores_full), 2u * 2 * 75 * 2 * 12);  // two products, two layers
  EXPECT_EQ(number(parts.scores_causal), 2u * 75 * 2 * 12);
  EXPECT_EQ(number(parts.out), 2u * 15 * 2 * 12 * 8);
  EXPECT_EQ(number(parts.mlp), 2u * 15 * 2 * 2 * 8 * 10);
  EXPECT_EQ(number(parts.head), 2u * 15 * 8 * 7);
  EXPECT_EQ(number(parts.experts + parts.router), 0u);
  EXPECT_EQ(number(parts.forward(false)),
            number(parts.qkv + parts.scores_full + parts.out + parts.mlp + parts.head));
}

TEST(ModelFlops, a_gate_is_a_third_matrix) {
  ModelShape shape = tiny();
  shape.gated = true;
  EXPECT_EQ(number(forward_flops(shape, uniform_tokens(1, 1)).mlp), 2u * 2 * 3 * 8 * 10);
}

TEST(ModelFlops, only_active_experts_of_the_layers_that_have_them) {
  ModelShape shape = tiny();
  shape.layers = 5;
  shape.experts = 16;
  shape.active_experts = 3;
  shape.expert_ffn = 6;
  shape.shared_ffn = 4;
  shape.moe_layers = 3;
  const FlopParts parts = forward_flops(shape, uniform_tokens(1, 1));
  EXPECT_EQ(number(parts.experts), 2u * 3 * 2 * 8 * (3 * 6 + 4));
  EXPECT_EQ(number(parts.router), 2u * 3 * 8 * 16);
  EXPECT_EQ(number(parts.mlp), 2u * 2 * 2 * 8 * 10);
  const ParameterCounts counts = count_parameters(shape);
  EXPECT_EQ(number(counts.total - counts.active), 3u * 2 * 8 * 6 * 13);
}

TEST(ModelFlops, latent_attention) {
  // DeepSeek-V3's widths: 128 heads of 128+64, values of 128, ranks 1536 and 512.
  ModelShape shape;
  shape.layers = 1;
  shape.hidden = 7168;
  shape.heads = 128;
  shape.head_dim = 192;
  shape.value_head_dim = 128;
  shape.rope_dim = 64;
  shape.q_rank = 1536;
  shape.kv_rank = 512;
  shape.ffn = 18432;
  shape.vocab = 129280;
  shape = completed(shape);
  ASSERT_EQ(shape_error(shape), "");
  const FlopParts parts = forward_flops(shape, uniform_tokens(1, 2));
  EXPECT_EQ(
      number(parts.qkv),
      2u * 2 * (7168u * 1536 + 1536u * 128 * 192 + 7168u * (512 + 64) + 512u * 128 * (128 + 128)));
  EXPECT_EQ(number(parts.out), 2u * 2 * 128 * 128 * 7168);
  EXPECT_EQ(number(parts.scores_full), 2u * 4 * 128 * (192 + 128));
}

TEST(ModelFlops, packed_sequences_do_not_see_each_other) {
  const uint64_t lengths[] = {1, 2, 5};
  const StepTokens work = packed_tokens(lengths);
  EXPECT_EQ(work.tokens, 8u);
  EXPECT_EQ(work.sequences, 3u);
  EXPECT_EQ(number(work.pairs), 1u + 4 + 25);
  EXPECT_EQ(number(uniform_tokens(1, 8).pairs), 64u);
}

TEST(ModelFlops, a_window_bounds_what_a_token_sees) {
  ModelShape shape = tiny();
  shape.window = 4;
  shape.window_layers = 1;  // of two
  const FlopParts parts = forward_flops(shape, uniform_tokens(1, 10, shape.window));
  EXPECT_EQ(number(parts.scores_full), 2u * 2 * 12 * (100 + 40));
  EXPECT_EQ(number(parts.scores_causal), 2u * 12 * (100 + 2 * 40 - 16));
  const FlopParts shorter = forward_flops(shape, uniform_tokens(1, 3, shape.window));
  EXPECT_EQ(number(shorter.scores_full), 2u * 2 * 12 * (9 + 9));
  EXPECT_EQ(number(shorter.scores_causal), 2u * 12 * (9 + 9));
}

TEST(ModelFlops, backward_costs_twice_and_recomputation_once) {
  const ModelShape shape = tiny();
  const StepTokens work = uniform_tokens(3, 5);
  const FlopParts parts = forward_flops(shape, work);
  for (bool causal : {false, true}) {
    const Flops scores = causal ? parts.scores_causal : parts.scores_full;
    const Flops model = training_flops(shape, work, causal);
    EXPECT_EQ(number(model), 3 * number(parts.forward(causal)));
    EXPECT_EQ(number(hardware_flops(shape, work, causal, Recompute::kNone)), number(model));
    EXPECT_EQ(number(hardware_flops(shape, work, causal, Recompute::kSelective)),
              number(model + scores));
    EXPECT_EQ(number(hardware_flops(shape, work, causal, Recompute::kFull)),
              number(model + parts.forward(causal) - parts.head));
  }
}

TEST(ModelFlops, frozen_weights_have_no_weight_gradient) {
  const ModelShape shape = tiny();
  const StepTokens work = uniform_tokens(3, 5);
  const FlopParts parts = forward_flops(shape, work);
  const Flops weights = parts.layers() + parts.head;
  const Lora frozen{true, 0, 0};
  EXPECT_EQ(number(training_flops(shape, work, false, frozen)),
            number(2 * weights + 3 * parts.scores_full));
  // Rank 2 on q (8+12), k and v (8+6 each), out (12+8), and on both MLP matrices (8+10).
  const Lora adapters{true, 2, 2};
  const uint64_t adapter = 2u * 15 * 2 * 2 * ((20 + 14 + 14 + 20) + 2 * 18);
  EXPECT_EQ(number(training_flops(shape, work, false, adapters)),
            number(2 * weights + 3 * parts.scores_full) + 3 * adapter);
}

TEST(ModelFlops, parameters_counted_by_hand) {
  ModelShape shape = tiny();
  const uint64_t layer = 8 * 12 + 2 * 8 * 6 + 12 * 8 + 2 * 8 * 10;
  EXPECT_EQ(number(count_parameters(shape).total), 2 * layer + 2 * 7 * 8);
  EXPECT_EQ(number(count_parameters(shape).embedding), 56u);
  shape.tied = true;
  shape.positions = 9;
  EXPECT_EQ(number(count_parameters(shape).total), 2 * layer + 7 * 8 + 9 * 8);
  EXPECT_EQ(number(count_parameters(shape).embedding), 0u);
}

TEST(ModelFlops, formulas_agree_where_their_assumptions_hold) {
  // No groups, f = 4h, no gate, heads as wide as hidden: Megatron's formula is exact.
  ModelShape shape;
  shape.layers = 96;
  shape.hidden = 12288;
  shape.heads = 96;
  shape.ffn = 49152;
  shape.vocab = 51200;
  shape = completed(shape);
  const StepTokens work = uniform_tokens(7, 2048);
  auto by = [&](const char* name) {
    return to_text(formula_flops(*find_formula(name), shape, work));
  };
  EXPECT_EQ(by("megatron-lm-2021"), by("exact-full"));
  EXPECT_EQ(by("nemo"), by("exact-full"));
  EXPECT_EQ(by("dgxc"), by("exact-full"));
  EXPECT_EQ(by("megatron-lm"), by("exact-causal"));
  EXPECT_EQ(by("palm"), by("6N+12Lhs"));
  EXPECT_EQ(by("megatron-lm-2021-recompute"),
            to_text(hardware_flops(shape, work, false, Recompute::kFull)));
  EXPECT_EQ(by("korthikanti-selective"),
            to_text(hardware_flops(shape, work, false, Recompute::kSelective)));
  // 6N counts the input embedding as if it were multiplied by.
  const Flops embedding = 6 * Flops{51200} * 12288 * work.tokens;
  EXPECT_EQ(by("6N+12Lhs"), to_text(training_flops(shape, work, false) + embedding));
  EXPECT_EQ(by("torchtitan"), by("exact-full"));
}

TEST(ModelFlops, llama_3_70b_as_the_reference_has_it) {
  // Per token, from an independent implementation.
  const StepTokens work = uniform_tokens(1, 8192);
  EXPECT_EQ(number(training_flops(llama3_70b(), work, false) / 8192), 481434796032u);
}

TEST(ModelFlops, said_parameters_replace_the_counted_ones) {
  const StepTokens work = uniform_tokens(1, 10);
  EXPECT_EQ(number(formula_flops(*find_formula("6N"), tiny(), work, 1000)), 60000u);
}

TEST(ModelFlops, names_are_distinct_and_found) {
  for (const Formula& formula : formulas()) EXPECT_EQ(find_formula(formula.name), &formula);
  EXPECT_EQ(find_formula("9N"), nullptr);
}

TEST(ModelFlops, errors_name_the_field) {
  auto error = [](auto change) {
    ModelShape shape = llama3_70b();
    change(shape);
    return shape_error(shape);
  };
  EXPECT_EQ(error([](ModelShape&) {}), "");
  EXPECT_EQ(error([](ModelShape& s) { s.layers = 0; }), "layers=0 is not within 1..10000");
  EXPECT_EQ(error([](ModelShape& s) { s.heads = 65; }), "heads=65 is no multiple of kv_heads=8");
  EXPECT_EQ(error([](ModelShape& s) { s.kv_heads = 65; }), "kv_heads=65 is not within 1..64");
  EXPECT_EQ(error([](ModelShape& s) { s.experts = 8; }), "active_experts=0 is not within 1..8");
  EXPECT_EQ(error([](ModelShape& s) { s.vocab = ~uint64_t{0}; }),
            "vocab=18446744073709551615 is not within 1..67108864");
}

// The largest shape that passes does not overflow 128 bits: twice the work is twice the FLOPs.
TEST(ModelFlops, no_overflow_within_the_bounds) {
  ModelShape shape;
  shape.layers = 10000;
  shape.hidden = shape.ffn = shape.expert_ffn = shape.shared_ffn = uint64_t{1} << 22;
  shape.heads = 4;
  shape.head_dim = uint64_t{1} << 20;
  shape.vocab = uint64_t{1} << 26;
  shape.gated = true;
  shape.experts = shape.active_experts = 65536;
  shape = completed(shape);
  ASSERT_EQ(shape_error(shape), "");
  const StepTokens half = uniform_tokens(1 << 13, kMostSequence);
  const StepTokens all = uniform_tokens(1 << 14, kMostSequence);
  ASSERT_EQ(all.tokens, kMostTokens);
  const Flops least = hardware_flops(shape, half, false, Recompute::kFull);
  const Flops most = hardware_flops(shape, all, false, Recompute::kFull);
  EXPECT_EQ(to_text(most), to_text(2 * least));
  EXPECT_GT(most, least);
  for (const Formula& formula : formulas()) {
    EXPECT_GT(formula_flops(formula, shape, all), formula_flops(formula, shape, half))
        << formula.name;
  }
}

TEST(ModelFlops, decimal_digits) {
  EXPECT_EQ(to_text(0), "0");
  EXPECT_EQ(to_text(1234567890), "1234567890");
  EXPECT_EQ(to_text(~Flops{0}), "340282366920938463463374607431768211455");
}

}  // namespace
}  // namespace mfu
