# shellcheck shell=bash
# For tests on a private cluster. A test sources this, calls cluster_up, checks with ok, is and like, and ends with
# done_testing. Each check prints "ok - name" or "not ok - name" and why; the exit code is 1 when any failed.
#
#     . "$(dirname "$0")/../cluster/lib.sh"
#     cluster_up --plugin "optional $PWD/build/spank_mfu.so"
#     job=$(submit --gres=gpu:1 --wrap 'sleep 1')
#     wait_job "$job"
#     like "$(sacct_field "$job" AdminComment)" '^mfu/1 ' 'the line is in accounting'
#     done_testing

mfu_cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/cluster
tests_run=0 tests_failed=0 tests_done=no

# cluster_up [arguments of "cluster start"]: a new cluster, stopped when the test ends however it ends. Its folder is
# removed after success and kept for reading after a failure.
cluster_up() {
    local dir
    dir=$(mktemp -d "${TMPDIR:-/tmp}/mfu.XXXXXX") && chmod 755 "$dir" || exit 2
    export MFU_CLUSTER_DIR=$dir
    trap 'cluster_down' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    "$mfu_cluster" start "$dir" "$@" || exit
    eval "$("$mfu_cluster" env "$dir")"
}

cluster_down() {
    local code=$? log
    trap '' INT TERM HUP
    [[ $tests_done == yes ]] || echo "not ok - the test ran to its end (it left with exit code $code)"
    if [[ $tests_done == yes && $tests_failed -eq 0 ]]; then
        "$mfu_cluster" stop "$MFU_CLUSTER_DIR" --remove
        exit "$code"
    fi
    "$mfu_cluster" stop "$MFU_CLUSTER_DIR"
    for log in "$MFU_CLUSTER_DIR"/log/*.log; do
        echo "# the end of $log:"
        tail -n 12 "$log" | sed 's/^/#     /'
    done
    echo "# everything is kept in $MFU_CLUSTER_DIR"
    exit "$((code ? code : 1))"
}

# diagnose TEXT: as comment lines, which TAP readers show.
diagnose() {
    printf "# %s\n" "${1//$'\n'/$'\n'# }"
}

# ok NAME COMMAND...: the command succeeds. Without a command: the check passed already.
ok() {
    local name=$1 output
    shift
    if [[ $# -eq 0 ]] || output=$("$@" 2>&1); then
        echo "ok - $name"
        ((++tests_run))
    else
        not_ok "$name" "$(printf 'failed (%d): %s\n%s' "$?" "$*" "$output")"
    fi
}

# not_ok NAME [WHY]
not_ok() {
    ((++tests_run, ++tests_failed))
    echo "not ok - $1"
    [[ -z ${2-} ]] || diagnose "$2"
    return 0
}

# is VALUE EXPECTED NAME
is() {
    if [[ $1 == "$2" ]]; then ok "$3"; else not_ok "$3" "$(printf '     got: %s\nexpected: %s' "$1" "$2")"; fi
}

# like VALUE REGEX NAME: an extended regular expression.
like() {
    if [[ $1 =~ $2 ]]; then ok "$3"; else not_ok "$3" "$(printf '         got: %s\ndoes not fit: %s' "$1" "$2")"; fi
}

# unlike VALUE REGEX NAME
unlike() {
    if [[ ! $1 =~ $2 ]]; then ok "$3"; else not_ok "$3" "$(printf '            got: %s\nshould not fit: %s' "$1" "$2")"; fi
}

# skip NAME REASON
skip() {
    ((++tests_run))
    echo "ok - $1 # SKIP $2"
}

done_testing() {
    tests_done=yes
    echo "1..$tests_run"
    [[ $tests_failed -eq 0 ]] || diagnose "$tests_failed of $tests_run checks failed"
    exit "$((tests_failed > 0))"
}

# as_user USER COMMAND...: in the user's home, with the cluster's environment.
as_user() {
    local user=$1 home=$MFU_CLUSTER_DIR/home/$1
    shift
    (cd "$home" && exec env HOME="$home" USER="$user" LOGNAME="$user" runuser -u "$user" -- "$@")
}

# submit ARGUMENTS OF SBATCH: prints the job's id. Output goes below the cluster's folder, not into the caller's.
submit() {
    sbatch --parsable --chdir="$MFU_CLUSTER_DIR/home/root" "$@"
}

# submit_as USER ARGUMENTS OF SBATCH
submit_as() {
    as_user "$1" sbatch --parsable "${@:2}"
}

# wait_until SECONDS COMMAND...: polls until the command succeeds.
wait_until() {
    local limit=$1
    local end=$((SECONDS + limit))
    shift
    until "$@"; do
        ((SECONDS < end)) || {
            diagnose "waited $limit s in vain: $*"
            return 1
        }
        sleep 0.05
    done
}

# An unreachable controller is not an empty queue.
job_is_gone() {
    local out
    if out=$(squeue -h -j "$1" -o %T 2>&1); then [[ -z $out ]]; else [[ $out == *'Invalid job id'* ]]; fi
}

# wait_job ID [SECONDS]: until the job, for an array all its tasks, has left the queue.
wait_job() {
    wait_until "${2:-120}" job_is_gone "$1" && return
    diagnose "job $1 is still there after ${2:-120} s: $(squeue -h -j "$1" -o '%i %T %r' 2>&1)"
    return 1
}

# job_state_is ID STATE...: for wait_until 10 job_state_is 7 RUNNING
job_state_is() {
    local state
    state=$(squeue -h -j "$1" -t all -o %T 2>/dev/null) && [[ " ${*:2} " == *" $state "* ]]
}

# sacct_field ID FIELD [SECONDS] [REGEX]: one field of a job, or of a step (ID 12.0), from accounting, which lags behind the
# controller: waits until the record has an end and the field fits REGEX, or without one is not empty.
sacct_field() {
    local end=$((SECONDS + ${3:-60})) regex=${4:-.} line value
    local only=-X
    [[ -n $1 ]] || { diagnose "sacct_field: no job id"; return 1; } # sacct would take the first job there is
    [[ $1 != *.* ]] || only=-P
    while :; do
        line=$(sacct -n -P "$only" --delimiter=$'\x1f' -j "$1" -o "End,$2" 2>/dev/null | head -n 1)
        value=${line#*$'\x1f'}
        if [[ -n $line && $line != Unknown* && $value =~ $regex ]]; then break; fi
        if ((SECONDS >= end)); then
            echo "$value"
            return 1
        fi
        sleep 0.1
    done
    echo "$value"
}

# expire_job ID: ends a running job by its time limit, state TIMEOUT, after at most 31 s; see cluster's config.sh.
expire_job() {
    scontrol update "JobId=$1" EndTime=now+1
}
