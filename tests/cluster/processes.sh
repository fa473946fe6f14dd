# shellcheck shell=bash
# Processes: who lives, who belongs to the cluster, and how they end. Sourced by cluster; works on $dir.
# shellcheck disable=SC2154 # cluster sets dir, config.sh the rest

# kill -0 also succeeds for a zombie, and a dead daemon may stay one for seconds where nothing reaps it.
alive() {
    local stat
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    [[ ${stat##*) } != [ZX]* ]]
}

all_gone() {
    local pid
    for pid; do
        ! alive "$pid" || return 1
    done
}

# Polls a condition every 20 ms.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.02
    done
}

has_mark() {
    grep -qzxF -e "$2" "/proc/$1/environ" 2>/dev/null
}

# end_processes SIGNAL PID...: SIGNAL, five seconds, KILL; ends when all are gone.
end_processes() {
    local signal=$1
    shift
    [[ $# -gt 0 ]] || return 0
    for signal in "$signal" KILL; do
        kill -s "$signal" "$@" 2>/dev/null
        wait_until 5 all_gone "$@" && return 0
    done
    die "processes $* of $dir do not end, not even by SIGKILL. See /proc/PID/stack."
}

# The cluster's processes that carry MARK (NAME=VALUE) in their environment: what its daemons started has MFU_CLUSTER; a job
# has our SLURM_CONF and SLURM_JOB_ID; a client has our SLURM_CONF and its name. SLURM_CONF alone is not enough: a test that
# stops its cluster has it too.
marked() {
    local pid comm
    while read -r pid; do
        if [[ $pid == "$$" ]] || ! alive "$pid"; then continue; fi
        comm=$(cat "/proc/$pid/comm" 2>/dev/null)
        if has_mark "$pid" "MFU_CLUSTER=$dir" || { has_mark "$pid" "SLURM_CONF=$dir/etc/slurm.conf" &&
            { [[ $comm =~ ^(srun|salloc|sbatch)$ ]] || grep -qz '^SLURM_JOB_ID=' "/proc/$pid/environ" 2>/dev/null; }; }; then
            echo "$pid"
        fi
    done < <(grep -lzxF -e "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3)
}

# Twice, since a process may start another while we look.
kill_marked() {
    local mark pids
    for mark in "$@" "$@"; do
        mapfile -t pids < <(marked "$mark")
        end_processes KILL "${pids[@]}"
    done
}

# A node's steps and what they run, which outlive its slurmd.
kill_steps() {
    local node
    for node; do kill_marked "MFU_CLUSTER_NODE=$node" "SLURMD_NODENAME=$node"; done
}

# The nodes go first so that nothing starts a new step, then the steps, then the services, then clients and strays.
stop_all() {
    stop_daemons "${nodes[@]}"
    kill_steps "${nodes[@]}"
    stop_daemons slurmctld
    stop_daemons slurmdbd
    stop_daemons mariadb munged
    kill_marked "MFU_CLUSTER=$dir" "SLURM_CONF=$dir/etc/slurm.conf"
    release_ports
}

remove_folder() {
    rm -rf --one-file-system -- "$dir" || die "cannot remove $dir."
}
