# shellcheck shell=bash
# What a cluster's folder holds: checks, ports and configuration files. Sourced by cluster; works on $dir.
# shellcheck disable=SC2154 # cluster sets dir
#
# DIR/etc   configuration                 DIR/log   a log a daemon DIR/run   pid files
# DIR/munge munged and its key            DIR/db    MariaDB       DIR/state  slurmctld
# DIR/spool a folder a node               DIR/dev   fake GPUs      DIR/home  alice, bob

users=(alice bob)
gpus=${MFU_NODE_GPUS:-4} # of a node

# name_nodes COUNT
name_nodes() {
    mapfile -t nodes < <(seq -f 'n%g' "$1")
}
name_nodes "${MFU_NODES:-4}"

die() {
    echo "cluster: $*" >&2
    exit 2
}

check_machine() {
    local tool
    [[ $EUID -eq 0 ]] || die "must run as root: slurmd starts tasks as their users, munged and MariaDB run as their own."
    for tool in munged mariadbd mariadb-install-db slurmdbd slurmctld slurmd sacctmgr runuser flock; do
        command -v "$tool" >/dev/null || die "$tool is missing. Install slurm-wlm slurmdbd munge mariadb-server."
    done
}

# slurm_is 23.11: the installed Slurm is that or later.
slurm_is() {
    [[ $(printf '%s\n' "$1" "$(slurmctld -V | cut -d' ' -f2)" | sort -V | head -n1) == "$1" ]]
}

