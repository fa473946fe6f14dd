#!/usr/bin/env bash
# The line is right however a step ends, nothing is lost, and the job's exit code stays its own.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mfu.sh"
mfu_up update=10

# --- a normal end

train --ranks 2 --truth "$work/dry.%r" --rank 0 # the declared FLOPs of a rank, from a run outside of the cluster
flops=$(($(truth model_flops "$work/dry.0") * 2))
srun -n2 --gpus-per-task=1 --job-name=normal --mfu-profile="flops=$flops" train --ranks 2 --truth "$work/normal.%r"
is $? 0 'normal end: exit code 0'
l=$(line "$(job_named normal)")
diagnose "$l"
same_as_truth "$l" 'normal end' "$work"/normal.*
is "$(sum "$l" model_flops)" "$flops" 'normal end: FLOPs are the declared ones'
is "$(value "$l" cover)" '100.0%/100.0%' 'normal end: all is covered'
is "$(value "$l" gpus)" 2xH100-SXM 'normal end: GPUs'
is "$(value "$l" 'peak')" '989.4(bf16)' 'normal end: peak and precision'
is "$(value "$l" s)" 0 'normal end: the step is merged'
expected=$(awk -v f="$flops" -v ns="$(sum "$l" elapsed_ns)" 'BEGIN { printf "%.1f%%", 100 * f / (989.4e12 * ns / 1e9) }')
is "$(value "$l" mfu)" "$expected" 'normal end: MFU by its definition'

# --- a task fails

srun -n2 --gpus-per-task=1 --mfu-profile="flops=$flops" --job-name=fails -K0 \
    train --ranks 2 --truth "$work/fails.%r" --exit-code 7 2>"$work/err"
is $? 7 'task failure: the exit code is the task'\''s'
l=$(line "$(job_named fails)")
diagnose "$l"
same_as_truth "$l" 'task failure' "$work"/fails.*
is "$(value "$l" mfu)" 'n/a(incomplete)' 'task failure: declared FLOPs are not believed'
is "$(value "$l" cover)" '0.0%/100.0%' 'task failure: all was observed'

# --- cut off: what was published a second before is there. The workload writes its truth, then hangs.

hang=(train --ranks 2 --steps 3 --hang-at-step 2)

job=$(submit -n2 --gpus-per-task=1 --wrap "srun --mfu-profile=flops=$flops ${hang[*]} --truth $work/cancel.%r")
caught_up "$job.0" "$work"/cancel.{0,1}
scancel "$job"
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" scancel "$work"/cancel.*
is "$(value "$l" mfu)" 'n/a(incomplete)' 'scancel: declared FLOPs are not believed'
like "$(value "$l" cover)" '^0\.0%/[0-9.]+%\(cut-off\)$' 'scancel: what was not observed is told'
like "$(sacct_field "$job" State)" '^CANCELLED' 'scancel: the state is the job'\''s'

job=$(submit -n2 --gpus-per-task=1 --wrap "srun --mfu-profile=flops=$flops ${hang[*]} --truth $work/limit.%r")
caught_up "$job.0" "$work"/limit.{0,1}
expire_job "$job"
limit_job=$job # it takes half a minute; the others go on meanwhile

# --- SIGKILL of one rank

job=$(submit -n2 --gpus-per-task=1 --wrap \
    "srun -K0 --mfu-profile=flops=$flops sh -c 'train --ranks 2 --steps 3 --truth $work/kill.%r \
     \$([ \$SLURM_PROCID = 1 ] && echo --hang-at-step 2)'")
caught_up "$job.0" "$work"/kill.{0,1}
ok 'SIGKILL of a rank: it was there' pkill -KILL -f "^train .*--truth $work/kill.%r --hang-at-step 2"
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'SIGKILL of a rank' "$work"/kill.*
like "$(sacct_field "$job.0" State)" '^(FAILED|CANCELLED)' 'SIGKILL of a rank: the step failed'

# --- SIGKILL of srun

setsid srun -n2 --gpus-per-task=1 --job-name=lost --mfu-profile="flops=$flops" "${hang[@]}" --truth "$work/srun.%r" \
    >/dev/null 2>&1 &
wait_until 60 all_there "$work"/srun.{0,1}
job=$(squeue -h -n lost -o %A | head -n 1)
caught_up "$job.0" "$work"/srun.{0,1}
# By its own folder: other tests run the same at the same time.
ok 'SIGKILL of srun: it was there' pkill -KILL -f "^srun .*--job-name=lost .*--truth $work/srun.%r"
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'SIGKILL of srun' "$work"/srun.*

# --- a batch step without srun

job=$(submit -n1 --gpus=1 --mfu-profile="flops=$((flops / 2))" --wrap "train --ranks 2 --rank 0 --truth $work/batch.0")
wait_job "$job"
l=$(line "$job" 's=b')
diagnose "$l"
same_as_truth "$l" 'batch step' "$work"/batch.0
is "$(sum "$l" model_flops)" "$((flops / 2))" 'batch step: FLOPs'
is "$(sacct_field "$job" State)" COMPLETED 'batch step: completed'

# --- two steps, one after the other, and two at the same time; the option comes from sbatch

