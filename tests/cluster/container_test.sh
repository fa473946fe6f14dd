#!/usr/bin/env bash
# slurmd in pods, as on Kubernetes: two dynamic nodes, each in mount, PID, network and UTS namespaces of its own, with another
# host name than node name, addresses that only Slurm knows, one CPU of the machine, a read-only root, a spool in memory, no
# syslog, and the product on a volume. In them also user containers, with our folders and without. slurmctld is outside.
#
# What starts here goes on in a network of its own, in which pods and the cluster's other daemons find each other.
if [[ -z ${MFU_TEST_NETWORK-} ]]; then
    if why=$(unshare --net --mount --pid --fork --uts --mount-proc true 2>&1); then
        MFU_TEST_NETWORK=own exec unshare --net --mount "$0" "$@"
    fi
fi
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"

outside=10.123.0.1
declare -A address=([p1]=10.123.0.11 [p2]=10.123.0.12) pod=()
mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
cpu=${cpus[-1]} other_cpu=${cpus[0]}
((${#cpus[@]} > 1)) || other_cpu=$((cpu + 1))

if [[ -z ${MFU_TEST_NETWORK-} ]]; then
    skip 'slurmd in pods' "namespaces are refused here: $why"
    done_testing
fi
make_network() {
    ip link set lo up && ip link add pods type bridge && ip link set pods up && ip address add "$outside/24" dev pods
}
if ! why=$(make_network 2>&1); then
    skip 'slurmd in pods' "no network between namespaces here: $why"
    done_testing
fi

# cgroups of the pods, where there are any: one CPU, and a share of its time (controllers of version 1, or version 2).
groups=() one_cpu='' quota=''
confine_pods() {
    local root group
    for root in /sys/fs/cgroup/cpuset /sys/fs/cgroup/cpu /sys/fs/cgroup; do
        group=$root/${MFU_CLUSTER_DIR##*/}
        mkdir "$group" 2>/dev/null || continue
        if [[ -z $one_cpu && -e $group/cpuset.cpus ]] &&
            { [[ ! -e $root/cpuset.mems ]] || cat "$root/cpuset.mems" >"$group/cpuset.mems"; } &&
            echo "$cpu" >"$group/cpuset.cpus"; then
            one_cpu=$group
        fi
        [[ -n $quota ]] || quota=$(find "$group" -maxdepth 1 \( -name cpu.max -o -name cpu.cfs_quota_us \))
        if [[ $one_cpu == "$group" || $quota == "$group"/* ]]; then groups+=("$group"); else rmdir "$group"; fi
    done
}
# share_cpu PERCENT: of a CPU, for all pods together; 0: as much as there is. A period is 100 ms unless it is told.
share_cpu() {
    local us=$(($1 * 1000)) all=-1
    [[ $quota != *.max ]] || all=max
    ((us > 0)) || us=$all
    echo "$us" >"$quota"
}
times_throttled() { sed -n 's/^nr_throttled //p' "${quota%/*}/cpu.stat"; }

# start_pod NODE: its first process is ${pod[NODE]}, by its id outside.
start_pod() {
    local starter
    (
        for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin MFU_CLUSTER="$MFU_CLUSTER_DIR" \
            taskset -c "$cpu" unshare --mount --pid --fork --kill-child --net --uts --mount-proc \
            "$PWD/tests/cluster/container_pod.sh" "$1" "${address[$1]}" "$outside:$port" "$MFU_CLUSTER_DIR"
    ) </dev/null >"$MFU_CLUSTER_DIR/log/$1.log" 2>&1 &
    starter=$!
    wait_until 60 pgrep -P "$starter" >/dev/null
    pod[$1]=$(pgrep -P "$starter")
    ip link add "$1" type veth peer name eth0 netns "${pod[$1]}"
    ip link set "$1" master pods up
}
kill_pod() {
    kill -KILL "${pod[$1]}" && wait_until 60 pod_is_gone "$1"
    unset "pod[$1]"
}
pod_is_gone() { [[ ! -e /proc/${pod[$1]}/root/proc ]]; }
p1_is_idle() { [[ $(sinfo -h -n p1 -p pods -o %T) == idle ]]; }
pods_are_idle() { [[ $(sinfo -h -p pods -o '%D %T') == '2 idle' ]]; }
end_pods() {
    local code=$? node
    for node in "${!pod[@]}"; do kill_pod "$node"; done 2>/dev/null
    for group in "${groups[@]}"; do wait_until 60 rmdir "$group" 2>/dev/null; done
    return "$code"
}

# pod_plugin [arguments]: from the next step in pods on.
pod_plugin() {
    local volume=$MFU_CLUSTER_DIR/pods
    printf '%s\n' "optional $MFU_CLUSTER_DIR/fake/container_image.so" \
        "optional /srv/slurm-mfu/spank_mfu.so inject=ask update=10 $*" >"$volume/plugstack.new"
    mv "$volume/plugstack.new" "$volume/plugstack.conf"
}
in_pod() { nsenter -t "${pod[$1]}" --mount --pid --net --uts "${@:2}"; }
log_of() { cat "/proc/${pod[$1]}/root/var/log/mfu-collector.log" 2>/dev/null; }

# task/none: task/affinity would bind tasks to CPUs of its own count, of which the pods lack most.
export MFU_SLURM_CONF="TaskPlugin=task/none
SlurmctldParameters=enable_configless
MaxNodeCount=16
NodeSet=pods Feature=pod
PartitionName=pods Nodes=pods MaxTime=INFINITE State=UP"
mfu_up inject=ask
trap 'end_pods; cluster_down' EXIT
confine_pods
[[ -n $one_cpu ]] || skip 'a cgroup with one CPU' 'no cpusets here: the CPU is a matter of affinity only'

# Where the pods find the daemons; and GPUs that are devices in a pod as well.
etc=$MFU_CLUSTER_DIR/etc
read -r port <"$etc/ports"
sed -i "/^\(SlurmctldHost\|AccountingStorageHost\)=/s/127.0.0.1/$outside/" "$etc/slurm.conf"
echo "NodeName=p[1-2] Name=gpu File=$MFU_CLUSTER_DIR/dev/gpu[0-1]" >>"$etc/gres.conf"
for gpu in 0 1; do mknod -m 666 "$MFU_CLUSTER_DIR/dev/new" c 1 3 && mv "$MFU_CLUSTER_DIR/dev/new" "$MFU_CLUSTER_DIR/dev/gpu$gpu"; done
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmctld

# A node's description in which GPU 0 is near to the pods' CPU, and GPU 1 to one that they do not have.
mkdir "$MFU_CLUSTER_DIR/pods"
gpu_near() { # CPU GPU
    local word text=
    for ((word = $1 / 32; word >= 0; word--)); do
        text+=$(printf '%s%08x' "${text:+,}" $((word == $1 / 32 ? 1 << $1 % 32 : 0)))
    done
    cat <<XML
  <cpu numaid="$2" affinity="$text" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:${2}f:01.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="$2" sm="90" rank="$2" gdr="1"/>
    </pci>
  </cpu>
XML
}
{ echo '<system version="1">'; gpu_near "$cpu" 0; gpu_near "$other_cpu" 1; echo '</system>'; } >"$MFU_CLUSTER_DIR/pods/node.xml"
compiler=$(sed -n 's/^CC = //p' config.mk) headers=$(sed -n 's/^SLURM_CPPFLAGS = //p' config.mk)
# shellcheck disable=SC2086 # several flags
"$compiler" $headers -shared -fPIC -O1 -o "$fake/container_image.so" tests/cluster/container_image.c || exit
pod_plugin spool=/var/spool/slurm-mfu log=/var/log/mfu-collector.log node-map="$etc/node.xml"
start_pod p1
start_pod p2
ok 'two pods are up' wait_until 60 pods_are_idle

# run NAME [options of sbatch] -- TEXT: an ordinary user's job in pods, whose id is ${job[NAME]}.
declare -A job=()
run() {
    local name=$1 options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    job[$name]=$(submit_as alice -p pods -o "$work/$name.out" --job-name="$name" "${options[@]}" --wrap "$2")
}
# finish NAME [REGEX]: its line is $l, its output $out.
finish() {
    wait_job "${job[$1]}"
    l=$(line "${job[$1]}" "${2:- s=[^ ]*[0-9]}")
    out=$(<"$work/$1.out")
    diagnose "$l"
}
chmod 1777 "$work"

# --- on both pods, each step with its own GPUs. The bare option of a batch script holds for its steps

# shellcheck disable=SC2016 # for a task's shell
printf '#!/bin/sh\n%s\n' 'echo "host=$(hostname) known=$(getent hosts p1 p2 | wc -l) net=$(ls /sys/class/net | paste -sd,)" \
    "cpus=$(sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status) strange=$(ls -d /dev/log /proc/'"$$"' 2>/dev/null)"' >"$work/look"
chmod 755 "$work/look"
run near -N2 --ntasks-per-node=1 --gpus-per-node=1 --mfu-profile -- "
    srun --mfu-profile=off $work/look
    srun --mfu-profile=off sh -c '! touch /usr/here 2>/dev/null || echo writable'
    srun train --ranks 2 --steps 20 --truth $work/truth.near.%r"
finish near
is "$(sort <<<"$out")" "host=p1-7d9f6c known=0 net=eth0,lo cpus=$cpu strange=
host=p2-7d9f6c known=0 net=eth0,lo cpus=$cpu strange=" 'the pods are closed, and neither the option nor the audit says a word'
same_as_truth "$l" 'two pods' "$work"/truth.near.*
is "$(value "$l" gpus) $(value "$l" cover)" '2xH100-SXM 0.0%/100.0%' 'two pods: both report by the addresses that Slurm knows'
is "$(value "$l" place)" ok 'two pods: the CPU that they have is near to the GPU'

run far -N2 --ntasks-per-node=2 --gpus-per-node=2 -- "
    srun --mfu-profile=flops=1e15 train --ranks 4 --steps 20 --truth $work/truth.far.%r"
finish far
same_as_truth "$l" 'all GPUs' "$work"/truth.far.*
is "$(value "$l" place)" 'warn:2(cpu-gpu-remote)' 'all GPUs: on each pod one is far from all CPUs there are'

# --- a quarter of a CPU for all of both pods, as by a container's limit: slower, and nothing is lost

if [[ -n $quota ]] && why=$(share_cpu 25 2>&1); then
    before=$(times_throttled)
    run throttled -N2 --ntasks-per-node=1 --gpus-per-node=1 -- "
        srun --mfu-profile train --ranks 2 --steps 20 --truth $work/truth.throttled.%r"
    finish throttled
    ok 'throttled: the limit was felt' test "$(times_throttled)" -gt "$before"
    same_as_truth "$l" 'throttled' "$work"/truth.throttled.*
    is "$(value "$l" gpus) $(value "$l" cover)" '2xH100-SXM 0.0%/100.0%' 'throttled: both report'
    share_cpu 0
else
    skip "a share of a CPU's time" "${why:-no cgroup limits CPUs here}"
fi

# --- a pod's end: meanwhile the others run

run killed -N2 --no-requeue --ntasks-per-node=1 --gpus-per-node=1 -- "
    srun --mfu-profile train --ranks 2 --steps 3 --hang-at-step 2 --truth $work/truth.killed.%r"

# --- trouble is told in the file of log=

# shellcheck disable=SC2016
clutter='echo no record >$MFU_RECORD_DIR/other.mfu'
run clutter -N1 -n1 -w p2 --gpus=1 -- "
    srun --mfu-profile sh -c '$clutter; exec train --ranks 2 --rank 0 --steps 6 --truth $work/truth.clutter'"
finish clutter
is "$(value "$l" compute)" 'n/a(broken-records)' 'a strange file: the line says so'
like "$(log_of p2)" "node p2 job ${job[clutter]} step 0: 1 files in the record folder are no records" "a strange file: the pod's log has it"

# --- user containers in the pod: profiled only with both of our folders under the same paths. Nowhere to report to

pod_plugin spool=/var/spool/slurm-mfu
library=/srv/slurm-mfu records=/var/spool/slurm-mfu
declare -A mounts=([whole]="$library:$records" [library]="$library" [records]="$records" [bare]="")
if why=$(runuser -u alice -- unshare --user --mount true 2>&1); then
    for name in "${!mounts[@]}"; do
        run "$name" -N1 -n1 --gpus=1 -- "IMAGE_HIDES=/srv:/var/spool IMAGE_MOUNTS=${mounts[$name]} srun --mfu-profile sh -c '
            ls -d $library/spank_mfu.so $records/p? 2>/dev/null
            exec train --ranks 2 --rank 0 --steps 6 --exit-code 3 --truth $work/truth.$name'; echo code \$?"
    done
    for name in "${!mounts[@]}"; do
        finish "$name"
        out=$(grep -v '^srun: error' <<<"$out")
        seen=
        [[ ${mounts[$name]} != *$library* ]] || seen+=$library/spank_mfu.so$'\n'
        [[ ${mounts[$name]} != *$records* ]] || seen+=$(grep "^$records/p[12]\$" <<<"$out")$'\n'
        is "$out" "${seen}code 3" "image with ${mounts[$name]:-nothing}: the job sees that, and ends by its own code"
        if [[ $name == whole ]]; then
            same_as_truth "$l" 'image with both' "$work/truth.$name"
        else
            like "$(value "$l" compute)" '^n/a\(' "image with ${mounts[$name]:-nothing}: runs unprofiled, and the line has no figures"
        fi
    done
else
    skip 'user containers' "user namespaces are refused here: $why"
fi

# --- the pod of the first node dies, with all of its processes

wait_until 60 all_there "$work"/truth.killed.{0,1}
ok 'killed: an interim line has all that both have done' wait_until 60 told_so_far "${job[killed]}" "$work"/truth.killed.{0,1}
kill_pod p1
scontrol update NodeName=p1 State=DOWN Reason=killed
l=$(line "${job[killed]}" 'cur=0:')
diagnose "$l"
is "$(sacct_field "${job[killed]}" State)" NODE_FAIL 'killed: the state is that of the job'
is "$(value "$l" gpus) $(value "$l" state)" '2xH100-SXM running' 'killed: the line of a minute ago stays'
same_as_truth "$(running_sums "$l")" 'killed' "$work"/truth.killed.*

start_pod p1
scontrol update NodeName=p1 State=RESUME
ok 'the pod is back' wait_until 60 p1_is_idle
run again -w p1 -N1 -n1 --gpus=1 -- "srun --mfu-profile train --ranks 2 --rank 0 --steps 6 --truth $work/truth.again"
finish again
same_as_truth "$l" 'the pod is back' "$work"/truth.again
# shellcheck disable=SC2016 # for the pod's shell
spool_is_empty() { in_pod p1 sh -c 'folders=$(find /var/spool/slurm-mfu -mindepth 2 -type d) && [ -z "$folders" ]'; }
ok 'the pod is back: and its spool is empty again' wait_until 60 spool_is_empty
done_testing
