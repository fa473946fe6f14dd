#!/usr/bin/env bash
# Where tasks sit: bound to the wrong CPUs, told, refused; bound to the right ones, silence. The node is described by a
# file: two NUMA nodes of one CPU each, with a GPU and an adapter each.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"

mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep="\n")')
if ((${#cpus[@]} < 2)); then
    skip 'placement' 'this machine has one CPU'
    done_testing
fi

mfu_up update=10

# mask CPU: as the kernel writes it, words of 32 bits.
mask() {
    local word text=
    for ((word = $1 / 32; word >= 0; word--)); do
        text+=$(printf '%s%08x' "${text:+,}" $((word == $1 / 32 ? 1 << $1 % 32 : 0)))
    done
    echo "$text"
}

# socket NUMA: its part of the node's description.
socket() {
    cat <<XML
  <cpu numaid="$1" affinity="$(mask "${cpus[$1]}")" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:${1}f:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:${1}f:01.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="$1" sm="90" rank="$1" gdr="1"/>
      </pci>
      <pci busid="0000:${1}f:02.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_$1" dev="$1" speed="400000" port="1" guid="0x1$1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
XML
}
map=$MFU_CLUSTER_DIR/node.xml
{ echo '<system version="1">'; socket 0; socket 1; echo '</system>'; } >"$map"
chmod 644 "$map"
mfu_plugin update=10 node-map="$map"

# places JOB [OPTION...]: what mfu-report says of its placement.
places() {
    "$build/mfu-report" --placement -j "$@"
}
# finding JOB JQ: of its first finding, from JSON.
finding() {
    "$build/mfu-report" -j "$1" --json | jq -r ".jobs[0] | $2"
}

right=map_cpu:${cpus[0]},${cpus[1]} wrong=map_cpu:${cpus[1]},${cpus[0]}
run=(srun -N1 -n2 --gpus=2 --mfu-profile --export=ALL)

# errors FILE: what srun said, without Slurm's own words.
errors() {
    grep -v '^srun: ' "$1"
}

"${run[@]}" --cpu-bind="$right" --job-name=right train --ranks 2 --steps 20 2>"$work/right" >/dev/null
is "$?" 0 'well bound: runs'
is "$(errors "$work/right")" '' 'well bound: silence'
l=$(line "$(job_named right)" 's=0')
diagnose "$l"
is "$(value "$l" place)" ok 'well bound: place=ok'
ok 'well bound: nothing behind the line' test "${l##*.}" = ''
is "$(places "$(job_named right)")" '1 job: 0 with findings, 1 audited without any' 'well bound: mfu-report has no findings'
is "$(finding "$(job_named right)" '"\(.findings) \(.findings_left_out) \(.findings_reason)"')" '[] false null' \
    'well bound: nor has its JSON'

"${run[@]}" --cpu-bind="$wrong" --job-name=wrong train --ranks 2 --steps 20 2>"$work/wrong" >/dev/null
is "$?" 0 'bound to far CPUs: runs'
diagnose "$(errors "$work/wrong")"
like "$(errors "$work/wrong")" 'slurm-mfu: placement on n[1-4]: 0 of high severity, 3 warnings' 'bound to far CPUs: is told'
like "$(errors "$work/wrong")" 'cpu-gpu-remote: n[1-4] rank 1: runs on CPUs .* none of them near to cuda1' 'which rank, and what is wrong'
like "$(errors "$work/wrong")" '-> srun --cpu-bind=' 'and what mends it'
is "$(grep -c 'slurm-mfu: placement' "$work/wrong")" 1 'once'
l=$(line "$(job_named wrong)" 's=0')
diagnose "$l"
is "$(value "$l" place)" 'warn:3(cpu-gpu-remote,rank-gpu-map)' 'bound to far CPUs: in the line'
is "$("$build/mfu-report" -j "$(job_named wrong)" --json | jq -r '.jobs[0].place')" 'warn:3(cpu-gpu-remote,rank-gpu-map)' 'and in mfu-report'

is "$(places "$(job_named wrong)" | head -n 1)" "$(job_named wrong): warn:3(cpu-gpu-remote,rank-gpu-map) (wrong, root)" \
    'bound to far CPUs: a block in mfu-report'
like "$(places "$(job_named wrong)")" $'\n  warning cpu-gpu-remote: n[1-4] rank 1: runs on CPUs .* none of them near to cuda1.*\n    -> srun --cpu-bind=' \
    'with the evidence and the remedy'
is "$(finding "$(job_named wrong)" '.findings | map(.rule) | join(" ")')" 'cpu-gpu-remote cpu-gpu-remote rank-gpu-map' \
    'and all of them in JSON'
is "$(finding "$(job_named wrong)" .findings_left_out)" false 'of which none was left out'
diagnose "$(places "$(job_named wrong)")"

"${run[@]}" --cpu-bind="$wrong" --mfu-placement=quiet --job-name=quiet train --ranks 2 --steps 20 2>"$work/quiet" >/dev/null
is "$(errors "$work/quiet")" '' 'quiet: nothing is said'
is "$(value "$(line "$(job_named quiet)" 's=0')" place)" 'warn:3(cpu-gpu-remote,rank-gpu-map)' 'quiet: the line has it'

"${run[@]}" --cpu-bind="$wrong" --mfu-placement=off --job-name=off train --ranks 2 --steps 20 2>"$work/off" >/dev/null
is "$(errors "$work/off")" '' 'off: nothing is said'
is "$(value "$(line "$(job_named off)" 's=0')" place)" '' 'off: nothing is in the line'
is "$(places "$(job_named off)")" '1 job: 0 with findings, 0 audited without any, 1 not audited' 'off: mfu-report says so'
is "$(finding "$(job_named off)" '"\(.findings) \(.findings_reason)"')" 'null not audited' 'off: and why in JSON'

"${run[@]}" --cpu-bind="$wrong" --mfu-placement=strict --job-name=strict touch "$work/started" 2>"$work/strict" >/dev/null
is "$?" 78 'strict: the step fails'
ok 'strict: no task has started' test ! -e "$work/started"
diagnose "$(errors "$work/strict")"
like "$(errors "$work/strict")" 'slurm-mfu: --mfu-placement=strict: no task starts on n[1-4]' 'strict: says why'
like "$(errors "$work/strict")" 'cpu-gpu-remote' 'strict: with the findings'

as_user alice "${run[@]}" --cpu-bind="$wrong" --mfu-placement=strict touch "$work/started" 2>"$work/alice" >/dev/null
is "$?" 78 "strict: an ordinary user's step fails as well"
ok 'strict: none of her tasks has started' test ! -e "$work/started"

"${run[@]}" --cpu-bind="$right" --mfu-placement=strict --job-name=good train --ranks 2 --steps 20 2>"$work/good" >/dev/null
is "$?" 0 'strict: a well bound step runs'
is "$(errors "$work/good")" '' 'strict: and nothing is said'
is "$(value "$(line "$(job_named good)" 's=0')" place)" ok 'strict: place=ok'

like "$(srun -n1 --gpus=1 --mfu-placement=sometimes true 2>&1)" 'must be off, quiet, warn or strict' 'an unknown word is refused'

# --- several nodes and steps: the first node's collector has the findings of all

cat >"$work/two.sh" <<SH
#!/bin/sh
srun -N2 --ntasks-per-node=2 --gpus-per-node=2 --mfu-profile --cpu-bind=$wrong train --ranks 4 --steps 20
srun -N1 -n2 --gpus=2 --mfu-profile --cpu-bind=$right train --ranks 2 --steps 20
SH
chmod 755 "$work/two.sh"
job=$(sbatch --parsable -N2 --ntasks-per-node=2 --gres=gpu:2 --job-name=two -o "$work/two.out" --export=ALL "$work/two.sh")
l=$(line "$job" 's=0-1')
diagnose "$l"
is "$(value "$l" place)" 'warn:6(cpu-gpu-remote,rank-gpu-map)' 'two nodes: counted together'
is "$(finding "$job" '[.findings[] | select(.rule == "cpu-gpu-remote").place | scan("n[1-4]")] | unique | length')" 2 \
    'two nodes: the findings of both'
is "$(finding "$job" '.findings | map(.severity) | unique | join(" ")')" warning 'two nodes: and a step without any takes none away'
diagnose "$(places "$job")"

# A fabric of NVLinks that the nodes do not share.
cat >"$MFU_CLUSTER_DIR/topo" <<SH
#!/bin/sh
"$product/mfu-topo" "\$@" || exit
printf 'fact\tclique\track-of-%s\n' "\$(sed -n 's/^node=//p' "\$2")"
SH
chmod 755 "$MFU_CLUSTER_DIR/topo"
mfu_plugin update=10 node-map="$map" topo="$MFU_CLUSTER_DIR/topo"
srun -N2 -n4 --ntasks-per-node=2 --gpus-per-node=2 --mfu-profile --cpu-bind="$right" --job-name=racks train --ranks 4 --steps 20 >/dev/null 2>&1
job=$(job_named racks)
is "$(value "$(line "$job" 's=0')" place)" 'bad:1(nvlink-clique-crossed)' 'two NVLink fabrics: counted'
like "$(places "$job")" 'high nvlink-clique-crossed: job: 2 nodes with 4 GPUs lie in 2 NVLink cliques, and fit into 1: 1 from n[1-4] on' \
    'two NVLink fabrics: which nodes'
like "$(sacct -j "$job" -X -n -P -o AdminComment)" 'mfu/1 .*\. mfu-place/1 high nvlink-clique-crossed \{job\}\{.*\} \.$' \
    'in the accounting record behind the line'

# In the users' own comment there is no room.
mfu_plugin update=10 node-map="$map" field=comment
"${run[@]}" --cpu-bind="$wrong" --job-name=short train --ranks 2 --steps 20 >/dev/null 2>&1
l=$(line "$(job_named short)" 's=0' Comment)
is "$(value "$l" place)" 'warn:3(cpu-gpu-remote,rank-gpu-map)' 'field=comment: the line has the verdict'
ok 'field=comment: and nothing behind it' test "${l##*.}" = ''
is "$("$build/mfu-report" -j "$(job_named short)" --field comment --json | jq -r '.jobs[0].findings_reason')" 'not in this field' \
    'field=comment: mfu-report says so'

# --- what is wrong with the audit costs no job

mfu_plugin update=10 node-map=/nonexistent/map
"${run[@]}" --cpu-bind="$wrong" --job-name=nomap train --ranks 2 --steps 20 2>"$work/nomap" >/dev/null
is "$?" 0 'no map: runs'
is "$(errors "$work/nomap")" '' 'no map: nothing is said to the job'
l=$(line "$(job_named nomap)" 's=0')
is "$(value "$l" place)" '' 'no map: the line says nothing of it'
like "$(<"$MFU_CLUSTER_DIR/log/collector.log")" 'placement: .*mfu-topo' 'no map: collectors report it'
is "$(finding "$(job_named nomap)" '.findings[0] | "\(.severity) \(.rule)"')" 'information not-audited' 'no map: mfu-report says why'
"${run[@]}" --mfu-placement=strict --job-name=unknown train --ranks 2 --steps 20 >/dev/null 2>&1
is "$?" 0 'strict: what cannot be audited is not refused'
done_testing
