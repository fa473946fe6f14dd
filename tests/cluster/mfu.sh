# shellcheck shell=bash
# On top of lib.sh: a cluster with slurm-mfu on it and the fake GPU for its jobs. Run from the repository's root; the
# build folder is $1 of the test, or build.

build=$(realpath "${B:-build}")

# mfu_up [plugstack arguments]: the cluster, and the plugin with a spool below it. $work is a folder that jobs may write
# to; $truth and what else they leave lies there.
mfu_up() {
    cluster_up || exit
    # plugstack.conf cannot hold a path with a blank, and a checkout may be closed to ordinary users.
    product=$MFU_CLUSTER_DIR/product
    fake=$MFU_CLUSTER_DIR/fake
    mkdir "$product" "$fake"
    cp "$build"/{spank_mfu.so,libmfu_profiler.so,mfu-collector,mfu-topo} "$product"
    cp "$build"/tests/fake/* "$fake"
    export PATH=$fake:$PATH LD_LIBRARY_PATH=$fake
    spool=$MFU_CLUSTER_DIR/mfu
    work=$MFU_CLUSTER_DIR/work
    mkdir -m 1777 "$work"
    mfu_plugin "$@"
}

# mfu_plugin [arguments]: other arguments from the next step on.
mfu_plugin() {
    local inject=inject=gpu
    [[ " $*" != *' inject='* ]] || inject=
    "$mfu_cluster" plugstack "$MFU_CLUSTER_DIR" "optional $product/spank_mfu.so $inject spool=$spool \
munge=$MFU_CLUSTER_DIR/munge/socket log=$MFU_CLUSTER_DIR/log/collector.log $*"
}

# caught_up STEP FILE...: waits for the FILEs, the truth of the step's tasks, and until each of its processes has published
# what it had done by then. Twice: a writing may have begun before.
caught_up() {
    local step=$1 since
    wait_until 60 all_there "${@:2}" || diagnose "step $step: not all of ${*:2} is there"
    for _ in 1 2; do
        since=$(date +%s%N)
        wait_until 60 published_since "$step" "$since" || diagnose "step $step: nothing is published any more"
    done
}
all_there() {
    local file
    for file; do [[ -s $file ]] || return 1; done
}
published_since() {
    local record name
    for record in "$spool"/n*/"$1".*/records/*.mfu; do
        name=${record##*/} # PID.N.mfu; who has ended has said his last word
        [[ -d /proc/${name%%.*} ]] || continue
        (($(published "$record") > $2)) || return 1
    done
}
# published RECORD: when, in nanoseconds; profiler/record.hh has where.
published() {
    local slot
    for slot in 0 12288; do od -An -t u8 -j $((slot + 208)) -N 8 "$1"; done 2>/dev/null | sort -n | tail -n 1 | tr -d ' '
}

# line JOB [REGEX] [FIELD]: the job's line from accounting, once it fits; by default, once a step of srun is merged: the batch
# step alone may come first.
line() {
    sacct_field "$1" "${3:-AdminComment}" 60 "${2:-mfu/1 .* s=[^ ]*[0-9].*\.}"
}

# job_named NAME: the id of the last job of that name, once accounting knows it.
job_named() {
    local id
    for _ in {1..300}; do
        id=$(sacct -a -n -X -P -o JobID --name "$1" | tail -n 1)
        [[ -z $id ]] || break
        sleep 0.1
    done
    echo "$id"
}

# comment JOB: the field as the controller has it now.
comment() { scontrol show job "$1" | sed -n 's/^ *AdminComment=//p'; }
# running_sums LINE: what a line says of its running step, as if it had ended.
running_sums() { echo "sum=$(value "$1" cur | cut -d: -f2)"; }
# told_so_far JOB FILE...: for wait_until: an interim line has all that the running step's tasks have done, their truth.
told_so_far() {
    local line
    line=$(comment "$1")
    [[ $line == *state=running* && -z $(differences "$(running_sums "$line")" "${@:2}") ]]
}

# no_folders [JOB]: for wait_until: no step, or none of the job's, has a folder in the spool, which is there.
no_folders() {
    local folders name=${1:+$1.*}
    folders=$(find "$spool" -mindepth 2 -maxdepth 2 -type d -name "${name:-*}") && [[ -z $folders ]]
}

# value LINE KEY: what stands behind KEY= in a line.
value() {
    local rest=" ${1-} "
    [[ $rest == *" $2="* ]] || return 1
    rest=${rest#*" $2="}
    echo "${rest%% *}"
}

# sum LINE NAME: one of the exact sums; NAME as in mfu-report --json.
sum() {
    local names=(model_flops capacity_flop flops_ns elapsed_ns attributed_ns span_ns compute_ns exposed_communication_ns
        overlapped_communication_ns exposed_memory_ns lost_ns training_steps training_ns training_gpu_ms collective_ns
        wait_ns executed_flops executed_capacity_flop executed_ns counted_ms kernel_ms energy_j energy_ms clock_megacycles
        clock_ms tensor_active_ms tensor_ms read_mb written_mb io_ms productive_ms start_up_ms restart_ms writing_ms
        reading_ms stalled_ms tail_ms) sums i
    IFS=, read -ra sums < <(value "$1" sum | tr -d .)
    ((${#sums[@]} > 0)) || return 1 # no line is not one of zeros
    for i in "${!names[@]}"; do
        # A sum of 0 is written as nothing.
        [[ ${names[i]} != "$2" ]] || { echo "$((36#${sums[i]:-0}))"; return; }
    done
    return 1
}

# truth KEY FILE...: the sum over the generator's truth files.
truth() {
    local key=$1
    shift
    jq -s "map(.$key) | add" "$@"
}

# The classes of time: a line's sums and the generator's names of them.
times=(span_ns:span_ns compute_ns:compute_ns exposed_communication_ns:exposed_comm_ns
    overlapped_communication_ns:overlapped_comm_ns exposed_memory_ns:exposed_memory_ns)

# differences LINE FILE...: sums that are not the generator's.
differences() {
    local pair got wanted line=$1
    shift
    for pair in "${times[@]}"; do
        got=$(sum "$line" "${pair%:*}") wanted=$(truth "${pair#*:}" "$@")
        [[ $got == "$wanted" ]] || printf '\n%s is %s, in truth %s' "${pair%:*}" "$got" "$wanted"
    done
}

# same_as_truth LINE NAME FILE...: every class of time is the generator's, to the nanosecond.
same_as_truth() {
    local line=$1 name=$2 pair
    shift 2
    for pair in "${times[@]}"; do
        is "$(sum "$line" "${pair%:*}")" "$(truth "${pair#*:}" "$@")" "$name: ${pair%:*} is the truth's"
    done
}
