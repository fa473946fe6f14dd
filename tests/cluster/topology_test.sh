#!/usr/bin/env bash
# mfu-topo's topology.conf and topology.yaml in a real slurmctld: it takes the file as it is meant, and places jobs by it.
# Debian 12's Slurm 22.05 knows trees only: there our own parser alone takes blocks and topology.yaml.
# environment: B, the build folder (default: build)
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath -e "$here/../../${B:-build}" 2>/dev/null || realpath -e "${B:-build}") || exit 2
# shellcheck source=tests/cluster/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/cluster/config.sh
. "$here/config.sh" # slurm_is
cluster_up
topo=$build/mfu-topo
work=$MFU_CLUSTER_DIR/home/root
conf=$MFU_CLUSTER_DIR/etc/topology.conf
log=$MFU_CLUSTER_DIR/log/slurmctld.log
errors=$work/errors

# --- a fabric of two racks, each with two rails: n1 and n3 in one, n2 and n4 in the other, so that what Slurm does by
# itself (n1 and n2) is wrong. Half of a rack's hosts are no nodes of this cluster.

# fabric FILE SPINE-OF-RACK-2: as ibnetdiscover prints it. Hosts are called gpu-RACK-PLACE.
fabric() {
    local rack rail place guid spine=$2 port
    {
        for rack in 1 2; do
            for rail in 1 2; do
                printf 'vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa%d0%d\nswitchguid=0xa%d0%d(a%d0%d)\n' $rack $rail $rack $rail $rack $rail
                printf 'Switch\t65 "S-%016x"\t\t# "MF0;R%d-LEAF-%d:MQM9701/U1" enhanced port 0 lid %d lmc 0\n' \
                    $((0xa000 + rack * 256 + rail)) $rack $rail $((rack * 10 + rail))
                for place in 1 2 3 4; do
                    # One host's second rail is not plugged in.
                    [[ $rack$place$rail != 222 ]] || continue
                    guid=$(printf 'b%d%d%d' $rack $place $rail)
                    printf '[%d]\t"H-%016x"[1](%s) \t\t# "gpu-%d-%d mlx5_%d" lid %d 4xNDR\n' \
                        $place 0x$guid $guid $rack $place $((rail - 1)) $((rack * 100 + place * 10 + rail))
                done
                port=$((rack * 2 + rail))
                printf '[60]\t"S-%016x"[%d]\t\t# "MF0;SPINE-%d:MQM9701/U1" lid %d 4xNDR\n\n' \
                    $((0xc000 + (rack == 1 ? 1 : spine))) $port $((rack == 1 ? 1 : spine)) 99
            done
        done
        for ((spine = 1; spine <= $2; spine++)); do
            printf 'vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xc00%d\nswitchguid=0xc00%d(c00%d)\n' $spine $spine $spine
            printf 'Switch\t65 "S-%016x"\t\t# "MF0;SPINE-%d:MQM9701/U1" enhanced port 0 lid 99 lmc 0\n' $((0xc000 + spine)) $spine
            for rack in 1 2; do
                for rail in 1 2; do
                    [[ $rack == 1 && $spine == 1 || $rack == 2 && $spine == "$2" ]] || continue
                    printf '[%d]\t"S-%016x"[60]\t\t# "MF0;R%d-LEAF-%d:MQM9701/U1" lid 9 4xNDR\n' \
                        $((rack * 2 + rail)) $((0xa000 + rack * 256 + rail)) $rack $rail
                done
            done
            echo
        done
        for rack in 1 2; do
            for place in 1 2 3 4; do
                for rail in 1 2; do
                    [[ $rack$place$rail != 222 ]] || continue
                    guid=$(printf 'b%d%d%d' $rack $place $rail)
                    printf 'vendid=0x2c9\ndevid=0x1021\nsysimgguid=0x%s\ncaguid=0x%s\n' $guid $guid
                    printf 'Ca\t1 "H-%016x"\t\t# "gpu-%d-%d mlx5_%d"\n' 0x$guid $rack $place $((rail - 1))
                    printf '[1](%s) \t"S-%016x"[%d]\t\t# lid 7 lmc 0 "MF0;R%d-LEAF-%d:MQM9701/U1" lid 9 4xNDR\n\n' \
                        $guid $((0xa000 + rack * 256 + rail)) $place $rack $rail
                done
            done
        done
    } >"$1"
}
fabric "$work/one" 1
fabric "$work/two" 2
printf '%s\n' 'gpu-1-1 n1' 'gpu-1-2 n3' 'gpu-2-1 n2' 'gpu-2-2 n4   # by its one rail' >"$work/names"

