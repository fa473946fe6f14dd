#!/usr/bin/env bash
# mfu-topo as a user has it: its commands, exit statuses and messages, on files, on this machine, and on a fabric that ibsim
# simulates.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=${B:-build}
topo=$(realpath -e "$B/mfu-topo") || exit 2
fakes=$(realpath "$B/tests/fake")
cxx=$(sed -n 's/^CXX = //p' config.mk)
scratch=$(mktemp -d)
simulator=
trap '[[ -z $simulator ]] || kill "$simulator" 2>/dev/null; rm -rf "$scratch"' EXIT

# --- the manual

rules=$(grep -ohE '"[a-z]+(-[a-z]+)+", ((known|coherent|local\.empty\(\)) \? )?Severity::' topology/*.cc | cut -d'"' -f2 | sort -u)
is "$(for rule in $rules; do grep -q "^\.It Cm $rule Pq" man/mfu-topo.1 || echo "$rule"; done)" '' 'man mfu-topo has every rule'
is "$(wc -w <<<"$rules" | awk '{ print ($1 > 15) }')" 1 'there are rules'

cd "$scratch" || exit 2
export COLUMNS=120

# run ARGUMENTS: output in $out, errors in $err, exit status in $code.
run() {
    out=$("$topo" "$@" 2>err)
    code=$?
    err=$(<err)
}
# says CODE NAME: the last run ended so.
says() { is "$code: $err" "$1: " "$2"; }

# fabric FILE LINES-TO-LEAVE-OUT: two units of four hosts, two rails, two spines, as ibnetdiscover prints it; what fits the
# pattern is unplugged at both ends.
fabric() {
    local unit rail spine host
    {
        for unit in 1 2; do
            for rail in 1 2; do
                printf 'vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa%d0%d\nswitchguid=0xa%d0%d(a%d0%d)\n' $unit $rail $unit $rail $unit $rail
                printf 'Switch\t65 "S-%016x"\t\t# "MF0;R%d-LEAF-%d:MQM9701/U1" enhanced port 0 lid %d lmc 0\n' \
                    $((0xa000 + unit * 256 + rail)) $unit $rail $((unit * 10 + rail))
                for host in 1 2 3 4; do
                    printf '[%d]\t"H-%016x"[1](b%d%d%d) \t\t# "gpu-%d-%d mlx5_%d" lid %d 4xNDR\n' $host \
                        0xb$unit$host$rail $unit $host $rail $unit $host $((rail - 1)) $((unit * 100 + host * 10 + rail))
                done
                for spine in 1 2; do
                    printf '[%d]\t"S-%016x"[%d]\t\t# "MF0;SPINE-%d:MQM9701/U1" lid %d 4xNDR\n' $((60 + spine)) \
                        $((0xc000 + spine)) $((unit * 2 + rail)) $spine $((90 + spine))
                done
                echo
            done
        done
    } | grep -vE "$2" >"$1"
}
# simulation FILE: the whole one with the other end of each link, as ibsim needs it. It does not know NDR.
simulation() {
    local unit rail spine host
    {
        cat whole
        for unit in 1 2; do
            for rail in 1 2; do
                for host in 1 2 3 4; do
                    printf 'vendid=0x2c9\ndevid=0x1021\nsysimgguid=0xb%d%d%d\ncaguid=0xb%d%d%d\n' $unit $host $rail $unit $host $rail
                    printf 'Ca\t1 "H-%016x"\t\t# "gpu-%d-%d mlx5_%d"\n' 0xb$unit$host$rail $unit $host $((rail - 1))
                    printf '[1](b%d%d%d) \t"S-%016x"[%d]\t\t# lid 0 lmc 0 "R%d-LEAF-%d" lid 0 4xNDR\n\n' $unit $host $rail \
                        $((0xa000 + unit * 256 + rail)) $host $unit $rail
                done
            done
        done
        for spine in 1 2; do
            printf 'vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xc00%d\nswitchguid=0xc00%d(c00%d)\n' $spine $spine $spine
            printf 'Switch\t65 "S-%016x"\t\t# "MF0;SPINE-%d:MQM9701/U1" enhanced port 0 lid %d lmc 0\n' \
                $((0xc000 + spine)) $spine $((90 + spine))
            for unit in 1 2; do
                for rail in 1 2; do
                    printf '[%d]\t"S-%016x"[%d]\t\t# "R%d-LEAF-%d" lid 0 4xNDR\n' $((unit * 2 + rail)) \
                        $((0xa000 + unit * 256 + rail)) $((60 + spine)) $unit $rail
                done
            done
            echo
        done
    } | sed 's/NDR/HDR/' >"$1"
}
fabric whole nothing
fabric faulty 'H-000000000000b232|^.61.*S-000000000000c001..6.' # gpu-2-3's second rail, R2-LEAF-2's link to SPINE-1
printf '0xb111 dgx1\ngpu-1-2 dgx2\n' >names

# --- words and options

run --help
like "$code $out" '^0 .*show .*audit .*snapshot .*generate .*diff ' '--help names the commands'
run --version
like "$code $out" '^0 mfu-topo [0-9]' '--version'
for command in show audit snapshot generate diff; do
    run "$command" --help
    like "$code $out" "^0 Usage: mfu-topo $command .*--help" "$command --help"
done
run
is "$code $err" '2 mfu-topo: no command given (mfu-topo --help shows them)' 'no command'
run $'\e[31m'
is "$code $err" '2 mfu-topo: ?[31m: no command (mfu-topo --help shows them)' 'an unknown command, without its control characters'
run show --nosuch
is "$code" 2 'an unknown option of show'
run audit --nosuch
is "$code" 3 'an unknown option of audit, where 2 is for findings'
run show --fabric whole --node whole
is "$code $err" '2 mfu-topo show: a node or a fabric: one of them (--help shows the options)' 'two subjects'
run audit --job 12
is "$code $err" "3 mfu-topo audit: a job's nodes need --fabric FILE (--help shows the options)" 'a job without a fabric'
run audit --fabric whole --job '1;id'
is "$code $err" "3 mfu-topo audit: --job: no job's number (--help shows the options)" 'a job that is none'
run snapshot
is "$code $err" '2 mfu-topo snapshot: --output FILE is needed (--help shows the options)' 'a snapshot to nowhere'

# --- a fabric's file

run show --fabric whole
says 0 'show --fabric'
like "$out" $'\n0-1   4 each  gpu-\\[?.* 0-1   2 leaves, R1-LEAF-1 ...  mlx5_0 ...  4 each  2 each' 'show --fabric: equal units once'
run show --fabric whole --json
is "$(jq -r '.islands[].pods[].units[].leaves[].name' <<<"$out" | paste -sd' ')" 'R1-LEAF-1 R1-LEAF-2 R2-LEAF-1 R2-LEAF-2' \
    'show --fabric --json'
run show --fabric faulty --svg picture.svg
says 0 'show --fabric --svg'
is "$out$(grep -c 'rect class="warning"' picture.svg)" 2 'show --fabric --svg: the weak leaf, and the legend'
run audit --fabric whole
is "$code $out" '0 fabric whole: 1 information

information  sharp-absent  fabric
    found  4 of 4 switches that can aggregate have no aggregation node, the first: R1-LEAF-1
    to do  sharp_am and UFM: is SHARP licensed and switched on?' 'audit of a good fabric: information alone is 0'
run audit --fabric faulty --json
is "$code $(jq -c '[.high, .warning, .information, ([.findings[].rule] | unique | join(" "))]' <<<"$out")" \
    '2 [1,1,1,"leaf-uplinks rail-missing sharp-absent"]' 'audit of a faulty fabric: 2 and every finding'
run audit --fabric faulty --quiet
is "$code$out$err" 2 'audit --quiet'
run audit --fabric faulty --hosts 'gpu-2-[1-2]'
is "$code $(grep -o 'leaf-uplinks.*\|rail-missing.*' <<<"$out")" '1 leaf-uplinks  leaf R2-LEAF-2' 'audit --hosts: their leaf alone'
run audit --fabric faulty --hosts 'gpu-1-[1-2]'
says 0 'audit --hosts: nothing of other hosts'
run audit --fabric whole --names names --hosts 'dgx[1-2],nosuch'
is "$code $(head -n 2 <<<"$out")" '0 3 nodes on 1 unit, 2 leaves, 1 pod: nothing found
note: 1 of the nodes are not in the fabric: nosuch' "audit --names: by GUID and by the host's name"
run audit --fabric whole --hosts 'nosuch[1-3]'
is "$code $err" '3 mfu-topo audit: none of nosuch[1-3] is in the fabric; --names FILE tells NodeGUIDs of Slurm'"'"'s nodes' \
    'audit of nodes that nobody knows'
run audit --fabric nosuch
is "$code $err" '3 mfu-topo audit: nosuch: No such file or directory' 'a fabric that is not there'
sed '7s/.*/[900] nonsense/' whole >broken
run show --fabric broken
like "$code $err" '^1 mfu-topo show: broken: line 7: ' 'a broken fabric is named with its line'

mkdir bin
# shellcheck disable=SC2016 # for the script
printf '#!/bin/sh\n[ "$2" = --jobs=12 ] && echo "gpu-1-1,gpu-2-1"\n' >bin/squeue
chmod 755 bin/squeue
out=$(PATH=$scratch/bin:$PATH "$topo" audit --fabric whole --job 12 2>&1)
code=$?
is "$code $(grep -o '^job.*\|job-leaves.*' <<<"$out" | paste -sd' ')" \
    '1 job 12, 2 nodes on 2 units, 4 leaves, 1 pod: 1 warning job-leaves  job on 2 nodes' 'audit --job: more leaves than it needs'

# --- nodes

run show --xml
says 0 'show --xml'
printf '%s\n' "$out" >node.xml
like "$out" '<topology' "show --xml: hwloc's XML"
run show
like "$code $out" '^0 Node .* CPU' 'show: this node'
live=$(tail -n +2 <<<"$out")
run show --node node.xml
is "$code $(grep -c . <<<"$out")" "0 $(grep -c . <<<"$live" | awk '{ print $1 + 1 }')" 'show --node: as long as the live one'

# Two GPUs of the fake libnvidia-ml, and one whose NVML hangs where the driver does.
for id in 0000:1b:00.0 0000:2b:00.0; do
    mkdir -p "machine/sys/bus/pci/devices/$id"
    (cd "machine/sys/bus/pci/devices/$id" && echo 0x030200 >class && echo 0x10de >vendor && echo 0x2330 >device &&
        head -c 64 /dev/zero >config)
done
mkdir hanging
echo '#include <unistd.h>
__attribute__((constructor)) static void hang() { for (;;) pause(); }' |
    "$cxx" -shared -fPIC -x c++ - -o hanging/libnvidia-ml.so.1 || not_ok 'a library that hangs' "$cxx"
xml_with() {
    out=$(HWLOC_FSROOT=$scratch/machine LD_LIBRARY_PATH=$1 "$topo" show --xml --limit "$2" 2>err)
    code=$?
    err=$(<err)
}
xml_with "$fakes" 60
says 0 'show --xml asks NVML'
printf '%s\n' "$out" >nvml.xml
run show --node nvml.xml --json
is "$(jq -c '[.gpus[] | [.minor, .nvlinks[], .clique, .fabric_fault]]' <<<"$out")" \
    '[[0,"0000:2b:00.0",null,null],[1,"0000:1b:00.0",null,null]]' "show --node: NVML's word is in the file"
xml_with "$scratch/hanging" 1
is "$code $(tail -n 1 <<<"$out")" '0 </topology>' "show --xml is hwloc's alone where NVML hangs"
xml_with /nonexistent 60
is "$code $(tail -n 1 <<<"$out")" '0 </topology>' "show --xml is hwloc's alone without NVML"
# Where hwloc has taken all of the time of mfu-topo step's discovery, what it found must not be lost.
mkdir slow
echo '#include <dlfcn.h>
#include <unistd.h>
extern "C" int hwloc_topology_load(void* topology) {
    sleep(2);
    return reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "hwloc_topology_load"))(topology);
}' | "$cxx" -shared -fPIC -D_GNU_SOURCE -x c++ - -o slow/hwloc.so -ldl || not_ok 'an hwloc that is slow' "$cxx"
out=$(HWLOC_FSROOT=$scratch/machine LD_LIBRARY_PATH=$fakes LD_PRELOAD=$scratch/slow/hwloc.so "$topo" show --xml 2>err)
code=$?
is "$code $(tail -n 1 <<<"$out")" '0 </topology>' 'show --xml does not ask NVML where hwloc has taken the time'
sed 's/ minor=\(.\)/ minor=\1 clique=ab.\1/' nvml.xml >cliques.xml
run audit --node cliques.xml
is "$code $(grep -o 'nvlink-clique\|0000:1b:00.0 in .*' <<<"$out" | paste -sd' ')" \
    '2 nvlink-clique 0000:1b:00.0 in ab.0; 0000:2b:00.0 in ab.1' 'audit --node: two cliques'
