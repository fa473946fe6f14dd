# shellcheck shell=bash
# The daemons of a cluster, one by one: start, ready, stop. Sourced by cluster; works on $dir.
# shellcheck disable=SC2154 # cluster sets dir, config.sh the rest

services=(munged mariadb slurmdbd slurmctld)

known() {
    local daemons="${services[*]} ${nodes[*]}"
    [[ -n ${1-} && " $daemons " == *" $1 "* ]] || die "unknown daemon '${1-}'. One of: $daemons"
}

known_node() {
    [[ -n ${1-} && " ${nodes[*]} " == *" $1 "* ]] || die "unknown node '${1-}'. One of: ${nodes[*]}"
}

pid_file() {
    case $1 in
    munged) echo "$dir/munge/pid" ;;
    mariadb) echo "$dir/db/pid" ;;
    *) echo "$dir/run/$1.pid" ;;
    esac
}

# The pid of a daemon that runs, or failure: a pid in an old file may have passed to a stranger.
daemon_pid() {
    local pid
    pid=$(cat "$(pid_file "$1")" 2>/dev/null) && [[ -n $pid ]] && alive "$pid" && has_mark "$pid" "MFU_CLUSTER=$dir" && echo "$pid"
}

failed() {
    local name=$1 log=$dir/log/$1.log
    shift
    {
        echo "cluster: $name $*. The end of $log:"
        if [[ -s $log ]]; then tail -n 15 "$log" | sed 's/^/    /'; else echo "    (nothing)"; fi
    } >&2
    exit 1
}

# A daemon gets a clean environment: a test's own variables must not leak into slurmd's steps. It keeps none of our file
# descriptors: the caller may be reading a pipe to its end.
run_daemon() {
    local name=$1 fd
    shift
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            ((fd <= 2)) || exec {fd}>&-
        done
        cd / || exit
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin SLURM_CONF="$dir/etc/slurm.conf" MFU_CLUSTER="$dir" "$@" \
            </dev/null >>"$dir/log/$name.log" 2>&1
    )
}

start_daemon() {
    local name=$1
    case $name in
    munged)
        run_daemon "$name" setpriv --reuid=munge --regid=munge --clear-groups setsid --fork munged --foreground --num-threads=2 \
            --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed"
        ;;
    mariadb)
        # Durability is traded for speed: the database dies with its folder. Slurm supports no isolated snapshots, which are the
        # default of MariaDB 11.6 and unknown to 10.5.
        run_daemon "$name" setsid --fork mariadbd --no-defaults --user=mysql --skip-networking --datadir="$dir/db" \
            --socket="$dir/db/socket" --pid-file="$dir/db/pid" --innodb-log-file-size=4M --innodb-buffer-pool-size=32M \
            --innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-file-per-table=0 \
            --sync-frm=0 --innodb-lock-wait-timeout=900 --innodb-fast-shutdown=2 \
            --loose-innodb-snapshot-isolation=OFF
        ;;
    slurmdbd) run_daemon "$name" MYSQL_UNIX_PORT="$dir/db/socket" slurmdbd ;;
    slurmctld) run_daemon "$name" slurmctld ;;
    n[0-9]*) run_daemon "$name" MFU_CLUSTER_NODE="$name" slurmd -N "$name" ;;
    esac || failed "$name" "did not start"
}

# The daemon answers.
wait_ready() {
    local name=$1 base
    read -r base <"$dir/etc/ports"
    case $name in
    munged) wait_until 60 test -S "$dir/munge/socket" ;;
    mariadb) wait_until 60 database_answers ;;
    slurmdbd) wait_until 60 listens "$((base + 1))" ;;
    slurmctld) wait_until 60 controller_answers ;;
    n[0-9]*) wait_until 60 node_ready "$name" ;;
    esac || failed "$name" "does not answer"
}

listens() {
    (: >"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

database_answers() {
    mariadb --no-defaults --socket="$dir/db/socket" -e 'select 1' &>/dev/null
}

slurm() {
    SLURM_CONF=$dir/etc/slurm.conf "$@"
}

controller_answers() {
    [[ $(slurm scontrol ping 2>/dev/null) == *'is UP'* ]]
}

# slurmd writes its pid once it listens; until then the controller shows the state of the one before.
node_ready() {
    daemon_pid "$1" >/dev/null || return 1
    [[ $(slurm sinfo -h -n "$1" -p gpu -o %T 2>/dev/null) =~ ^(idle|mixed|allocated|completing)$ ]]
}

all_idle() {
    [[ $(slurm sinfo -h -p gpu -o '%D %T' 2>/dev/null) == "${#nodes[@]} idle" ]]
}

# TERM, 20 s, KILL; ends when all are gone.
stop_daemons() {
    local name pid pids=()
    for name; do
        pid=$(daemon_pid "$name") && pids+=("$pid")
    done
    end_processes TERM "${pids[@]}"
}

kill_daemon() {
    local pid
    pid=$(daemon_pid "$1") || die "$1 of $dir is not running."
    end_processes KILL "$pid"
}

status() {
    local name pid result=0
    for name in "${services[@]}" "${nodes[@]}"; do
        if pid=$(daemon_pid "$name"); then
            printf '%-10s %7d up\n' "$name" "$pid"
        else
            printf '%-10s %7s down, see %s\n' "$name" - "$dir/log/$name.log"
            result=1
        fi
    done
    return "$result"
}

restart() {
    local name
    stop_daemons "$@"
    for name; do start_daemon "$name"; done
    for name; do wait_ready "$name"; done
}
