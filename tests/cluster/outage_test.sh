#!/usr/bin/env bash
# Daemons that are killed at the worst moment, and nodes that die: no line is lost, and what is missing is told.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mfu.sh"
mfu_up update=10
# Slurm 26.05's controller does not start after a kill where it has never saved all of its state, as it does at a usual end.
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmctld

hang='train --ranks 2 --steps 3 --hang-at-step 2'
# on_two NODES NAME: a job of two nodes whose tasks write their truth, then hang.
on_two() {
    submit -w "$1" -N2 --ntasks-per-node=1 --gpus-per-node=1 --no-requeue --wrap "srun --mfu-profile=on $hang --truth $work/$2.%r"
}
other=$(on_two 'n[1-2]' other)
first=$(on_two 'n[3-4]' first)
# A controller that is killed forgets what it has not saved yet, which takes seconds: this one is started early.
until_there() { echo "until [ -e $work/$1 ]; do sleep 0.1; done"; }
controller=$(submit -n1 --gpus=1 --mfu-profile=on --wrap "
    srun sh -c '$(until_there train); exec train --ranks 1 --steps 20 --truth $work/controller.0'
    echo \$? >$work/controller.code
    $(until_there leave)")
wait_until 60 all_there "$work"/{other,first}.{0,1}

# --- slurmdbd is dead when a job ends, and comes back

job=$(submit -n1 --gpus=1 --mfu-profile=on --wrap "srun train --ranks 1 --steps 20 --truth $work/database.0")
wait_until 60 job_state_is "$job" RUNNING
"$mfu_cluster" kill "$MFU_CLUSTER_DIR" slurmdbd
wait_job "$job"
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmdbd
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'slurmdbd killed' "$work/database.0"
is "$(sacct_field "$job" State)" COMPLETED 'slurmdbd killed: the job is well'

# --- slurmctld is dead when a step ends, and comes back

"$mfu_cluster" kill "$MFU_CLUSTER_DIR" slurmctld
touch "$work/train"
wait_until 60 test -s "$work/controller.0"
sleep 2.5 # slurmstepd's wait for the line is over
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmctld
touch "$work/leave"
wait_job "$controller"
is "$(cat "$work/controller.code")" 0 'slurmctld killed: srun ends with 0'
# Slurm's own row of such a job may go on without an end for half a minute.
stored() { sacct -n -P -X -j "$1" -o AdminComment; }
is_stored() { [[ $(stored "$1") == *' s=0'* ]]; }
wait_until 60 is_stored "$controller"
l=$(stored "$controller")
diagnose "$l"
same_as_truth "$l" 'slurmctld killed' "$work/controller.0"

# --- a node dies: one of the others, and the first, which writes the line

comment() { scontrol show job "$1" | sed -n 's/^ *AdminComment=//p'; }
# What a line says of its running step, as if it had ended.
running_sums() { echo "sum=$(value "$1" cur | cut -d: -f2)"; }
has_interim() { [[ $(comment "$1") == *gpus=2xH100-SXM*state=running* ]]; }
for job in "$other" "$first"; do
    wait_until 60 has_interim "$job" || diagnose "no interim line: $(comment "$job")"
done
for node in n2 n3; do
    "$mfu_cluster" crash "$MFU_CLUSTER_DIR" "$node"
    scontrol update "NodeName=$node" State=DOWN Reason=test
done
wait_job "$other"
wait_job "$first"

l=$(line "$other" 's=0')
diagnose "$l"
is "$(value "$l" state)" 'partial(nodes:1-of-2)' 'dead node: the line says what is missing'
same_as_truth "$l" 'dead node, as far as it was heard' "$work"/other.*
like "$(value "$l" cover)" '/[0-9.]+%(\([a-z-]+\))?$' 'dead node: coverage is told'
is "$(sacct_field "$other" State)" NODE_FAIL "dead node: the state is the job's"

# Nobody is left to write its line: the last interim one is what accounting has.
l=$(line "$first" 'mfu/1 ')
diagnose "$l"
like "$l" 'state=running' 'dead first node: the interim line stays'
same_as_truth "$(running_sums "$l")" 'dead first node' "$work"/first.*

# --- it comes back: the epilog of its next job finds the records and writes the line

"$mfu_cluster" restart "$MFU_CLUSTER_DIR" n3
scontrol update NodeName=n3 State=RESUME 2>/dev/null
srun -w n3 -n1 --gpus=1 true
l=$(line "$first" ' s=0')
diagnose "$l"
like "$l" ' s=0[, ]' 'first node comes back: the line is a final one'
unlike "$l" 'state=running' 'first node comes back: it is not said to run'
same_as_truth "$l" 'first node comes back' "$work"/first.*
done_testing
