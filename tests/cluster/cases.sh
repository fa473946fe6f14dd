# shellcheck shell=bash
# On top of lib.sh and mfu.sh: many short jobs at the same time, each a case of its own, judged when all have ended.
#
# A case is one srun of one task. What the task prints and its exit code must be those of the task without slurm-mfu.
# shellcheck disable=SC2154 # mfu.sh sets work and spool

case_names=()
declare -A case_regex case_truth case_line case_code
# What a case leaves in $work begins with its name in safe letters.
slug() { echo "${1//[^a-z0-9]/-}"; }

# A task that prints to both of its streams and ends with a code of its own.
case_steps=6
task_text() {
    # shellcheck disable=SC2016
    printf 'echo "$SLURM_JOB_ID" >%q; echo to stdout; echo to stderr >&2; %s' "$1.job" "$2"
}

# case NAME REGEX TRUTH [VARIABLE=VALUE...] [-- COMMAND]: starts it in the background. The line must fit REGEX. TRUTH: right
# (sums equal the generator's), busy (all but the span), none (no sums at all), any. COMMAND is shell text, by default a
# training run; its exit code must be CODE or 3. SRUN holds more options of srun, AS a user. $FILE in COMMAND begins the
# names of what the case leaves; FILE.truth* is the truth.
case_limit=6
new_case() {
    local name=$1 file settings=() run=(env) command
    file=$work/$(slug "$name")
    command="exec train --ranks 2 --rank 0 --steps $case_steps --exit-code 3 --truth $file.truth"
    case_names+=("$name")
    case_regex[$name]=$2 case_truth[$name]=$3 case_code[$name]=${CODE-3}
    shift 3
    while [[ $# -gt 0 ]]; do
        if [[ $1 == -- ]]; then command=$2; break; fi
        settings+=("$1")
        shift
    done
    while (($(jobs -rp | wc -l) >= case_limit)); do wait -n; done
    [[ -z ${AS-} ]] || run=(as_user "$AS" env)
    # shellcheck disable=SC2086
    (
        "${run[@]}" FILE="$file" FAKE_CUPTI_LOG="$file.calls" "${settings[@]}" timeout 300 srun -n1 --gpus=1 ${SRUN-} \
            sh -c "$(task_text "$file" "$command")" >"$file.out" 2>"$file.err"
        echo $? >"$file.code"
    ) </dev/null &
}

case_job() { cat "$work/$(slug "$1").job" 2>/dev/null; }

# All lines at once, until each of them is there. Of a case without one, until the row has its end: what the job was given
# came before.
lines_there() {
    local all name job line end complete=0
    all=$(sacct -n -P -X -S now-1hour -o JobID,End,AdminComment 2>/dev/null)
    for name in "${case_names[@]}"; do
        job=$(case_job "$name")
        line=$(grep -m1 "^${job:-none}|" <<<"$all")
        line=${line#*|}
        end=${line%%|*}
        case_line[$name]=${line#*|}
        if [[ ${case_regex[$name]} == '^$' ]]; then
            [[ -n $end && $end != Unknown ]] || complete=1
            continue
        fi
        [[ ${case_line[$name]} =~ mfu/1.*\.$ && ${case_line[$name]} != *state=running* ]] || complete=1
    done
    return $complete
}

# judge: one check a case.
judge() {
    local name file line wrong
    wait
    wait_until "${1:-60}" lines_there || not_ok 'accounting knows how each case has ended'
    for name in "${case_names[@]}"; do
        file=$work/$(slug "$name") line=${case_line[$name]} wrong=
        [[ $(<"$file.code") == "${case_code[$name]}" ]] || wrong+=$'\n'"exit code $(<"$file.code") instead of ${case_code[$name]}"
        [[ $(<"$file.out") == 'to stdout' ]] || wrong+=$'\n'"stdout: $(<"$file.out")"
        [[ $(grep -v '^srun: ' "$file.err") == 'to stderr' ]] || wrong+=$'\n'"stderr: $(<"$file.err")"
        [[ $line =~ ${case_regex[$name]} ]] || wrong+=$'\n'"the line does not fit ${case_regex[$name]}"
        case ${case_truth[$name]} in
        right) wrong+=$(differences "$line" "$file".truth*) ;;
        busy) wrong+=$(differences "$line" "$file".truth* | grep -v ^span_ns) ;;
        none) [[ $(sum "$line" attributed_ns) == 0 && $line == *compute=n/a* ]] || wrong+=$'\n'"figures without a base" ;;
        esac
        [[ ! -e $file.calls ]] || wrong+=$(forbidden_calls "$file.calls")
        if [[ -z $wrong ]]; then
            ok "$name: $(grep -oE '(compute|cover)=[^ ]*' <<<"$line" | paste -sd' ')"
        else
            not_ok "$name" "${wrong#?}"$'\n'"$line"
        fi
    done
    case_names=()
}

# forbidden_calls FILE: what nobody may do inside of other people's processes.
forbidden_calls() {
    awk '/cuptiFinalize/ { print "\ncuptiFinalize was called" }
        $2 == "cuptiActivityFlushAll:1" && forced[$1]++ { print "\nFLUSH_FORCED more than once" }
        $2 == "cuptiActivityFlushAll:0" && forced[$1] { print "\nFLUSH_FORCED before the end" }' "$1"
}

# nothing_left: no folder of any step, no process of ours.
nothing_left() {
    ok "${1:-nothing is left in the spool}" wait_until 60 no_folders
    [[ ! -s $MFU_CLUSTER_DIR/log/collector.log ]] || diagnose "$(tail -n 5 "$MFU_CLUSTER_DIR/log/collector.log")"
}

# plugstack ARGUMENTS...: from the next step on, without restarting slurmd.
plugstack() {
    printf 'optional %s inject=gpu spool=%s munge=%s log=%s %s\n' "$build/spank_mfu.so" "$spool" \
        "$MFU_CLUSTER_DIR/munge/socket" "$MFU_CLUSTER_DIR/log/collector.log" "$*" >"$MFU_CLUSTER_DIR/etc/plugstack.new"
    mv "$MFU_CLUSTER_DIR/etc/plugstack.new" "$MFU_CLUSTER_DIR/etc/plugstack.conf"
}
