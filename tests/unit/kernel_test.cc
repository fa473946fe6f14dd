// Names written out here come from the libraries' own strings, from profiles and from the shapes
// the libraries' generators give them; the table of real names is read from shared/data/kernels.
#include "profiler/kernel.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace mfu {
namespace {

struct NamedCollective {
  const char* name;
  Collective collective;
};

TEST(Kernel, communication_by_every_generation_of_names) {
  const std::vector<NamedCollective> names = {
      // NCCL to 2.7, to 2.18, from 2.19, symmetric 2.27 and 2.28, demangled and mangled.
      {"ncclAllReduceRingLLKernel_sum_f32(ncclColl)", Collective::kAllReduce},
      {"ncclReduceScatterRingLLKernel_sum_f16(ncclColl)", Collective::kReduceScatter},
      {"ncclAllGatherRingLLKernel_copy_i8(ncclColl)", Collective::kAllGather},
      {"ncclBroadcastRingLLKernel_copy_i8(ncclColl)", Collective::kBroadcast},
      {"ncclReduceRingLLKernel_sum_f32(ncclColl)", Collective::kReduce},
      {"ncclSendRecvKernel_copy_i8(ncclColl)", Collective::kSendReceive},
      {"_Z33ncclAllReduceRingLLKernel_sum_f328ncclColl", Collective::kAllReduce},
      {"ncclKernel_AllReduce_TREE_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
       Collective::kAllReduce},
      {"ncclKernel_Reduce_RING_LL_Sum_float(ncclWorkElem)", Collective::kReduce},
      {"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", Collective::kAllGather},
      {"ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", Collective::kBroadcast},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       Collective::kAllReduce},
      {"ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       Collective::kReduce},
      {"ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)", Collective::kSendReceive},
      {"_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE", Collective::kSendReceive},
      {"_Z43ncclDevKernel_ReduceScatter_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
       Collective::kReduceScatter},
      {"ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)", Collective::kOther},
      {"ncclDevKernelDebug_Generic_4(ncclDevKernelArgsStorage<4096ul>)", Collective::kOther},
      {"ncclSymDevKernel_AllGather_STMC(ncclSymDevArgs)", Collective::kAllGather},
      {"ncclSymkDevKernel_ReduceScatter_LDMC_sum_f32(ncclSymkDevWorkArgs4K)",
       Collective::kReduceScatter},
      {"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f16(ncclSymkDevWorkArgs4K)",
       Collective::kAllReduce},
      // Expert parallelism.
      {"void deep_ep::intranode::dispatch<8, 768>(int4*, float*, int*)", Collective::kAllToAll},
      {"_ZN7deep_ep12internode_ll7combineILi3ELi7168EEEvPvPf", Collective::kAllToAll},
      {"void dpsk::ep::internode::notify_dispatch<false, 8>(int const*)", Collective::kAllToAll},
      {"_ZN4dpsk2ep9internode8dispatchILb0ELi8EEEvP4int4", Collective::kAllToAll},
      {"void deep_ep::internode_ll::clean_low_latency_buffer<512>(int*, int)", Collective::kOther},
      {"void hybrid_ep::dispatch_kernel<1, 2>(hybrid_ep::param)", Collective::kAllToAll},
      {"void hybrid_ep::device_sync_kernel<8>(unsigned int*)", Collective::kOther},
      {"void moeA2ADispatchKernel<8>(int const*)", Collective::kAllToAll},
      {"tensorrt_llm::kernels::moeAllToAllKernel(MoeEpWorldInfo)", Collective::kAllToAll},
      // Custom all-reduce, symmetric memory, user buffers, NVSHMEM, MSCCL.
      {"void vllm::cross_device_reduce_1stage<__half, 4>(vllm::RankData*)", Collective::kAllReduce},
      {"_ZN6sglang26cross_device_reduce_2stageI6__halfLi8EEEvPNS_8RankDataE",
       Collective::kAllReduce},
      {"void quickreduce::allreduce_prototype_twoshot<1>(__half const*)", Collective::kAllReduce},
      {"void oneShotAllReduceKernel<__half, 8, true, false>(AllReduceParams)",
       Collective::kAllReduce},
      {"void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8>()",
       Collective::kAllReduce},
      {"void allreduce_fusion_kernel_oneshot_lamport<1, 8>()", Collective::kAllReduce},
      {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>()",
       Collective::kAllReduce},
      {"void (anonymous namespace)::multimem_all_gather_kernel<16>()", Collective::kAllGather},
      {"_ZN12_GLOBAL__N_114barrier_kernelEPPjiiim", Collective::kOther},
      {"void c10d::nccl_extension::reduce_scatter_offset_kernel<float, true>()",
       Collective::kReduceScatter},
      {"void kuserbuffers_pushrecv(int, int, int, int, int*, int*, int)", Collective::kSendReceive},
      {"void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)", Collective::kReduceScatter},
      {"void userbuffers_fp16_sum_inplace_gpu_rw_ag<8>(int)", Collective::kAllGather},
      {"void nvshmemi_transfer_rma_on_stream_kernel<false>()", Collective::kOther},
      {"void mscclpp::collective::allgather(int)", Collective::kAllGather},
      // MSCCL runs any schedule under this name: the "Sum" tells no collective.
      {"mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
       Collective::kOther},
  };
  for (const NamedCollective& expected : names) {
    KernelKind kind = classify_kernel(expected.name);
    EXPECT_TRUE(kind.communication) << expected.name;
    EXPECT_STREQ(collective_name(kind.collective), collective_name(expected.collective))
        << expected.name;
    EXPECT_FALSE(kind.gemm) << expected.name;
  }
}

TEST(Kernel, lookalikes_are_compute) {
  for (const char* name : {
           "",
           "_Z",
           "_Z9999999999999999999999999ncclKernel_",
           "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
           "_ZN7deep_ep6layout19get_dispatch_layoutILi256ELi32ELi8EEEvPKl",
           "triton_poi_fused_all_gather_into_tensor_out_wait_tensor_0",
           "triton_red_fused__to_copy_reduce_scatter_tensor_1",
           "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
           "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)",
           "void hybrid_ep::scan<1>(hybrid_ep::tmp_state_t*)",
           "void moeA2APrepareDispatchKernel(int)",
           "void check_for_nan<float>(ncclComm*, float*)",
           "void my_internode_helper(int)",
           "void dispatch_kernel(int)",
           "spin_kernel(long)",
       }) {
    KernelKind kind = classify_kernel(name);
    EXPECT_FALSE(kind.communication) << name;
    EXPECT_EQ(kind.collective, Collective::kNone) << name;
  }
}

struct NamedPrecision {
  const char* name;
  Precision precision;
};

TEST(Kernel, precision_of_matrix_multiplications) {
  const std::vector<NamedPrecision> names = {
      // cuBLAS.
      {"volta_sgemm_128x64_nn", Precision::kFp32},
      {"ampere_sgemm_32x32_sliced1x4_tn", Precision::kFp32},
      {"ampere_dgemm_64x64_nn", Precision::kFp64},
      {"volta_zgemm_32x32_nn", Precision::kFp64},
      {"volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", Precision::kFp16},
      {"volta_h884gemm_64x64_ldg8_nn", Precision::kFp16},
      {"turing_s1688gemm_fp16_128x128_ldg8_f2f_tn", Precision::kFp16},
      {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", Precision::kBf16},
      {"ampere_fp16_s16816gemm_fp16_128x128_ldg8_relu_stages_32x5_nn", Precision::kFp16},
      {"ampere_int32_i16832gemm_int8_128x128_ldg16_stages_64x3_tn", Precision::kInt8},
      {"turing_int8_i8816gemm_int8_256x128_ldg16_nt", Precision::kInt8},
      {"void sgemm_largek_lds64<true, false, 5, 5, 4, 4, 4, 34>(float*)", Precision::kFp32},
      {"_Z12dgemm_largekILb1ELb1ELi5ELi5ELi4ELi4ELi4ELi34EEvPdPKdS2_", Precision::kFp64},
      // CUTLASS inside cuBLAS.
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>"
       "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8::Params)",
       Precision::kBf16},
      {"_ZN7cutlass7Kernel2I65cutlass_80_tensorop_f16_s16816gemm_f16_grouped_256x128_32x3_tn_"
       "align8EEvNT_6ParamsE",
       Precision::kFp16},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>()",
       Precision::kTf32},
      {"void cutlass::Kernel2<cutlass_80_tensorop_s1688bf16gemm_64x64_16x6_nn_align4>()",
       Precision::kBf16},
      {"void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_32x32_16x5_tn_align1>()",
       Precision::kFp64},
      {"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>()", Precision::kFp32},
      {"cutlass_tensorop_s1688tf32gemm_256x128_16x3_nn_align4", Precision::kTf32},
      {"cutlass3x_sm100_tensorop_s256x256x16gemm_bf16_bf16_f32_bf16_bf16_256x256x64_0_tnn_align8",
       Precision::kBf16},
      {"cutlass3x_sm100_tensorop_s256x256x8tf32gemm_f32_f32_f32_f32_f32_256x256x32_0_tnn",
       Precision::kTf32},
      {"cutlass3x_sm100_tensorop_i256x256x32gemm_s8_s8_s32_s32_s32_256x256x128", Precision::kInt8},
      {"cutlass3x_sm100_tensorop_s128x64x32gemm_e5m2_e4m3_f32_f16_f16_128x64x128", Precision::kFp8},
      {"cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32_f16_f16_"
       "256x192x256_0_tnn",
       Precision::kFp4},
      {"cutlass3x_sm120_bstensorop_s16832gemm_block_scaled_ue8m0xe4m3_ue8m0xe5m2_f32_bf16_bf16_"
       "128x128x128",
       Precision::kFp8},
      {"cutlass3x_sm90_tensorop_gemm_f16_f16_f32_void_f32_128x128x64_2x1x1_0_tnt",
       Precision::kFp16},
      // xmma: memory types, then what multiplies.
      {"sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize192x128x32_stage4_kernel", Precision::kFp16},
      {"sm90_xmma_gemm_bf16f32_bf16f32_f32_nt_n_tilesize128x128x64_kernel", Precision::kBf16},
      {"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_kernel", Precision::kTf32},
      {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_ffma_kernel", Precision::kFp32},
      {"sm90_xmma_gemm_f64f64_f64f64_f64_nt_n_tilesize128x128x16_kernel", Precision::kFp64},
      {"sm90_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize128x128x128_kernel", Precision::kInt8},
      {"sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x64x64_kernel", Precision::kFp8},
      {"sm89_xmma_gemm_e4m3e5m2bf16_e4m3e5m2f32_f32_tn_n_tilesize64x64x64", Precision::kFp8},
      // nvjet, with and without the architecture.
      {"nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", Precision::kBf16},
      {"nvjet_sm103_tss_64x32_64x16_2x2_2cta_h_bz_splitK_TNT", Precision::kBf16},
      {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", Precision::kFp16},
      {"nvjet_sm90_hss_64x8_64x16_1x1_h_bz_splitK_NNT", Precision::kFp16},
      {"nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", Precision::kFp8},
      {"nvjet_rqtst_128x256_128x6_2x1_v_bz_TNT", Precision::kFp8},
      {"nvjet_sm100_ootst_128x128_256x7_4x1_2cta_v_bx_Avec16UE4M3_Bvec16UE4M3_TNT",
       Precision::kFp4},
      {"nvjet_sm120_sss_tf32_mma_32x64x32_4_tmaAB_bz_TNNN", Precision::kTf32},
      {"nvjet_sm120_biu_mma_256x128x128_2_64x64x128_tmaAB", Precision::kInt8},
      // Others.
      {"void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u>()", Precision::kFp8},
      {"_ZN9deep_gemm15fp8_gemm_kernelILj4096ELj7168EEEvPv", Precision::kFp8},
      {"void deep_gemm::sm90_bf16_gemm_impl<(cute::UMMA::Major)0>()", Precision::kBf16},
      {"bmm_Bfloat16_E2m1E2m1_Fp32_t128x16x256_s6_et128x16", Precision::kFp4},
      {"bmm_E4m3_E4m3E4m3_Fp32_t128x64x128u2_s6_et64x64", Precision::kFp8},
      // Not stated, or stated as a mixture: unknown rather than a guess.
      {"nvjet_sm100_sss_128x256", Precision::kUnknown},
      {"nvjet_xyz_128x256_64x4", Precision::kUnknown},
      {"nvjet_", Precision::kUnknown},
      {"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2", Precision::kUnknown},
      {"void deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<(cute::UMMA::Major)0>()", Precision::kUnknown},
      {"cutlass_tensorop_s1688gemm_128x128_16x4_nn_align4", Precision::kUnknown},
      {"volta_s884gemm_128x128_ldg8_nn", Precision::kUnknown},
      {"volta_cgemm_int8_32x32_nn", Precision::kUnknown},
      {"cutlass3x_sm100_tensorop_s256x128x16_9xbf16gemm_f32_f32_f32_f32_f32_256x128x32",
       Precision::kUnknown},
      {"cutlass3x_sm120_bstensorop_s16832gemm_block_scaled_ue8m0xe3m2_ue8m0xe3m2_f32_f16_f16",
       Precision::kUnknown},
      {"_ZN7cutlass7Kernel2IN17cublasLt_imma_emu51cutlass_80_tensorop_d884gemm_64x32_16x4_nn_"
       "align1EEEvNT_6ParamsE",
       Precision::kUnknown},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, __nv_bfloat16>()",
       Precision::kUnknown},
      {"void gemv2T_kernel_val<int, int, float, float, float, float, 128>()", Precision::kUnknown},
      {"matmul_kernel", Precision::kUnknown},
      {"triton_tem_fused_addmm_0", Precision::kUnknown},
      {"fused_moe_kernel", Precision::kUnknown},
      {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int>>()",
       Precision::kUnknown},
  };
  for (const NamedPrecision& expected : names) {
    KernelKind kind = classify_kernel(expected.name);
    EXPECT_TRUE(kind.gemm) << expected.name;
    EXPECT_FALSE(kind.communication) << expected.name;
    EXPECT_STREQ(precision_name(kind.precision), precision_name(expected.precision))
        << expected.name;
  }
}

TEST(Kernel, other_kernels_are_no_matrix_multiplications) {
  for (const char* name : {
           "void at::native::vectorized_elementwise_kernel<4, fbgemm_gpu::_float_to_hfp8_gpu()>()",
           "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*, int const*)",
           "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16",
           "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>()",
           "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>()",
           "triton_tem_fused_flex_attention_0",
           "triton_poi_fused_add_0",
           "dpsk::grouped_gemm::cuda::utils::fill_tensormaps_kernel(CUtensorMap_st)",
       }) {
    KernelKind kind = classify_kernel(name);
    EXPECT_FALSE(kind.gemm) << name;
    EXPECT_EQ(kind.precision, Precision::kUnknown) << name;
  }
}

TEST(Kernel, attention_and_convolutions_multiply) {
  for (const char* name : {
           // FlashAttention 2, 3 and 4.
           "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>()",
           "_Z44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23Flash_bwd_kernel_traitsILi128EE",
           "flash_fwd_splitkv_kernel",
           "void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128, 12, 2, false>>()",
           "_ZN7cutlass13device_kernelIN5flash11enable_sm90INS1_16FlashAttnFwdSm90INS1_",
           "kernel_cutlass_kernel_flash_attncuteflash_bwd_sm100FlashAttentionBackwardSm100_object",
           // cuDNN, xformers and torch, TensorRT-LLM, Triton, FlashInfer.
           "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128_4x1x1",
           "fmha_cutlassB_bf16_aligned_128x64_k64_sm80(AttentionBackwardKernel::Params)",
           "_ZN9pytorch__23attention_kernel_batched_implEv",
           "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64MultiCtasKvCgaVarSeqQ8Kv128",
           "_attn_fwd",
           "_attn_bwd_dkdv",
           "triton_tem_fused_flex_attention_backward_1",
           "void flashinfer::BatchPrefillWithPagedKVCacheKernel<128>()",
           // Chunks.
           "_chunk_scan_bwd_dcb_kernel",
           "_bmm_chunk_fwd_kernel",
           // Convolutions.
           "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16",
           "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>()",
           "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
           "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
           "volta_scudnn_128x64_stridedB_interior_nn_v1",
           "void cudnn::detail::dgrad_engine<float, 128, 6, 7, 3, 3, 5, false>(int)",
           "cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64>()",
           "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4>>()",
       }) {
    const KernelKind kind = classify_kernel(name);
    EXPECT_TRUE(kind.multiplies) << name;
    EXPECT_FALSE(kind.gemm || kind.communication) << name;
  }
}

TEST(Kernel, what_stands_around_attention_does_not_multiply) {
  for (const char* name : {
           "flash_bwd_dot_do_o_kernel",
           "flash_bwd_convert_dq_kernel",
           "flash_fwd_splitkv_combine_kernel",
           "void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<>>>()",
           "void cutlass::device_kernel<flash::FlashAttnBwdPostprocessConvertdQ<cute::tuple<>>>()",
           "triton_poi_fused__scaled_dot_product_flash_attention_add_2",
           "triton_red_fused__to_copy_convolution_backward_3",
           "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(__nv_bfloat16 const*)",
           "cask_cudnn::computeWgradBOffsetsKernel(cask_cudnn::ComputeWgradBOffsetsParams)",
           "void "
           "cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK>()",
           "void at::native::convert_kernel<float>(float*)",
           "void at::native::vectorized_elementwise_kernel<4, attention_mask>()",
           "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>()",
           "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
           "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
           "",
       }) {
    EXPECT_FALSE(classify_kernel(name).multiplies) << name;
  }
}

TEST(Kernel, names_of_precisions_go_both_ways) {
  for (int i = 0; i < kPrecisions; ++i) {
    Precision precision = static_cast<Precision>(i);
    EXPECT_EQ(precision_from_name(precision_name(precision)), precision);
  }
  EXPECT_EQ(precision_from_name("fp16 "), Precision::kUnknown);
  EXPECT_EQ(precision_from_name(""), Precision::kUnknown);
  EXPECT_STREQ(precision_name(static_cast<Precision>(99)), "unknown");
  EXPECT_STREQ(collective_name(static_cast<Collective>(99)), "other");
}

// ---- real names ----

std::string shared_file(const std::string& path) {
  const char* root = std::getenv("MFU_SHARED");
  return std::string(root != nullptr ? root : "../shared") + "/" + path;
}

struct SeenName {
  std::string name;
  std::string expected_class;
};

std::vector<SeenName> read_names(const std::string& path) {
  std::vector<SeenName> names;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    size_t first = line.find('\t');
    size_t second = line.find('\t', first + 1);
    if (first == std::string::npos) continue;
    names.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1)});
  }
  return names;
}