# step_request KEY: of a task with the second GPU, whose node is in the file of cliques.
step_request() {
    printf '%s\n' node=n1 nodes=1 "$1=$scratch/cliques.xml" task=0,0 devices=1 >request
}
step_request map
run step request
is "$code $(cut -f 1,2 <<<"$out")" $'0 information\tgpus-unknown' "step: a file tells nothing of this node's own GPUs"
# The same as the cache of a discovery of this machine, which ends with its key.
discovered() {
    rm -f own.xml.failed
    "$topo" step own_request >/dev/null 2>&1
    [[ -s own.xml ]]
}
printf '%s\n' node=n1 "cache=$scratch/own.xml" >own_request
wait_until 120 discovered || not_ok 'step discovers this machine' "$(<own.xml.failed)"
{ echo && tail -n 1 own.xml; } >>cliques.xml
chmod 644 cliques.xml
step_request cache
run step request
is "$code $out" "0 fact"$'\t'"clique"$'\t'"ab.1" 'step: the clique of its GPU'

cat >nccl.xml <<'XML'
<?xml version="1.0"?>
<!-- <topology> -->
<system version="1">
  <cpu numaid="0" affinity="000000ff" arch="x86_64">
    <pci busid="0000:10:00.0" class="0x060400">
      <pci busid="0000:11:00.0" class="0x030200"><gpu dev="0" sm="90"/></pci>
      <pci busid="0000:12:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0"/></nic></pci>
    </pci>
  </cpu>
