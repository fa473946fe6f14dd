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

# end_processes SIGNAL PID...: SIGNAL, 20 s, KILL; ends when all are gone.
end_processes() {
    local signal=$1
    shift
    [[ $# -gt 0 ]] || return 0
    for signal in "$signal" KILL; do
        kill -s "$signal" "$@" 2>/dev/null
        wait_until 20 all_gone "$@" && return 0
    done
    die "processes $* of $dir do not end, not even by SIGKILL. See /proc/PID/stack."
}

# stepds NODE...: their slurmstepds; with '*' those of all nodes. They write their title over their environment, all of it in
# Slurm 24.11, but they keep their node's log open.
stepds() {
    local pid node
    for pid in $(pgrep -f '^slurmstepd: '); do
        for node; do
            [[ -z $(find "/proc/$pid/fd" -lname "$dir/log/$node.log" 2>/dev/null) ]] || echo "$pid"
        done
    done
}

# marked MARK...: the cluster's processes that carry one (NAME=VALUE) in their environment. What its daemons started has MFU_CLUSTER; a job
# has our SLURM_CONF and SLURM_JOB_ID; a client has our SLURM_CONF and its name. SLURM_CONF alone is not enough: a test that
# stops its cluster has it too.
marked() {
    local mark pid comm patterns=() stepds_of=()
    for mark; do
        patterns+=(-e "$mark")
        case $mark in
        MFU_CLUSTER=*) stepds_of+=('*') ;;
        MFU_CLUSTER_NODE=*) stepds_of+=("${mark#*=}") ;;
        esac
    done
    stepds "${stepds_of[@]}"
    while read -r pid; do
        if [[ $pid == "$$" ]] || ! alive "$pid"; then continue; fi
        comm=$(cat "/proc/$pid/comm" 2>/dev/null)
        if has_mark "$pid" "MFU_CLUSTER=$dir" || { has_mark "$pid" "SLURM_CONF=$dir/etc/slurm.conf" &&
            { [[ $comm =~ ^(srun|salloc|sbatch)$ ]] || grep -qz '^SLURM_JOB_ID=' "/proc/$pid/environ" 2>/dev/null; }; }; then
            echo "$pid"
        fi
    done < <(grep -lzxF "${patterns[@]}" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3)
}

# Twice, since a process may start another while we look. All are stopped before the first dies, as on a node without power:
# a collector that sees its slurmstepd end would tell the other nodes.
kill_marked() {
    local pids
    for _ in 1 2; do
        mapfile -t pids < <(marked "$@")
        ((${#pids[@]} == 0)) || kill -s STOP "${pids[@]}" 2>/dev/null
        end_processes KILL "${pids[@]}"
    done
}

# A node's steps and what they run, which outlive its slurmd.
kill_steps() {
    kill_marked "${@/#/MFU_CLUSTER_NODE=}" "${@/#/SLURMD_NODENAME=}"
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
