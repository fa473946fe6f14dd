// Names of a transformer's training step, as CUPTI hands them out; the last ones communicate.
#ifndef MFU_TESTS_BENCH_KERNEL_NAMES_HH_
#define MFU_TESTS_BENCH_KERNEL_NAMES_HH_

#include <cstddef>

namespace mfu::bench {

inline constexpr const char* kComputeNames[] = {
    "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
    "nvjet_tst_128x256_64x4_2x1_v_bz_coopB_NNT",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
    "segment_"
    "k_off_kernel__5x_cublas",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_stage3_warpsize2x2x1_tensor16x8x8_"
    "kernel",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x64_32x4_nn_align8",
    "_ZN7cutlass13device_kernelIN5flash11enable_sm90INS1_16FlashAttnFwdSm90INS1_"
    "25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEENS6_IJNS7_ILi128EEESA_SA_"
    "EEELi128ENS_10bfloat16_tEfNS_4arch4Sm90ELb1ELb0ELb0EEEEEEEEEvNT_6ParamsE",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(Flash_fwd_params)",
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8> >("
    "Flash_bwd_params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, "
    "3ul>)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::BFloat16>, "
    "std::array<char*, 1ul> >(int, at::native::FillFunctor<c10::BFloat16>, std::array<char*, 1ul>)",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >(float)",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, "
    "c10::BFloat16>(c10::BFloat16*, c10::BFloat16 const*, int)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::TensorListMetadata<4>, FusedAdamMathFunctor<float> >(int)",
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<c10::BFloat16, float>("
    "c10::BFloat16 const*, int)",
    "triton_poi_fused_add_mul_silu_3",
    "triton_red_fused__to_copy_native_layer_norm_native_layer_norm_backward_11",
    "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<Kernel_traits<float> >("
    "ForwardKernelParams)",
    "void (anonymous namespace)::elementwise_kernel_with_index<int, arange_cuda_out>(int)",
};
inline constexpr const char* kCommunicationNames[] = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
};

}  // namespace mfu::bench

#endif
