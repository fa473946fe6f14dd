#!/usr/bin/env bash
# examples/two-runs: two published runs on 16 nodes each come out of accounting with their published MFU.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"
examples=$(realpath examples)

folders=$(mktemp -d) # where it makes its own
chmod 755 "$folders"
start=$SECONDS
out=$(cd / && TMPDIR=$folders "$examples/two-runs" "$build" 2>"$folders/err")
code=$?
is "$code" 0 'exit code 0'
diagnose "it took $((SECONDS - start)) s"
diagnose "$out"
is "$(cat "$folders/err")" '' 'no complaint'
rm "$folders/err"
is "$(ls -A "$folders")" '' 'nothing is left of it'
rm -rf "$folders"
((code == 0)) || done_testing

# near PERCENTAGE EXPECTED NAME: but for the rounding of the line's figures to a digit.
near() {
    if awk -v value="${1%\%}" -v expected="$2" 'BEGIN { exit !(value != "" && value - expected < 0.2 && expected - value < 0.2) }'; then
        ok "$3"
    else
        not_ok "$3" "got: $1, expected: $2"
    fi
}

# below VALUE OTHER NAME: percentages.
below() {
    ok "$3" awk -v value="${1%\%}" -v other="${2%\%}" 'BEGIN { exit !(value != "" && value + 0 < other + 0) }'
}

# scaled SHARE: of a training step in percent, as a line has it whose MFU is $mfu instead of $steps.
scaled() {
    awk -v share="$1" -v mfu="${mfu%\%}" -v steps="$steps" 'BEGIN { print share * mfu / steps }'
}

# check_run NAME DEVICE PEAK STEP PUBLISHED STEPS EXACT COMPUTE EXPOSED HIDDEN. Shares are of a generated step. A line's percentages
# depend on how long the job took to start, which is this machine's affair; their ratios do not.
check_run() {
    local run=$1 device=$2 peak=$3 step=$4 published=$5 steps=$6 exact=$7 compute=$8 exposed=$9 hidden=${10} job line mfu comm table row
    IFS='|' read -r job _ _ line < <(grep "^[0-9]*|$run|" <<<"$out")
    jobs+=("$job")
    communication+=("$(value "$line" comm)")
    like "$line" "^mfu/1 mfu=[0-9.]+% .*basis=model gpus=128x$device peak=$peak\\(bf16\\) " "$run: MFU of declared FLOPs, GPUs and peak in the line"
    like "$line" " steps=14\\(period\\) step=$step " "$run: its training steps are found"
    like "$line" ' cover=100\.0%/100\.0% s=0$' "$run: all of it is covered"
    unlike "$line" ' state=' "$run: no node is missing"

    mfu=$(value "$line" mfu) comm=$(value "$line" comm)
    below "$mfu" "$steps" "$run: the MFU of the whole job step is below that of its training steps"
    near "$(value "$line" compute)" "$(scaled "$compute")" "$run: compute"
    near "${comm%+*}" "$(scaled "$exposed")" "$run: exposed communication"
    near "${comm#*+}" "$(scaled "$hidden")" "$run: hidden communication"

    table=$(awk -v job="$job" '$1 == job && $2 ~ /^'"$run"'/ { print $6, $8, $9, $10 }' <<<"$out")
    is "$table" "COMPLETED 16 128 $mfu" "$run: mfu-report has it, with its nodes, GPUs and MFU"
    row=$(awk '$1 == "'"$run"'" { print $2, $3, $4, $5, $6, $7 }' <<<"$out")
    is "$row" "128x$device $published% $steps% $exact% $mfu $comm" "$run: published, and of the training steps"
}

jobs=() communication=()
check_run llama_30b A100-SXM 312 0.9818s 40.43 40.42 39.57 81.94 11.98 2.99
check_run mpt_30b H100-SXM 989.4 0.9313s 41.85 41.86 41.83 92.91 2.99 29.94
below "${communication[1]%+*}" "${communication[0]%+*}" 'the second run has less communication in the open'
like "$out" "\\\$ mfu-report --jobs ${jobs[0]},${jobs[1]}" 'mfu-report is asked for both'
like "$out" 'replayed through a fake CUDA driver and CUPTI\.'$'\n''Slurm, its accounting and everything of slurm-mfu are real\.$' \
    'what is replayed and what is real is said'

broken=$(mktemp -d)
chmod 755 "$broken"
out=$(TMPDIR=$broken "$examples/two-runs" "$broken/none" 2>&1)
is $? 1 'without a build it fails'
like "$out" 'two-runs: the build is not complete; run: make' 'and says what to do'
rm -rf "$broken"
done_testing
