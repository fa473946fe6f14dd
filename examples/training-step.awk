# Generates a training step of one node's GPUs, for `replay` to run in place of a training program (the format is that of
# tests/fake/replay_script.hh).
#
#   awk -f training-step.awk -v step_ns=930000000 -v gpus=8 -v blocks=8 -v compute=0.93 -v exposed=0.03 -v hidden=0.3 \
#       -v gemm=sm90_xmma_gemm_bf16 -v forward_collective=AllGather -v backward_collective=ReduceScatter_Sum_bf16
#
# step_ns   from the start of one step to that of the next. Of it
# compute   is the share in which compute kernels run,
# exposed   that in which a collective runs alone,
# hidden    that in which a collective runs under compute kernels. In the rest nothing runs.
# blocks    groups of layers: a real run launches many times more kernels, which would only keep this machine busy
#
# gemm, forward_collective and backward_collective are names of kernels, the latter two as NCCL's, between ncclDevKernel_ and
# _RING_LL.
#
# A block's pass is kernels back to back, a collective that begins under them and outlasts them, and a gap. Backward takes
# twice the time of forward. All GPUs do the same. The second line, a comment, has the sums.

# A pass's kernels, and the share of its compute time that each takes, in percent.
function kernels_of(pass) {
    return pass == "forward" ? "norm:5 gemm:30 flash_forward:15 gemm:50" : "norm:5 gemm:30 flash_backward:20 gemm:45"
}

function declare(kernel, text) {
    number[kernel] = declared++
    declarations = declarations sprintf("name %d %s\n", number[kernel], text)
}

# run KERNEL START END STREAM: on each GPU.
function run(kernel, start, end, stream,    gpu) {
    for (gpu = 0; gpu < gpus; gpu++)
        operations[count++] = sprintf("k %d %d %d %d 0 0 0 0 132,1,1 256,1,1 %d", gpu, stream, start, end, number[kernel])
}

# block PASS BEGIN WIDTH: nanoseconds.
function block(pass, begin, width,    list, length_of_list, i, part, percent, start, end) {
    length_of_list = split(kernels_of(pass), list, " ")
    end = int(begin)
    for (i = 1; i <= length_of_list; i++) {
        split(list[i], part, ":")
        percent += part[2]
        start = end
        end = int(begin + width * compute * percent / 100)
        run(part[1], start, end, 7)
    }
    compute_ns += end - int(begin)
    start = int(begin + width * (compute - hidden))
    hidden_ns += end - start
    exposed_ns -= end
    end = int(begin + width * (compute + exposed))
    exposed_ns += end
    run(pass "_collective", start, end, 13)
}

BEGIN {
    replay_pause_ns = 1000000 # between repetitions
    optimizer_ns = int(step_ns / 1000)
    blocks_ns = step_ns - replay_pause_ns - optimizer_ns
    at = "void at::native::(anonymous namespace)::"
    declare("norm", at "vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*)")
    declare("gemm", gemm)
    declare("flash_forward", "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false> >(flash::Flash_fwd_params)")
    declare("flash_backward", "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64> >(flash::Flash_bwd_params)")
    declare("optimizer", at "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false> >()")
    declare("forward_collective", "ncclDevKernel_" forward_collective "_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    declare("backward_collective", "ncclDevKernel_" backward_collective "_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    width = blocks_ns / (3 * blocks)
    for (i = 0; i < blocks; i++) block("forward", i * width, width)
    for (i = 0; i < blocks; i++) block("backward", (blocks + 2 * i) * width, 2 * width)
    run("optimizer", blocks_ns, blocks_ns + optimizer_ns, 7)
    compute_ns += optimizer_ns
    printf "mfu-replay 1\n# compute_ns=%d exposed_ns=%d hidden_ns=%d\n", compute_ns, exposed_ns, hidden_ns
    printf "%s", declarations
    fflush()
    sorter = "sort -s -n -k4,4"
    for (i = 0; i < count; i++) print operations[i] | sorter
    close(sorter)
}