job=$(submit -n2 --gpus-per-task=1 --mfu-profile="flops=$flops" --wrap "
    srun train --ranks 2 --truth $work/first.%r
    srun train --ranks 2 --seed 5 --steps 3 --truth $work/second.%r")
wait_job "$job"
l=$(line "$job" 's=0-1')
diagnose "$l"
same_as_truth "$l" 'sequential steps' "$work"/{first,second}.*
is "$(sum "$l" model_flops)" "$((2 * flops))" 'sequential steps: FLOPs add up'

job=$(submit -N2 --ntasks-per-node=1 --gpus-per-node=1 --mfu-profile="flops=$flops" --wrap "
    srun -N1 -n1 -w \$(scontrol show hostnames | head -n1) --gpus-per-node=1 --exact train --ranks 2 --rank 0 --truth $work/left.0 &
    srun -N1 -n1 -w \$(scontrol show hostnames | tail -n1) --gpus-per-node=1 --exact train --ranks 2 --rank 1 --truth $work/right.1 &
    wait")
wait_job "$job"
l=$(line "$job" 's=0-1')
diagnose "$l"
same_as_truth "$l" 'concurrent steps on two nodes' "$work"/left.0 "$work"/right.1

job=$(submit -n2 --gpus-per-task=1 --wrap "
    for i in 1 2; do srun -n1 --exact --gres=gpu:1 --mfu-profile=on train --ranks 2 --rank \$i --truth $work/pair.\$i & done
    wait")
wait_job "$job"
l=$(line "$job" 's=0-1')
diagnose "$l"
same_as_truth "$l" 'concurrent steps on one node' "$work"/pair.*

# --- an array: every task has its own line

job=$(submit --array=3,5 -n1 --gpus=1 --mfu-profile=on --wrap "srun train --seed \$SLURM_ARRAY_TASK_ID --truth $work/array.\$SLURM_ARRAY_TASK_ID")
wait_job "$job"
for task in 3 5; do
    l=$(line "${job}_$task")
    same_as_truth "$l" "array task $task" "$work/array.$task"
done

# --- requeued: each run has a record and a line of its own

job=$(submit -n1 --gpus=1 --requeue --wrap "
    srun --mfu-profile=on train --ranks 1 --steps \$((3 + 2 * \${SLURM_RESTART_COUNT:-0})) \
        --truth $work/run\${SLURM_RESTART_COUNT:-0}.0 \$([ \${SLURM_RESTART_COUNT:-0} = 0 ] && echo --hang-at-step 2)")
caught_up "$job.0" "$work/run0.0"
scontrol requeue "$job"
wait_until 150 test -s "$work/run1.0" || diagnose "the requeued job did not run: $(squeue -j "$job")"
wait_job "$job"
l=$(line "$job" 'run=1')
diagnose "$l"
same_as_truth "$l" 'requeue, second run' "$work"/run1.0
first_run() { sacct -D -n -P -X -j "$job" -o State,AdminComment | grep -E '^REQUEUED|^CANCELLED|^PREEMPTED' | head -n 1; }
first_has_line() { [[ $(first_run) == *s=0* ]]; }
wait_until 60 first_has_line
l=$(first_run)
diagnose "$l"
same_as_truth "${l#*|}" 'requeue, first run' "$work"/run0.0

# --- a user's comment stays; the line goes behind it where the site says field=comment

mfu_plugin field=comment
job=$(submit -n1 --gpus=1 --comment='sweep 7, lr=3e-4' --mfu-profile=on --wrap "srun train --ranks 1 --truth $work/comment.0")
wait_job "$job"
l=$(line "$job" 'mfu/1 .*\.$' Comment)
diagnose "$l"
like "$l" '^sweep 7, lr=3e-4 mfu/1 ' "field=comment: the user's own comment stays"
same_as_truth "${l#sweep 7, lr=3e-4 }" 'field=comment' "$work"/comment.0

mfu_plugin
job=$(submit -n1 --gpus=1 --comment='mine' --mfu-profile=on --wrap "srun train --ranks 1")
wait_job "$job"
line "$job" >/dev/null
is "$(sacct_field "$job" Comment)" mine 'admin_comment: the user'\''s comment is untouched'

until_there() { echo "until [ -e $work/$1 ]; do sleep 0.1; done"; }
job=$(submit -n1 --gpus=1 --mfu-profile=on --wrap "$(until_there ticket); srun train --ranks 1")
wait_until 60 job_state_is "$job" RUNNING
scontrol update "JobId=$job" AdminComment='ticket 4711'
touch "$work/ticket"
wait_job "$job"
like "$(line "$job" 'mfu/1 .*\.$')" '^ticket 4711 mfu/1 ' "an administrator's text stays"

job=$(submit -n1 --gpus=1 --mfu-profile=on --wrap "$(until_there jobstats); srun train --ranks 1")
wait_until 60 job_state_is "$job" RUNNING
scontrol update "JobId=$job" AdminComment='JS1:H4sIAAAA'
touch "$work/jobstats"
wait_job "$job"
ok 'nothing more comes of its steps' wait_until 60 no_folders "$job"
is "$(sacct_field "$job" AdminComment)" 'JS1:H4sIAAAA' "jobstats' value is never touched"

# --- the time limit of above

wait_job "$limit_job" 120
l=$(line "$limit_job" 's=0')
diagnose "$l"
same_as_truth "$l" 'time limit' "$work"/limit.*
is "$(sacct_field "$limit_job" State)" TIMEOUT 'time limit: the state is the job'\''s'

# --- nothing is left behind

ok 'the spool is empty again' wait_until 60 no_folders
[[ ! -s $MFU_CLUSTER_DIR/log/collector.log ]] || diagnose "$(cat "$MFU_CLUSTER_DIR/log/collector.log")"
done_testing
