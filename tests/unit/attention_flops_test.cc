#include "profiler/attention_flops.hh"

#include <gtest/gtest.h>

#include <string>

namespace mfu {
namespace {

constexpr char kDemangled[] =
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, "
    "false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, "
    "cutlass::bfloat16_t> >, FLAGS>(pytorch_flash::Flash_fwd_params)";
constexpr char kMangled[] =
    "_ZN13pytorch_flash16flash_fwd_kernelINS_23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0ELb0"
    "EN7cutlass6half_tENS_19Flash_kernel_traitsILi128ELi128ELi64ELi4ES3_EEEEFLAGSEEvNS_16Flash_fwd_"
    "paramsE";
constexpr char kBackward[] =
    "_Z44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23Flash_bwd_kernel_traitsILi128ELi64ELi128ELi"
    "8ELi2ELi4ELi2ELb0ELb0EN7cutlass10bfloat16_tE19Flash_kernel_traitsILi128ELi64ELi128ELi8ES2_EEFL"
    "AGSEv16Flash_bwd_params";

// Flags as '0' and '1' in place of FLAGS.
std::string with(std::string name, const std::string& flags) {
  const bool mangled = name.starts_with("_Z");
  std::string text;
  for (const char flag : flags) {
    if (mangled) {
      text += std::string("Lb") + flag + "E";
    } else {
      text += (text.empty() ? "" : ", ") + std::string(flag == '1' ? "true" : "false");
    }
  }
  return name.replace(name.find("FLAGS"), 5, text);
}

bool read(const std::string& name, uint32_t x, AttentionShape* shape) {
  const uint32_t grid[3] = {x, 4, 32};
  return attention_shape(attention_traits(name), grid, shape);
}

// 4 sequences, 32 heads of 128, 4096 tokens, causal: 4 x 4 x 32 x 4096^2 x 128 / 2, by hand.
TEST(AttentionFlops, OfTheForwardPass) {
  AttentionShape shape;
  ASSERT_TRUE(read(with(kMangled, "01001100"), 32, &shape));
  const AttentionShape expected = {.batch_heads = 128,
                                   .length = 4096,
                                   .head_dimension = 128,
                                   .causal = true,
                                   .backward = false,
                                   .precision = Precision::kFp16};
  EXPECT_EQ(shape, expected);
  EXPECT_EQ(shape.flops(), 549'755'813'888u);
  EXPECT_EQ(shape.model_flops(), shape.flops());
  ASSERT_TRUE(read(with(kMangled, "00001100"), 32, &shape));
  EXPECT_EQ(shape.flops(), 2 * 549'755'813'888u);
}

// Five multiplications of the two of forward, one of them recomputed; the grid has keys.
TEST(AttentionFlops, OfTheBackwardPass) {
  AttentionShape shape;
  ASSERT_TRUE(read(with(kBackward, "0100110"), 32, &shape));
  EXPECT_TRUE(shape.backward);
  EXPECT_EQ(shape.length, 4096u);
  EXPECT_EQ(shape.precision, Precision::kBf16);
  EXPECT_EQ(shape.flops(), 549'755'813'888u / 2 * 5);
  EXPECT_EQ(shape.model_flops(), 549'755'813'888u * 2);
}

// The order of the flags in each version, by how many there are.
TEST(AttentionFlops, KnowsTheVersions) {
  // dropout, causal[, local[, alibi]], even MN, even K[, softcap], return softmax
  for (const char* flags : {"01110", "010110", "0100110", "01001100"}) {
    AttentionShape shape;
    for (const char* name : {kMangled, kDemangled}) {
      ASSERT_TRUE(read(with(name, flags), 2, &shape)) << flags;
      EXPECT_TRUE(shape.causal);
      EXPECT_EQ(shape.length, 256u);
      EXPECT_EQ(shape.head_dimension, name == kMangled ? 128u : 64u);
    }
  }
  for (const char* flags : {"0111", "01011", "010011", "0100110"}) {
    AttentionShape shape;
    ASSERT_TRUE(read(with(kBackward, flags), 2, &shape)) << flags;
    EXPECT_TRUE(shape.causal);
  }
}

TEST(AttentionFlops, SaysNothingWhereNameAndGridDoNot) {
  AttentionShape shape;
  EXPECT_FALSE(read(with(kDemangled, "0100010"), 2, &shape));   // lengths are not whole blocks
  EXPECT_FALSE(read(with(kMangled, "01001000"), 2, &shape));    // a smaller head dimension
  EXPECT_FALSE(read(with(kMangled, "00101100"), 2, &shape));    // a local window
  EXPECT_FALSE(read(with(kMangled, "0100110000"), 2, &shape));  // a version that is to come
  EXPECT_FALSE(read(with(kMangled, "0100"), 2, &shape));
  EXPECT_FALSE(read(with(kMangled, "01001100"), 0, &shape));
  EXPECT_FALSE(read("flash_fwd_kernel", 2, &shape));
  EXPECT_FALSE(read("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 2, &shape));
  EXPECT_FALSE(
      read("void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128, 12, 2, false, "
           "1, cutlass::bfloat16_t, 128>, true, flash::SingleTileScheduler>(int)",
           2, &shape));
  // Cut off anywhere: no crash, and no answer from half of the flags.
  const std::string whole = with(kMangled, "01001100");
  for (size_t length = 0; length + 1 < whole.find("EEv"); ++length) {
    EXPECT_FALSE(read(whole.substr(0, length), 2, &shape)) << length;
  }
}

TEST(AttentionFlops, RefusesWhatHasNoRoom) {
  AttentionShape shape;
  AttentionTraits traits = attention_traits(with(kMangled, "01001100"));
  EXPECT_FALSE(attention_shape(traits, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, &shape));
  EXPECT_FALSE(attention_shape(traits, {1, UINT32_MAX, UINT32_MAX}, &shape));
  EXPECT_FALSE(attention_shape(traits, {1 << 17, 1, 1}, &shape));
  EXPECT_FALSE(attention_shape(AttentionTraits{}, {32, 4, 32}, &shape));
  std::string name = with(kMangled, "01001100");
  name.replace(name.find("Li128ELi128"), 11, "Li65536ELi65536");
  EXPECT_EQ(attention_traits(name).block, 0u);
}

// 64 tokens to 64, 2 heads of 128, not causal, by hand: 4 x 2 x 64 x 64 x 128 forward.
constexpr AttentionShape kForwardShape = {
    .batch_heads = 2, .length = 64, .head_dimension = 128, .precision = Precision::kBf16};
constexpr uint64_t kForwardFlops = 4'194'304;

AttentionShape backward_of(AttentionShape shape) {
  shape.backward = true;
  return shape;
}
AttentionShape of_length(uint64_t length) {
  AttentionShape shape = kForwardShape;
  shape.length = length;
  return shape;
}

// In deterministic mode the backward grid is 132 SMs / (batch x heads): not what forward had.
TEST(AttentionSums, BackwardNeedsItsForward) {
  AttentionSums sums = {};
  EXPECT_FALSE(sums.add(backward_of(kForwardShape)));
  EXPECT_EQ(sums.executed(), FlopSum{});
  EXPECT_EQ(sums.model(), FlopSum{});
  EXPECT_TRUE(sums.add(kForwardShape));
  EXPECT_TRUE(sums.add(backward_of(kForwardShape)));
  EXPECT_FALSE(sums.add(backward_of(of_length(128))));
  AttentionShape causal = backward_of(kForwardShape);
  causal.causal = true;
  EXPECT_FALSE(sums.add(causal));
  EXPECT_EQ(sums.executed().value(), kForwardFlops + kForwardFlops / 2 * 5);
  EXPECT_EQ(sums.model().value(), 3 * kForwardFlops);
}

TEST(AttentionSums, RecomputedForwardPassesAreNoWorkOfTheModel) {
  AttentionSums sums = {};
  for (int step = 0; step < 10; ++step) {
    EXPECT_TRUE(sums.add(kForwardShape));
    EXPECT_TRUE(sums.add(kForwardShape));  // recomputed
    EXPECT_TRUE(sums.add(backward_of(kForwardShape)));
  }
  EXPECT_EQ(sums.executed().value(), 10 * (2 * kForwardFlops + kForwardFlops / 2 * 5));
  EXPECT_EQ(sums.model().value(), 10 * 3 * kForwardFlops);
  // A shape that never runs backwards is somebody's inference, whatever others do.
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(sums.add(of_length(128)));
  EXPECT_EQ(sums.model().value(), 10 * 3 * kForwardFlops + 7 * 4 * kForwardFlops);
}

TEST(AttentionSums, ForgetsShapesAndNoFlops) {
  AttentionSums sums = {};
  unsigned __int128 executed = 0;
  unsigned __int128 model = 0;
  for (uint64_t length = 64; length < 64 + 1000; ++length) {
    const AttentionShape forward = of_length(length);
    EXPECT_TRUE(sums.add(forward));
    EXPECT_TRUE(sums.add(forward));
    EXPECT_TRUE(sums.add(backward_of(forward)));
    executed += 2 * forward.flops() + backward_of(forward).flops();
    model += forward.flops() + backward_of(forward).model_flops();
    EXPECT_EQ(sums.executed().value(), executed);
    EXPECT_EQ(sums.model().value(), model);
  }
  EXPECT_FALSE(sums.add(backward_of(of_length(64))));  // forgotten
  EXPECT_EQ(sums.executed().value(), executed);
}

}  // namespace
}  // namespace mfu