# The switches and nodes of a topology.conf, sorted.
leaves() { sed -n 's/^SwitchName=\([^ ]*\) .*Nodes=\(.*\)/\1 \2/p' "$1" | sort; }
# The same as slurmctld has it.
slurm_leaves() { scontrol show topology | sed -n 's/^SwitchName=\([^ ]*\) Level=0 .*Nodes=\([^ ]*\).*/\1 \2/p' | sort; }
nodes_of() { srun -N"$1" "${@:2}" sh -c 'echo $SLURMD_NODENAME' 2>"$errors" | sort | paste -sd' '; }
# generate FABRIC [OPTION...]: into the cluster's $conf; slurmctld starts with it.
generate() {
    sinfo -h -p gpu -o %N | "$topo" generate --fabric "$work/$1" --names "$work/names" --nodes-file - "${@:2}" >"$work/new" 2>"$errors" || return
    mv "$work/new" "$conf"
    : >"$log"
    "$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmctld
    wait_until 60 all_idle
}
all_idle() { [[ $(sinfo -h -p gpu -o '%D %T') == '4 idle' ]]; }
complaints() { grep -iE 'topo|switch' "$log" | grep -iE 'error|warning|invalid|lack|fatal|no switch'; }

is "$(nodes_of 2)" 'n1 n2' 'without a topology Slurm takes neighbours by name'
echo TopologyPlugin=topology/tree >>"$MFU_CLUSTER_DIR/etc/slurm.conf"

ok 'slurmctld starts with the generated tree' generate one
cp "$conf" "$work/tree"
is "$(grep -v '^#' "$conf")" 'SwitchName=R1-LEAF Nodes=n[1,3]
SwitchName=R2-LEAF Nodes=n[2,4]
SwitchName=SPINE-1 Switches=R1-LEAF,R2-LEAF' 'the tree is that of the fabric'
like "$(head -n 1 "$conf")" '^# Made by mfu-topo .* from .*/one,$' 'its head says where it is from'
like "$(cat "$errors")" '4 hosts of the fabric are no nodes of Slurm, left out: gpu-1-\[3-4\],gpu-2-\[3-4\]' 'hosts that Slurm has not are told'
is "$(slurm_leaves)" "$(leaves "$conf")" 'scontrol show topology has the same leaves'
like "$(scontrol show topology | grep SPINE-1)" 'Level=1 .*Nodes=n\[1-4\] Switches=R1-LEAF,R2-LEAF' 'and the same switch above'
is "$(complaints)" '' 'slurmctld has no complaint'
rack='^(n1 n3|n2 n4)$'
like "$(nodes_of 2 --switches=1)" "$rack" 'a job with --switches=1 is below one leaf'
is "$(nodes_of 2 --switches=1 --exclude=n1)" 'n2 n4' 'another one below the other leaf'
like "$(nodes_of 2)" "$rack" 'any job is, if it can'
is "$(nodes_of 3 | wc -w)" 3 'a larger job gets both'

# --- the audit of a job, while it runs (squeue) and later (sacct)

code() { "$@" >"$work/out" 2>"$errors"; echo $?; }
audit() { code "$topo" audit --fabric "$work/one" --names "$work/names" "$@"; }
running=$(submit -N2 -w n1,n4 --wrap "sleep 600")
ok 'a job runs across the leaves' wait_until 60 job_state_is "$running" RUNNING
is "$(audit --job "$running")" 2 'a running job is audited'
diagnose "$(cat "$work/out" "$errors")"
like "$(cat "$work/out")" 'job-leaves' 'it is on more leaves than two nodes need'
like "$(cat "$work/out")" 'rail-missing' 'and a node of it lacks a rail'
scancel "$running"
wait_job "$running"
is "$(audit --job "$running")" 2 'it is audited when it has ended'
like "$(cat "$work/out")" 'job-leaves' 'with the same finding'
near=$(submit -N2 -w n1,n3 --wrap true)
wait_job "$near"
is "$(audit --job "$near") $(cat "$work/out" | grep -c job-leaves)" '0 0' 'a job below one leaf has no finding'
is "$(audit --job 999999)" 3 'a job that is not there is trouble'

# --- two fabrics that no link joins

ok 'slurmctld starts with a forest' generate two
is "$(grep -v '^#' "$conf")" 'SwitchName=R1-LEAF Nodes=n[1,3]
SwitchName=R2-LEAF Nodes=n[2,4]' 'a forest: nothing above the two'
like "$(cat "$errors")" '2 switches are roots' 'which is told'
like "$(nodes_of 2)" "$rack" 'a job that fits one fabric runs'
is "$(nodes_of 3 --immediate=5)" '' 'a job that does not is not run across'
like "$(cat "$errors")" 'Requested (node|topology) configuration is not available' 'and its user is told'
ok 'slurmctld starts with a root above them' generate two --root
is "$(complaints)" '' 'and has no complaint'
is "$(nodes_of 3 | wc -w)" 3 'with --root the job runs across'

# --- diff against the file in use

is "$(code "$topo" diff "$conf" --fabric "$work/two" --names "$work/names" --nodes 'n[1-4]' --root) $(cat "$work/out")" '0 ' 'the file in use is as the fabric'
is "$(code "$topo" diff "$conf" --fabric "$work/two" --names "$work/names" --nodes 'n[1-4]') $(cat "$work/out")" \
    '1 - switch root above 4 nodes n[1-4]' 'a difference is told, and is exit status 1'