bool one_of(const std::string& text, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* item) { return text == item; });
}

// Communication are the classes nccl-* and comm-*. Not judged: annotations and host functions,
// which are no kernels (NOT-A-KERNEL), and a fused GEMM with its communication, which no interval
// can split: that one is compute and a matrix multiplication.
class RealNames : public testing::TestWithParam<const char*> {};

TEST_P(RealNames, are_classified_as_expected) {
  std::vector<SeenName> names =
      read_names(shared_file("data/kernels/" + std::string(GetParam()) + ".tsv"));
  if (names.empty()) GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
  EXPECT_GT(names.size(), 90u);
  for (const SeenName& seen : names) {
    const std::string& expected = seen.expected_class;
    if (one_of(expected, {"ANNOTATION", "NOT-A-KERNEL"})) continue;
    KernelKind kind = classify_kernel(seen.name);
    bool communication = expected.rfind("nccl-", 0) == 0 || expected.rfind("comm-", 0) == 0;
    EXPECT_EQ(kind.communication, communication) << expected << ": " << seen.name;
    if (!communication) continue;
    std::string collective = expected.substr(5);
    // DeepEP's class names no collective, MSCCL's kernel does not state the one that is expected.
    if (collective == "deepep" || seen.name.find("mscclKernel") == 0) continue;
    if (one_of(collective, {"unknown", "barrier"})) collective = "other";
    EXPECT_EQ(collective_name(kind.collective), collective) << seen.name;
  }
}