</system>
XML
run show --node nccl.xml
like "$code $out" $'^0 .*\ncuda0 +X +PIX +0 +0-7\n' "show --node: NCCL's file by its content"
run show --node nccl.xml --svg node.svg --json
is "$code $(jq -r '.gpus[0].nic_distances.mlx5_0' <<<"$out") $(head -c 4 node.svg)" '0 PIX <svg' 'show --node --svg --json'
run audit --node nccl.xml
is "$code $out" '0 node nccl.xml: nothing found' 'audit --node'
run show --node whole
is "$code $err" "1 mfu-topo show: whole: neither hwloc's XML (lstopo FILE.xml, mfu-topo show --xml) nor NCCL's (NCCL_TOPO_DUMP_FILE)" \
    'a file that is no node'
run show --node nccl.xml --svg no/such/folder.svg
is "$code $err" '1 mfu-topo show: no/such/folder.svg: cannot write beside it: No such file or directory' 'a picture that cannot be written'
"$topo" show --fabric whole --json >/dev/full 2>err
is "$? $(<err)" '1 mfu-topo show: standard output: No space left on device' 'a full disk'

# --- the other commands are reached

run generate --fabric whole --nodes 'gpu-1-[1-4],gpu-2-[1-4]'
is "$code $(grep -c ^SwitchName= <<<"$out")" '0 3' 'generate: two units and a root'
printf '%s\n' "$out" >topology.conf
run diff topology.conf --fabric whole --nodes 'gpu-1-[1-4],gpu-2-[1-4]'
says 0 'diff: the same'

