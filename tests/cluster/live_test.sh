#!/usr/bin/env bash
# mfu-live beside running steps: what root and others see of them, two readings, and the metrics' file over a step's life.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"
mfu_up update=10
cp "$build/mfu-live" "$product" # ordinary users run it too
live=$product/mfu-live
metrics=$MFU_CLUSTER_DIR/metrics
mkdir "$metrics"
file=$metrics/mfu.prom

unused="mfu-live: no profiled step has run on this node yet (no $spool)"
is "$("$live" --spool "$spool" --once 2>&1 >/dev/null; echo $?)" "$unused"$'\n1' 'without a spool there is a reason'
is "$("$live" --spool "$spool" --once --json 2>/dev/null | jq -c .steps)" '[]' 'and JSON all the same'
is "$("$live" --spool "$spool" --once --prometheus "$file" 2>&1; echo "$? $(grep '^mfu_live_steps ' "$file")")" "$unused"$'\n0 mfu_live_steps 0' \
    'no step is nothing wrong for metrics'
rm -f "$file"
like "$("$live" --prometheus "$metrics/mfu.txt" 2>&1; echo "$? $(ls "$metrics")")" \
    "^mfu-live: --prometheus: '$metrics/mfu.txt' does not end in \.prom: node_exporter would not see it"$'\n.*\n2 $' 'a file that node_exporter ignores'

# The metrics of all that follows.
"$live" --spool "$spool" --prometheus "$file" --interval 1 2>"$metrics/err" &
daemon=$!
ok 'the file is there before there is anything to tell' wait_until 60 test -s "$file"

