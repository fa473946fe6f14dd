# shellcheck shell=bash
# For an example that runs on a private Slurm cluster in a temporary folder, with a build of slurm-mfu and the fake CUDA
# driver. Sourced; needs root, as the cluster does. Leaves nothing behind, but for the logs after a failure.
# shellcheck disable=SC2154 # who sources this sets example, what complaints begin with
export LC_ALL=C
unset "${!SLURM_@}" "${!SBATCH_@}" "${!SALLOC_@}" "${!SACCT_@}" CUDA_INJECTION64_PATH # of the cluster we may be started in
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cluster=$root/tests/cluster/cluster
dir=''

say() {
    printf '%s\n' "$@"
}

die() {
    echo "$example: $*" >&2
    exit 1
}

finish() {
    local code=$? started=no
    trap '' INT TERM HUP
    [[ -n $dir ]] || exit "$code"
    if [[ -e $dir/slurm/etc ]]; then
        started=yes
        "$cluster" stop "$dir/slurm"
    fi
    if [[ $started == no ]] || ((code == 0 || code > 128)); then # without a cluster, done, or interrupted
        rm -rf "$dir"
    else
        cat "$dir"/slurm/log/collector.log 2>/dev/null
        echo "$example: failed. What jobs wrote is in $dir/slurm/home/alice, the daemons' logs in $dir/slurm/log." >&2
    fi
    exit "$code"
}

# As a site installs it, in a place where every user can read it, wherever this checkout lies. gpu/ stands for what a
# node with GPUs has by itself: the CUDA driver, CUPTI and a training program.
install_files() {
    local build=$1 fakes=(libcuda.so.1 libcudart.so.13 libcupti.so.13 libcublas.so.13 libcublasLt.so.13 libgemm_client.so replay train)
    mkdir "$dir/lib" "$dir/gpu" || return
    install -m 755 "$build"/{spank_mfu.so,libmfu_profiler.so,mfu-collector,mfu-analyze,mfu-report,mfu-topo} "$dir/lib" || return
    install -m 755 "${fakes[@]/#/$build/tests/fake/}" "$dir/gpu"
}

# start_cluster BUILD: ends with the example, however that ends. MFU_NODES and MFU_NODE_GPUS say how large it is.
start_cluster() {
    trap finish EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    [[ $EUID -eq 0 ]] || die 'must run as root: its private cluster starts tasks as their users. Try sudo.'
    dir=$(mktemp -d "${TMPDIR:-/tmp}/mfu.XXXXXX") || die 'no temporary folder can be made'
    chmod 755 "$dir"
    mkdir "$dir/slurm"
    install_files "$1" || die 'the build is not complete; run: make demo'
    "$cluster" start "$dir/slurm" --plugin "optional $dir/lib/spank_mfu.so inject=gpu spool=$dir/spool \
munge=$dir/slurm/munge/socket log=$dir/slurm/log/collector.log" || die 'the private Slurm cluster did not start (see above)'
    eval "$("$cluster" env "$dir/slurm")"
    home=$dir/slurm/home/alice
}

# alice COMMAND...: as she types it in her home.
alice() {
    (cd "$home" && exec env HOME="$home" USER=alice LOGNAME=alice PATH="$dir/gpu:$dir/lib:$PATH" \
        LD_LIBRARY_PATH="$dir/gpu" runuser -u alice -- "$@")
}

# retry SECONDS COMMAND...: until it succeeds.
retry() {
    local end=$((SECONDS + $1))
    until "${@:2}"; do
        ((SECONDS < end)) || return 1
        sleep 0.3
    done
}

# job_ended JOB: and how, in $state.
job_ended() {
    state=$(alice sacct -j "$1" -X -n -P -o State) && [[ ! ${state:-PENDING} =~ ^(PENDING|RUNNING|COMPLETING)$ ]]
}

# line_written JOB: its final line, in $line.
line_written() {
    line=$(alice sacct -j "$1" -X -n -P -o AdminComment) && [[ $line =~ ^mfu/1\ .*\ s=0\ .*\.$ ]]
}

# await_line JOB SECONDS
await_line() {
    retry "$2" job_ended "$1" || die "job $1 does not end: $(squeue -h -j "$1" -o '%T %r' 2>&1)"
    [[ $state == COMPLETED ]] || die "job $1 is $state: $(cat "$home"/*-"$1".out 2>/dev/null)"
    retry 60 line_written "$1" || die "job $1 has ended, and accounting has no line for it; the field holds: '$line'"
}