# The longest socket is slurmstepd's, DIR/spool/n4/n4_JOB.STEP with two 32 bit numbers; sun_path takes 107 bytes.
check_folder() {
    local longest=$dir/spool/${nodes[-1]}/${nodes[-1]}_4294967295.4294967295 parent=$dir
    ((${#longest} <= 107)) || die "$dir is too long for Unix sockets below it. Use a folder of at most $((107 - ${#longest} + ${#dir})) characters."
    [[ $dir != *[[:space:]\'\"\\\[\],=#%]* ]] || die "$dir has a character that Slurm's configuration files cannot hold."
    [[ -z $(ls -A "$dir") ]] || die "$dir is not empty. Use a new folder: mktemp -d"
    while [[ $parent != / ]]; do
        [[ $(stat -c %A "$parent") == *[xt] ]] || die "ordinary users cannot enter $parent. Do: chmod 755 $parent"
        parent=$(dirname "$parent")
    done
}

write_configuration() {
    local user
    mkdir "$dir"/{etc,log,run,state,spool,dev,home,munge} "${nodes[@]/#/$dir/spool/}"
    chown munge: "$dir/munge"
    chown slurm: "$dir/state"
    chmod 755 "$dir"/{etc,log,run,spool,dev,home,munge}
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge/key") && chown munge: "$dir/munge/key"
    : >"$dir/log/slurmdbd.log" && : >"$dir/log/slurmctld.log" && chown slurm: "$dir"/log/slurm*.log
    echo "${#nodes[@]}" >"$dir/etc/nodes"
    claim_machine
    for user in root "${users[@]}"; do
        mkdir "$dir/home/$user" && chown "$user:" "$dir/home/$user"
    done
    write_plugstack "${MFU_PLUGSTACK-}"
    write_slurmdbd_conf
    write_gres_conf
    write_slurm_conf
}

# What clusters share is decided under one lock: who has which ports, and who adds the Linux users. A claim is a symlink to
# the cluster's own list of ports, so that of a cluster which was stopped or deleted dangles. There is one for every six
# ports: slurmctld's, slurmdbd's, and a port a node. Ports lie below the range the kernel hands out to clients.
claim_machine() {
    local claims=/run/slurm-mfu-ports user lock slot slots=$(((${#nodes[@]} + 7) / 6)) p
    mkdir -p "$claims"
    exec {lock}<"$claims"
    flock "$lock"
    find "$claims" -xtype l -delete
    for user in "${users[@]}"; do
        id "$user" &>/dev/null || useradd --no-create-home --home-dir /nonexistent --shell /bin/bash "$user" ||
            die "cannot add the Linux user $user; see useradd's message above."
    done
    for slot in $(shuf -i "0-$((2000 - slots))" -n 100); do
        port=$((20000 + 6 * slot))
        slots_free "$claims" "$port" "$slots" || continue
        echo "$port" >"$dir/etc/ports"
        for ((p = port; p < port + 6 * slots; p += 6)); do ln -s "$dir/etc/ports" "$claims/$p"; done
        exec {lock}<&-
        return
    done
    die "no $((6 * slots)) free TCP ports in a row between 20000 and 32000. Stop clusters that are no longer needed: ls -l $claims"
}

# slots_free CLAIMS FIRST SLOTS
slots_free() {
    local p
    for ((p = $2; p < $2 + 6 * $3; p++)); do
        [[ ! -e $1/$p ]] || return 1
        ! (: >"/dev/tcp/127.0.0.1/$p") 2>/dev/null || return 1
    done
}

release_ports() {
    [[ -e $dir/etc/ports ]] || return 0
    find /run/slurm-mfu-ports -lname "$dir/etc/ports" -delete
    rm -f "$dir/etc/ports"
}

# srun and slurmstepd read plugstack.conf anew for every step, and slurmstepd for every prolog and epilog. But slurmd looks
# only when it starts whether any plugin has a prolog or epilog hook, and a reconfigure does not change its mind. A rename
# keeps them from reading half a line.
write_plugstack() {
    printf '%s\n' "$1" >"$dir/etc/plugstack.conf.new" && mv "$dir/etc/plugstack.conf.new" "$dir/etc/plugstack.conf"
}

write_slurmdbd_conf() {
    cat >"$dir/etc/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
PidFile=$dir/run/slurmdbd.pid
LogFile=$dir/log/slurmdbd.log
END
    # slurmdbd refuses a file that others can read, or that is not its own.
    chmod 600 "$dir/etc/slurmdbd.conf" && chown slurm: "$dir/etc/slurmdbd.conf"
}

# A GPU's file must be a device: with a regular file Slurm silently sets no CUDA_VISIBLE_DEVICES.
write_gres_conf() {
    local gpu
    for ((gpu = 0; gpu < gpus; gpu++)); do ln -s /dev/null "$dir/dev/gpu$gpu"; done
    printf 'AutoDetect=off\nNodeName=n[1-%d] Name=gpu File=%s/dev/gpu[0-%d]\n' "${#nodes[@]}" "$dir" $((gpus - 1)) >"$dir/etc/gres.conf"
    # slurmd of Slurm 23.11 and later needs cgroups or this word, which earlier ones do not know.
    if slurm_is 23.11; then
        echo 'CgroupPlugin=disabled' >"$dir/etc/cgroup.conf"
    else
        echo 'CgroupAutomount=no' >"$dir/etc/cgroup.conf"
    fi
}

write_slurm_conf() {
    local i
    {
        cat <<END
ClusterName=mfu$port
SlurmctldHost=$(uname -n)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits for its credentials to expire, 120 s by default.
AuthInfo=socket=$dir/munge/socket,cred_expire=10
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
PlugStackConfig=$dir/etc/plugstack.conf
MailProg=/bin/true

# AuthInfo does not reach the controller's connection to slurmdbd: it takes munge's socket from AccountingStoragePass.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
AccountingStoragePass=$dir/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1

ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
GresTypes=gpu
LaunchParameters=use_interactive_step
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1


# A job ends, and the next one starts, without the pauses that a large site needs.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
CompleteWait=0
EpilogMsgTime=1
KillWait=2
InactiveLimit=20
SlurmdTimeout=20
MinJobAge=300

# A time limit counts in minutes and slurmctld looks every 30 s, whatever is configured: -t 0:03 and -t 1 end a job after 60
# to 90 s. Setting a running job's EndTime to now (expire_job in lib.sh) ends it, TIMEOUT too, after 0 to 30 s (measured 4, 15
# and 22 s); nothing quicker was found.
OverTimeLimit=0
END
        for i in "${!nodes[@]}"; do
            echo "NodeName=${nodes[i]} NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 2 + i)) CPUs=8 RealMemory=4000 Gres=gpu:$gpus"
        done
        cat <<END
PartitionName=gpu Nodes=n[1-${#nodes[@]}] Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP
PartitionName=short Nodes=n[1-${#nodes[@]}] MaxTime=1 DefaultTime=1 OverTimeLimit=0 State=UP
${MFU_SLURM_CONF-}
END
    } >"$dir/etc/slurm.conf"
}