run generate --fabric whole --format block --block-sizes 4
printf '%s\n' "$out" >blocks.conf
grep -v BlockSizes blocks.conf >no_sizes.conf
run diff no_sizes.conf --fabric whole
is "$code $out$err" '0 ' 'diff --fabric: block sizes that a file does not give are no difference'
fabric dead 'gpu-2-3 '
run diff blocks.conf --fabric dead
is "$code $out" '1 - 1 node gpu-2-3 (was below R2-LEAF)' 'diff --fabric: a dead node is one, not its block'
run generate --fabric dead --format block --block-sizes 4
is "$code $(grep -c ^BlockName= <<<"$out")" '0 1' 'generate: a small block is left out of topology.conf'
printf '%s\n' "$out" >left_out.conf
run diff left_out.conf --fabric dead
is "$code $out" '0 ' 'diff --fabric: a small block that the file leaves out is no difference'
run generate --fabric dead --format yaml --block-sizes 4
is "$code $(grep -c -e '- block:' <<<"$out")" '0 2' 'generate: a small block stays in topology.yaml'
like "$err" '3 nodes are in blocks of fewer than 4 nodes, which Slurm takes since 25.05: ' 'generate: it says so'
printf 'BlockName=\e[31mx Nodes=gpu-1-[1-4]\nBlockName=y\n' >escapes.conf
run diff blocks.conf escapes.conf
is "$code $(tr -d '[:print:]\n' <<<"$out$err" | wc -c)" '1 0' 'diff: no control characters'