// The class "gemm" of the table holds some that multiply no matrices: fbgemm's quantizers, cuBLAS's
// dot product and cublasLt's separate epilogue. Its class "conv" holds complex GEMMs of cuDNN's FFT
// convolution, which their names tell as nothing but GEMMs.
TEST_P(RealNames, tell_matrix_multiplications) {
  std::vector<SeenName> names =
      read_names(shared_file("data/kernels/" + std::string(GetParam()) + ".tsv"));
  if (names.empty()) GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
  for (const SeenName& seen : names) {
    bool expected = one_of(seen.expected_class, {"gemm", "mixed-gemm+comm"});
    for (const char* other :
         {"fbgemm_gpu::", "dot_kernel<", "reduce_1Block_kernel<", "epilogue::impl::globalKernel"}) {
      if (seen.name.find(other) != std::string::npos) expected = false;
    }
    if (seen.name.find("cgemm_") != std::string::npos) expected = true;
    EXPECT_EQ(classify_kernel(seen.name).gemm, expected) << seen.name;
  }
}

// None of the kernels that are neither attention nor a convolution.
TEST_P(RealNames, tell_what_else_multiplies) {
  std::vector<SeenName> names =
      read_names(shared_file("data/kernels/" + std::string(GetParam()) + ".tsv"));
  if (names.empty()) GTEST_SKIP() << "no shared data: set MFU_SHARED or run beside ../shared";
  size_t found = 0;
  for (const SeenName& seen : names) {
    const bool multiplies = classify_kernel(seen.name).multiplies;
    found += multiplies;
    if (one_of(seen.expected_class, {"attention", "conv", "ANNOTATION", "NOT-A-KERNEL"})) continue;
    EXPECT_FALSE(multiplies) << seen.expected_class << ": " << seen.name;
  }
  EXPECT_EQ(found > 0, std::string(GetParam()) == "seen");
}

INSTANTIATE_TEST_SUITE_P(Shared, RealNames, testing::Values("seen", "hard"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mfu