# alice's hangs after 100 steps with its truth written: then nothing changes any more. bob's goes on.
done_steps=100
alices=$(submit_as alice -N2 -n4 --gpus-per-task=1 --mfu-profile --wrap "
    srun train --ranks 4 --steps 400 --gemms --hang-at-step $done_steps --truth $work/alice.%r")
bobs=$(submit_as bob -n1 --gpus=1 --mfu-profile=flops-per-step=1e12,precision=bf16 --wrap "srun train --ranks 1 --steps 100000")
ok "alice's tasks have done their steps" wait_until 60 eval "[[ \$(cat '$work'/alice.[0-3] 2>/dev/null | jq -s length) == 4 ]]"
ok "bob's step runs" wait_until 60 grep -q "jobid=\"$bobs\",step=\"0\"" "$file"
caught_up "$alices.0" "$work"/alice.{0..3}

# --- who sees what

json() { "$live" --spool "$spool" --once --json "$@"; }
all=$(json)
is "$(jq -c '[.steps[].step]' <<<"$all")" "[\"$alices.0\",\"$alices.0\",\"$bobs.0\"]" 'root sees all steps, of each node its part'
is "$(jq -c '[.steps[].gpu[].rank]' <<<"$all")" '[0,1,2,3,0]' 'and their ranks'
is "$(json -j "$bobs" | jq -c '[.steps[].step]')" "[\"$bobs.0\"]" '--jobs'
is "$(json --node n9 2>&1 >/dev/null)" "mfu-live: no profiled step has run on this node yet (no $spool/n9)" 'a node that is not there'
own=$(as_user alice "$live" --spool "$spool" --once --json)
is "$(jq -c '[[.steps[].step], .steps_closed, .steps[0].planned]' <<<"$own")" "[[\"$alices.0\",\"$alices.0\"],1,true]" 'alice sees her own, and how many more run'
is "$(as_user alice "$live" --spool "$spool" --once -j "$bobs" 2>&1 >/dev/null)" \
    'mfu-live: 1 steps run here that you may not read: only root and their users may' "alice does not see bob's"
is "$(as_user bob "$live" --spool "$spool" --once --json | jq -c '.steps[] | [.so_far.basis, .gpu[0].so_far.basis, .gpus]')" '["model","model",1]' \
    'bob sees the MFU of what he declared'
like "$(as_user alice "$live" --spool "$spool" --once)" " $alices\.0 .* GPU-.* ok"$'\n' "alice's table"
is "$(json -j 999999 2>&1 >/dev/null)" 'mfu-live: no profiled step of these jobs runs on this node' 'no such job'

# --- figures are the generator's

sample() { awk -v name="$1{" -v part="$2" 'index($0, name) == 1 && index($0, part) { sum += $NF; n++ } END { printf n ? "%.9f" : "none", sum }' "$file"; }
seconds() { awk -v ns="$1" 'BEGIN { printf "%.9f", ns / 1e9 }'; }
# The file is a second behind the records.
# shellcheck disable=SC2317 # wait_until calls it
file_has_all() {
    [[ $(sample mfu_gpu_compute_seconds_total "jobid=\"$alices\"") == "$(seconds "$(truth compute_ns "$work"/alice.[0-3])")" ]]
}
wait_until 60 file_has_all
for pair in compute:compute_ns communication_exposed:exposed_comm_ns communication_overlapped:overlapped_comm_ns memory_exposed:exposed_memory_ns; do
    is "$(sample "mfu_gpu_${pair%:*}_seconds_total" "jobid=\"$alices\"")" "$(seconds "$(truth "${pair#*:}" "$work"/alice.[0-3])")" \
        "${pair%:*}: the truth's, to the nanosecond"
done
is "$(sample mfu_step_executed_flops_total "jobid=\"$alices\"" | cut -d. -f1)" "$(($(truth gemm_flops "$work"/alice.[0-3]) + $(truth attention_flops "$work"/alice.[0-3])))" \
    'FLOPs executed: the truth'\''s'
is "$(jq -c '[.steps[] | select(.job_id == '"$alices"') | .so_far.training_steps] | unique' <<<"$own")" "[$done_steps]" 'training steps'

two=$(json --interval 8 -j "$bobs")
diagnose "$(jq -c '.steps[0].interval' <<<"$two")"
is "$(jq '.steps[0] | .so_far.training_steps as $all | .interval | .seconds > 1.9 and .training_steps > 0 and .training_steps < $all and
    (.mfu * .seconds * 989.4 / .training_steps - 1 | fabs) < 0.001' <<<"$two")" true \
    'two readings: steps, and MFU of the declared FLOPs between them'
# A step's kernels take the same time in every step; the interval's borders cut one or two.
is "$(jq '.steps[0] | [.interval, .so_far | .compute * .seconds / .training_steps] | (.[0] / .[1] - 1 | fabs) < 0.1' <<<"$two")" true \
    'two readings: compute of the steps between them'
table=$("$live" --spool "$spool" --once --interval 1)
diagnose "$table"
like "$table" 'all else of the last [1-9][0-9]*\.[0-9] s' 'the table says what it is of'

# --- stopped for a while: the readings that were missed are left out

"$live" --spool "$spool" --json --interval 1 >"$work/readings" &
watcher=$!
has_readings() { [[ $(wc -l <"$work/readings") -ge $1 ]]; }
wait_until 60 has_readings 2
kill -STOP "$watcher"
sleep 6
kill -CONT "$watcher"
ok 'stopped and continued: it goes on' wait_until 60 has_readings 6
kill "$watcher"
wait "$watcher"
is "$?" 0 'stopped and continued: a signal ends it'
# Of 6 s one reading comes late.
is "$(jq -s 'length < .[-1].at - .[0].at' "$work/readings")" true 'stopped and continued: one reading a second at most'

# --- the file

like "$(<"$file")" "mfu_step_info\{jobid=\"$bobs\",step=\"0\",node=\"n[1-4]\",user=\"bob\",device=\"H100-SXM\",precision=\"bf16\"" 'whose step it is'
like "$(<"$file")" "mfu_gpu_power_watts\{jobid=\"$bobs\"[^}]*\} [1-9]" 'power of the last interval'
is "$(stat -c %a "$file")" 644 'all may read the file'
# While it is replaced there are two for a moment.
# shellcheck disable=SC2317 # wait_until calls it
alone() { [[ $(ls -A "$metrics") == $'err\nmfu.prom' ]]; }
ok 'nothing lies beside it' wait_until 60 alone
if command -v promtool >/dev/null; then
    ok 'promtool has no complaint' promtool check metrics <"$file"
else
    skip 'promtool has no complaint' 'no promtool here: install prometheus'
fi
scancel "$alices"
wait_job "$alices"
ok 'no series is left of a step that has ended' wait_until 60 eval "! grep -q 'jobid=\"$alices\"' '$file'"
ok 'those of the others stay' grep -q "jobid=\"$bobs\"" "$file"
kill "$daemon"
wait "$daemon"
is "$? $(ls -A "$metrics")" '0 err' 'at its end mfu-live takes its file away'
is "$(<"$metrics/err")" "$unused" 'and has complained once: before the first step there was no spool'
"$live" --spool "$spool" --prometheus "$file" --once
is "$? $(grep -c '^mfu_gpu_compute_seconds_total' "$file")" '0 1' '--once leaves a file'
scancel "$bobs"
wait_job "$bobs"
like "$(line "$bobs" 's=0')" '^mfu/1 ' 'nobody who looked has cost the step its line'
like "$(line "$alices" 's=0')" '^mfu/1 ' 'nor the other'

# --- FLOPs declared for two nodes, with three GPUs on one and one on the other

uneven=$(submit_as bob -N2 -n4 --gpus-per-task=1 --mfu-profile=flops-per-step=4e12,precision=bf16 --wrap "srun train --ranks 4 --steps 100000")
shares() { "$@" "$live" --spool "$spool" --once --json -j "$uneven" 2>/dev/null | jq -c '[.steps[] | [.gpus, .so_far.basis]]'; }
ok 'both nodes know how many GPUs there are' wait_until 60 eval "[[ \$(shares env) == '[[3,\"model\"],[1,\"model\"]]' ]]"
is "$(shares as_user bob)" '[[3,"model"],[1,"model"]]' 'and so does who declared them'
"$live" --spool "$spool" --prometheus "$file" --once -j "$uneven"
is "$(awk '/^mfu_step_model_flops_total/ { flops[++n] = $NF } /^mfu_step_training_steps_total/ { printf "%.3e ", flops[++m] / $NF }' "$file")" \
    '3.000e+12 1.000e+12 ' 'each has its GPUs share of them'
is "$(awk '/^mfu_gpu_model_flops_total/ { gpus += /basis="model"/ } END { print gpus }' "$file")" 4 'and so has each GPU'
scancel "$uneven"
done_testing