# --- live, against a simulator

preload=$(find /usr/lib /usr/lib64 /usr/local/lib -name libumad2sim.so -print -quit 2>/dev/null)
if [[ -z $preload ]] || ! command -v ibsim >/dev/null; then
    skip 'live fabric' 'no ibsim'
    done_testing
fi
echo old >snapshot
run snapshot -o snapshot
is "$code $(<snapshot) $(ls snapshot*)" '1 old snapshot' 'a discovery that fails leaves the snapshot as it was'
like "$err" '^mfu-topo snapshot: InfiniBand discovery failed: .*umad' 'a discovery that fails says why'

simulation net
export IBSIM_SOCKNAME=mfu-topo-$$
ibsim -s -n net >ibsim.log 2>&1 &
simulator=$!
if ! wait_until 60 grep -q 'simulator ready' ibsim.log; then
    not_ok 'ibsim takes the fabric' "$(tail -n 5 ibsim.log)"
    done_testing
fi
run_simulated() {
    export LD_PRELOAD=$preload
    run "$@"
    unset LD_PRELOAD
}
run_simulated snapshot -o snapshot --limit 60
says 0 'snapshot'
"$topo" show --fabric net 2>&1 | tail -n +2 >from_text
"$topo" show --fabric snapshot 2>&1 | tail -n +2 >from_snapshot
is "$(<from_snapshot)" "$(<from_text)" "snapshot: shows as what was simulated"
run_simulated show --live-fabric --limit 60
is "$code $(tail -n +2 <<<"$out")" "0 $(<from_text)" 'show --live-fabric'
run_simulated audit --live-fabric --limit 60
is "$code $(head -n 1 <<<"$out")" '0 fabric: 1 information' 'audit --live-fabric'
kill -STOP "$simulator"
run_simulated snapshot -o snapshot --limit 1
kill -CONT "$simulator"
like "$code $err" '^1 mfu-topo snapshot: InfiniBand discovery: .*: not done after 1000 ms; ' 'a discovery that hangs is given up'
done_testing
