#!/usr/bin/env bash
# Which steps are profiled and how the option reaches them; interim lines; nodes that end at different times.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mfu.sh"
mfu_up update=10

# A long step first: it shows interim lines while the other tests run. Node 0's tasks end hours before node 1's, here as soon
# as an interim line was seen: the line must wait for the last.
long=$(submit -N2 --ntasks-per-node=1 --gpus-per-node=1 --wrap "
    srun --mfu-profile=on sh -c '[ \$SLURM_PROCID = 0 ] && exec train --ranks 2 --truth $work/long.0
        train --ranks 2 --truth $work/long.1 --steps 100
        until [ -e $work/long ]; do sleep 0.1; done'")

# --- salloc and sbatch pass the option on; an inner option wins; off is off

salloc -Q -n1 --gpus=1 --job-name=alloc --mfu-profile=on srun train --ranks 1 --truth "$work/alloc.0"
l=$(line "$(job_named alloc)")
diagnose "$l"
same_as_truth "$l" 'salloc --mfu-profile' "$work/alloc.0"

mfu_plugin inject=ask
job=$(submit -n1 --gpus=1 --mfu-profile=flops=5e14 --wrap "
    srun train --ranks 1
    srun --mfu-profile=off train --ranks 1
    srun --mfu-profile=flops=2.5e14,precision=fp8 train --ranks 1")
wait_job "$job"
l=$(line "$job" 's=0,2 ')
diagnose "$l"
is "$(value "$l" s)" 0,2 'sbatch: the option reaches the inner steps, and off leaves one out'
is "$(sum "$l" model_flops)" 750000000000000 "sbatch: an inner option's FLOPs win"

job=$(submit -n1 --gpus=1 --export=NONE --mfu-profile=on --wrap "
    export PATH=$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH
    srun --export=ALL train --ranks 1 --truth $work/none.0")
wait_job "$job"
l=$(line "$job")
diagnose "$l"
same_as_truth "$l" 'sbatch --export=NONE' "$work/none.0"

job=$(submit -n1 --gpus=1 --wrap "srun train --ranks 1")
wait_job "$job"
is "$(sacct_field "$job" State)" COMPLETED 'inject=ask: a job without the option ends'
is "$(sacct_field "$job" AdminComment 3)" '' 'inject=ask: and has no line'

mfu_plugin
no_gpu() { srun -n1 sh -c 'env | grep -E "CUDA_INJECTION64_PATH|MFU_RECORD_DIR"; ls '"$spool"'/*/ | grep -F "$SLURM_JOB_ID.0."; echo ran'; }
is "$(no_gpu 2>/dev/null)" ran 'a step without GPUs has nothing of ours'
job=$(submit -n1 --gpus=1 --wrap "srun --gres=none train --ranks 1 --truth $work/nogres.0; srun train --ranks 1 --truth $work/gres.0")
wait_job "$job"
l=$(line "$job")
is "$(value "$l" s)" 1 'a step without GPUs inside a GPU job is left alone'
same_as_truth "$l" 'its neighbour with a GPU' "$work/gres.0"

interim() { [[ $(scontrol show job "$long" | sed -n 's/.*AdminComment=//p') == *gpus=2x*state=running*cur=0:* ]]; }
ok 'an interim line stands while the step runs' wait_until 60 interim
interim_line=$(scontrol show job "$long" | sed -n 's/.*AdminComment=//p')
diagnose "$interim_line"
is "$(value "$interim_line" gpus)" 2xH100-SXM "the interim line knows all nodes' GPUs"
touch "$work/long"

# --- shapes

job=$(submit -n1 --gpus=2 --mfu-profile=on --wrap "srun train --ranks 2 --devices 2 --truth $work/two.%d")
wait_job "$job"
l=$(line "$job")
diagnose "$l"
is "$(value "$l" gpus)" 2xH100-SXM 'one process with two GPUs'
same_as_truth "$l" 'one process with two GPUs' "$work"/two.*

job=$(submit -N2 --gpus=5 --ntasks=5 --gpus-per-task=1 --wrap "srun --mfu-profile=steps=5 train --ranks 5 --truth $work/five.%r")
wait_job "$job"
l=$(line "$job")
diagnose "$l"
is "$(value "$l" gpus)" 5xH100-SXM 'GPUs unevenly over two nodes'
is "$(value "$l" steps)" 5 'declared training steps'
same_as_truth "$l" 'GPUs unevenly over two nodes' "$work"/five.*

job=$(submit_as alice -N1 --gpus=4 --ntasks=4 --gpus-per-task=1 --mfu-profile=on --wrap "
    srun train --ranks 4 --truth $work/alice.%r; scontrol update JobId=\$SLURM_JOB_ID AdminComment=forged 2>$work/forged")
wait_job "$job"
l=$(line "$job")
same_as_truth "$l" "an ordinary user's job" "$work"/alice.*
like "$(cat "$work/forged")" 'denied|not permitted|[Aa]ccess' 'a user cannot change the line'

job=$(submit -n1 --gpus=1 --wrap "srun env FAKE_CUDA_DEVICE_NAME='NVIDIA Quantum X1' train --ranks 1")
wait_job "$job"
like "$(line "$job")" 'gpus=1xNVIDIA-Quantum-X peak=n/a' "an unknown GPU has no peak, and nobody else's"
job=$(submit -n1 --gpus=1 --wrap "srun --mfu-profile=flops=1e12 env FAKE_CUDA_DEVICE_NAME='NVIDIA Quantum X1' train --ranks 1")
wait_job "$job"
is "$(value "$(line "$job")" mfu)" 'n/a(peak-unknown)' 'an unknown GPU has no MFU'

# --- the long step

wait_job "$long"
l=$(line "$long" 's=0')
diagnose "$l"
same_as_truth "$l" 'node 0 ended before node 1' "$work"/long.*
unlike "$l" 'state=|cur=' 'the final line is final'

[[ ! -s $MFU_CLUSTER_DIR/log/collector.log ]] || diagnose "$(cat "$MFU_CLUSTER_DIR/log/collector.log")"
done_testing
