#!/usr/bin/env bash
# What a user can ask for beyond the line: training steps that are counted, MFU from them, records to keep, NVTX and NCCL;
# and a step in which torch.profiler has its turn.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"
mfu_up update=10
analyze=$MFU_CLUSTER_DIR/mfu-analyze
cp "$build/mfu-analyze" "$analyze"

# A long one first: it is killed while the others run. It has done 60 steps by then.
killed=$(submit -n2 --gpus-per-task=1 --mfu-profile=flops-per-step=1e12 --wrap "
    srun train --ranks 2 --steps 400 --hang-at-step 60 --truth $work/killed.%r")

# --- training steps, counted

job=$(submit -n2 --gpus-per-task=1 --mfu-profile=flops-per-step=1e12 --wrap "srun train --ranks 2 --steps 40 --truth $work/counted.%r")
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
is "$(value "$l" steps)" '40(period)' 'steps are counted'
like "$(value "$l" step)" '^0\.0[45][0-9]*s$' 'the time of one: 50 ms'
is "$(sum "$l" model_flops)" 40000000000000 'FLOPs per step times the steps that were counted'
like "$(value "$l" mfu)" '^[0-9.]+%$' 'MFU without a declared number of steps'
same_as_truth "$l" 'counted' "$work"/counted.*

job=$(submit -n1 --gpus=1 --mfu-profile=step-kernel=multi_tensor_apply --wrap 'srun train --ranks 1 --steps 12')
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
is "$(value "$l" steps)" '12(kernel)' 'steps by a kernel that the user named'

job=$(submit -n1 --gpus=1 --mfu-profile=nvtx=on --wrap 'srun train --ranks 1 --steps 12 --nvtx')
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
is "$(value "$l" steps)" '12(nvtx)' 'steps by NVTX ranges'

job=$(submit -n1 --gpus=1 --mfu-profile=step-range=another --wrap 'srun train --ranks 1 --steps 12 --nvtx')
wait_job "$job"
is "$(value "$(line "$job" 's=0')" steps)" '12(period)' 'ranges of another name than the one that was named do not count'

job=$(submit -n1 --gpus=1 --mfu-profile=flops-per-step=1e12 --wrap 'srun train --ranks 1 --steps 2')
wait_job "$job"
is "$(value "$(line "$job" 's=0')" mfu)" 'n/a(no-steps)' 'two steps prove nothing'

# --- MFU from a model's shape

printf '%s\n' layers=4 hidden=4096 heads=32 ffn=16384 vocab=32000 >"$work/model"
flops=$("$build/mfu-analyze" flops --model "$work/model" --batch 4 --seq 2048 --json | jq -r .training.full)
job=$(submit -n2 --gpus-per-task=1 --mfu-profile="model=$work/model,batch=4,seq=2048" --wrap 'srun train --ranks 2 --steps 20')
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
like "$flops" '^[1-9][0-9]{12,}$' "mfu-analyze flops tells a training step's FLOPs"
is "$(sum "$l" model_flops)" "$((flops * 20))" 'model=: as many a step that was counted'
like "$(srun -n1 --gpus=1 --mfu-profile=model=/nonexistent/m,batch=1,seq=1 true 2>&1)" '/nonexistent/m' 'a model that cannot be read is refused'

# --- MFU and HFU from counted matrix multiplications, with nothing declared

# Of a step and rank of the generator's default shape, to the FLOP.
model=24661702213632 plain=24936580120576 recomputed=32083405701120
job=$(submit -n2 --gpus-per-task=1 --mfu-profile --wrap "srun train --ranks 2 --steps 20 --gemms --truth $work/gemms.%r")
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
is "$(value "$l" basis)" gemm 'counted: the basis is said'
is "$(sum "$l" model_flops)" "$((model * 20 * 2))" 'counted: the model FLOPs of every step, nothing declared'
is "$(sum "$l" executed_flops)" "$((plain * 20 * 2))" 'counted: the executed FLOPs'
is "$(truth model_flops "$work"/gemms.*)" "$((model * 20 * 2))" 'counted: the generator says the same'
like "$(value "$l" mfu) $(value "$l" hfu)" '^[1-9][0-9.]*% [1-9][0-9.]*%$' 'counted: MFU and HFU'
like "$(value "$l" counted)" '^[5-9][0-9.]+%$' 'counted: their share of the kernels'

job=$(submit -n2 --gpus-per-task=1 --mfu-profile --wrap "srun train --ranks 2 --steps 20 --gemms --recompute")
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
is "$(sum "$l" model_flops)" "$((model * 20 * 2))" 'recomputation is no work of the model'
is "$(sum "$l" executed_flops)" "$((recomputed * 20 * 2))" 'recomputation is executed'

job=$(submit -n1 --gpus=1 --mfu-profile=count=off --wrap "srun train --ranks 1 --steps 20 --gemms")
wait_job "$job"
l=$(line "$job" 's=0')
is "$(value "$l" mfu) $(value "$l" hfu)" 'n/a(no-flops) n/a(count-off)' 'count=off leaves cuBLAS alone'

# --- a site's own peaks

printf 'NVIDIA H100 80GB HBM3\tOurs\tbf16=800\n' >"$MFU_CLUSTER_DIR/peaks"
mfu_plugin update=10 peaks="$MFU_CLUSTER_DIR/peaks"
job=$(submit -n1 --gpus=1 --mfu-profile=flops=1e12 --wrap 'srun train --ranks 1 --steps 20')
wait_job "$job"
l=$(line "$job" 's=0')
is "$(value "$l" gpus) $(value "$l" peak)" '1xOurs 800(bf16,file)' 'peaks= goes before the table, and the line says so'
printf 'NVIDIA H100 80GB HBM3\tOurs\tbf16=many\n' >"$MFU_CLUSTER_DIR/peaks"
job=$(submit -n1 --gpus=1 --mfu-profile=flops=1e12 --wrap 'srun train --ranks 1 --steps 20')
wait_job "$job"
is "$(value "$(line "$job" 's=0')" peak)" '989.4(bf16)' 'a broken file costs no line'
like "$(<"$MFU_CLUSTER_DIR/log/collector.log")" 'peaks: line 1: ' 'and is told where collectors report'
mfu_plugin update=10

# --- records that are kept, with what NCCL tells

mkdir "$work/kept" && chown alice "$work/kept"
job=$(submit_as alice -n4 --gpus-per-task=1 --mfu-profile="keep=$work/kept,nccl=on" --wrap "
    srun train --ranks 4 --steps 20 --nccl 5 --truth $work/kept/truth.%r")
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
is "$(find "$work/kept" -name "$job.0.[0-3].*.0.mfu" -user alice | wc -l)" 4 "keep=: a record of each task, the user's own"
is "$(find "$work/kept" -name '*.new' | wc -l)" 0 'keep=: nothing half-written'
told=$work/told.json
"$analyze" --json "$work/kept" >"$told"
is "$(jq -r '.errors | length' "$told")" 0 'mfu-analyze reads them'
for pair in span_ns:span_ns compute_ns:compute_ns exposed_communication_ns:exposed_comm_ns overlapped_communication_ns:overlapped_comm_ns \
    exposed_memory_ns:exposed_memory_ns idle_ns:idle_ns; do
    is "$(jq ".total.${pair%:*}" "$told")" "$(truth "${pair#*:}" "$work"/kept/truth.*)" "kept records: ${pair%:*} is the truth's"
done
is "$(jq -c '[.files[] | .rank]' "$told")" '[0,1,2,3]' 'kept records: ranks are the tasks'
is "$(jq -c '[.files[].devices[].steps_found.count] | unique' "$told")" '[20]' 'kept records: training steps'
calls=$(truth communication_kernels "$work"/kept/truth.*)
is "$(jq '[.files[].record.nccl.collectives.allreduce.count] | add' "$told")" "$calls" 'NCCL tells every call'
is "$(jq '[.files[].record.nccl.collectives.allreduce.bytes] | add' "$told")" $((calls * 2097152)) 'and its bytes'
is "$(jq '[.files[].record.nccl.collectives.allreduce.bus_bytes] | add' "$told")" $((calls * 2097152 * 3 / 2)) 'and bus bytes of 4 ranks'
is "$(jq -c '[.files[].record.nccl.list[0] | [.name, .ranks]] | unique' "$told")" '[["world",4]]' 'of the communicator'
like "$("$analyze" "$work/kept")" 'bus GB/s' 'the table shows bus bandwidth'

# --- the places of others

mine() { # OPTION VARIABLE [VALUE]: what a task finds in the variable; "unset"
    env ${3:+"$2=$3"} srun -Q -n1 --gpus=1 --mfu-profile="$1" sh -c "echo \"\${$2-unset}\""
}
is "$(mine nvtx=on NVTX_INJECTION64_PATH)" "$product/libmfu_profiler.so" "nvtx=on takes NVTX's place"
is "$(mine nvtx=on NVTX_INJECTION64_PATH /a/tool.so)" /a/tool.so "but not the user's"
is "$(mine on NVTX_INJECTION64_PATH)" unset 'nor unasked'
is "$(mine nccl=on NCCL_PROFILER_PLUGIN)" libmfu_profiler.so "nccl=on takes NCCL's"
is "$(mine nccl=on NCCL_PROFILER_PLUGIN inspector)" inspector "but not the user's"
is "$(mine on NCCL_PROFILER_PLUGIN)" unset 'nor unasked'
job=$(submit -n1 --gpus=1 --mfu-profile=nvtx=on,nccl=on,keep=/tmp --wrap '
    srun --mfu-profile=off sh -c "env | grep -E \"^(NVTX_INJECTION64_PATH|NCCL_PROFILER_PLUGIN|MFU_(RECORD|KEEP)_DIR|CUDA_INJECTION64_PATH)=\"; echo ran" >'"$work/left")
wait_job "$job"
is "$(cat "$work/left")" ran 'off in an inner step leaves nothing of them'
like "$(srun -n1 --gpus=1 --mfu-profile=keep=/nonexistent/folder true 2>&1)" 'keep=/nonexistent/folder: No such file' \
    'a folder that is not there is told at once'

# --- torch.profiler has its turn: its profile is whole, and ours comes back after it

job=$(submit -n1 --gpus=1 --mfu-profile=on --wrap 'srun train --ranks 1 --steps 120 --kineto-from-step 20 --kineto-steps 20')
wait_job "$job"
is "$(sacct_field "$job" State)" COMPLETED "torch.profiler's own profile is whole"
l=$(line "$job" 's=0')
diagnose "$l"
like "$(value "$l" cover)" '^0\.0%/[5-8][0-9]\.[0-9]%\(gap\)$' 'its turn is told as a gap, and no more than it'
is "$(value "$l" steps)" '' 'with kernels missing, steps are not counted'

# --- killed

ok 'the long one has done its steps' wait_until 60 all_there "$work"/killed.{0,1}
caught_up "$killed.0" "$work"/killed.{0,1}
scancel "$killed"
wait_job "$killed"
l=$(line "$killed" ' s=0[ ,]')
diagnose "$l"
is "$(value "$l" steps)" '60(period)' 'killed: the steps that were done'
is "$(sum "$l" model_flops)" 60000000000000 'killed: and their FLOPs'
like "$(value "$l" mfu)" '^[0-9.]+%$' 'killed: with an MFU'
like "$(value "$l" goodput)" '^[1-9][0-9.]*%\(tail\)$' 'killed: what hung is its loss'
is "$(value "$l" power)" 500W "the GPUs' power"
like "$(value "$l" energy)" '^(49\.[5-9]|50\.[0-5])J$' 'and energy: two GPUs for 50 ms'
like "$(value "$l" clock)" '^17[0-9][0-9]/1980$' 'their clock'
like "$(value "$l" io)" '^[0-9]+\.[0-9]{2}\+[0-9]+\.[0-9]{2}GB/s$' 'what they read and wrote'
done_testing
