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
  return attention_shape(name, grid, shape);
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
  EXPECT_TRUE(is_flash_attention(whole));
  EXPECT_TRUE(is_flash_attention(with(kBackward, "0100110")));
  EXPECT_TRUE(is_flash_attention("flash_fwd_splitkv_kernel"));
  EXPECT_FALSE(is_flash_attention("flash_bwd_dot_do_o_kernel"));
}

// In deterministic mode the backward grid is 132 SMs / (batch x heads): not what forward had.
TEST(AttentionFlops, BackwardNeedsItsForward) {
  AttentionPairs pairs;
  AttentionShape forward, backward, odd;
  ASSERT_TRUE(read(with(kMangled, "01001100"), 32, &forward));
  ASSERT_TRUE(read(with(kBackward, "0100110"), 32, &backward));
  ASSERT_TRUE(read(with(kBackward, "0100110"), 2, &odd));
  forward.precision = backward.precision;
  EXPECT_FALSE(pairs.accept(backward));
  EXPECT_TRUE(pairs.accept(forward));
  EXPECT_TRUE(pairs.accept(backward));
  EXPECT_FALSE(pairs.accept(odd));
  for (uint64_t i = 1; i <= 100; ++i) {
    AttentionShape other = forward;
    other.length = i;
    EXPECT_TRUE(pairs.accept(other));
  }
  EXPECT_FALSE(pairs.accept(backward));  // forgotten
}

}  // namespace
}  // namespace mfu