sed 's/n\[1,3\]/n[1,3-4]/; s/n\[2,4\]/n2/' "$conf" >"$work/moved"
is "$(code "$topo" diff "$conf" "$work/moved") $(cat "$work/out")" '1 ~ moved: R2-LEAF -> R1-LEAF: 1 node n4' 'a node that moved'
is "$("$topo" diff "$conf" "$work/moved" --json | jq -c '[.same, .changes[0].change, .changes[0].nodes]')" '[false,"moved","n4"]' 'as JSON'
is "$(code "$topo" diff "$conf" "$work/nothing")" 2 'a file that is not there is exit status 2'
like "$(cat "$errors")" '^mfu-topo diff: .*/nothing: No such file' 'with a reason'

# --- hostlists as Slurm reads them

for list in 'n[08-12]' 'n[8-012]' 'n[01-3],x' 'a,b[1,2],c' 'rack[1-2]n[01-03]' 'n[1-2][3-4]' 'n[098-101]' 'n[9-10,7]' 'n[1-500]'; do
    echo "SwitchName=a Nodes=$list" >"$work/ours"
    echo "SwitchName=a Nodes=$(scontrol show hostnames "$list" | paste -sd,)" >"$work/slurms"
    is "$(code "$topo" diff "$work/ours" "$work/slurms") $(cat "$work/out")" '0 ' "the hostlist $list is Slurm's"
done

# --- blocks, and topology.yaml

"$topo" generate --fabric "$work/one" --format block --names "$work/names" --nodes 'n[1-4]' >"$work/block" 2>"$errors"
is "$(grep -v '^#' "$work/block")" 'BlockName=R1-LEAF Nodes=n[1,3]
BlockName=R2-LEAF Nodes=n[2,4]
BlockSizes=2' 'blocks of the fabric'
"$topo" generate --fabric "$work/one" --format yaml --block-sizes 2 --names "$work/names" --nodes 'n[1-4]' >"$work/topology.yaml" 2>"$errors"
is "$(code "$topo" diff "$work/topology.yaml" --fabric "$work/one" --names "$work/names" --nodes 'n[1-4]') $(cat "$work/out")" '0 ' 'topology.yaml holds both'

# The blocks of a topology.conf, sorted, and as slurmctld has them.
blocks() { sed -n 's/^BlockName=\([^ ]*\) .*Nodes=\([^ ]*\).*/\1 \2/p' "${1:--}" | sort; }
# Both blocks have nodes left, but neither has two.
across='n[1-2]'
if slurm_is 23.11; then
    sed -i 's|^TopologyPlugin=.*|TopologyPlugin=topology/block|' "$MFU_CLUSTER_DIR/etc/slurm.conf"
    ok 'slurmctld starts with the generated blocks' generate one --format block
    is "$(scontrol show topology | blocks)" "$(blocks "$conf")" 'scontrol show topology has the same blocks'
    is "$(complaints)" '' 'slurmctld has no complaint about them'
    like "$(nodes_of 2)" "$rack" 'a job that fits a block is in one'
    is "$(nodes_of 2 --exclude=n1)" 'n2 n4' 'another one in the other block'
    is "$(nodes_of 2 --exclude="$across" --immediate=5)" '' 'a job that fits none does not run across'
    is "$(nodes_of 2 --exclude="$across" --segment=1)" 'n3 n4' 'unless its segments may be smaller'
    is "$(nodes_of 3 | wc -w)" 3 'a larger job gets both blocks'
else
    skip 'slurmctld takes the blocks' 'needs Slurm 23.11; our own parser took them'
fi

if slurm_is 25.05; then
    rm "$conf"
    conf=$MFU_CLUSTER_DIR/etc/topology.yaml
    sed -i '/^TopologyPlugin=/d' "$MFU_CLUSTER_DIR/etc/slurm.conf"
    echo 'PartitionName=blocks Nodes=n[1-4] Topology=block State=UP' >>"$MFU_CLUSTER_DIR/etc/slurm.conf"
    ok 'slurmctld starts with the generated topology.yaml' generate one --format yaml --block-sizes 2
    is "$(slurm_leaves)" "$(leaves "$work/tree")" 'its default is the tree'
    is "$(scontrol show topology block | blocks)" "$(blocks "$work/block")" 'its other topology has the blocks'
    is "$(complaints)" '' 'slurmctld has no complaint about it'
    like "$(nodes_of 2)" "$rack" 'a job in a partition of the tree is below one leaf'
    is "$(nodes_of 2 --exclude="$across")" 'n3 n4' 'or across, if it must'
    like "$(nodes_of 2 -p blocks)" "$rack" 'a job in the partition with Topology=block is in one block'
    is "$(nodes_of 2 --exclude="$across" --immediate=5 -p blocks)" '' 'and does not run across'
    is "$(nodes_of 3 -p blocks | wc -w)" 3 'a larger job gets both blocks'
else
    skip 'slurmctld takes topology.yaml' 'needs Slurm 25.05; our own parser took it'
fi
done_testing
