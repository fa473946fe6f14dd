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

# once_told NAME: a job of one task that runs once $work/NAME.go is there, and writes its truth to $work/NAME.0.
once_told() {
    submit -n1 --gpus=1 --mfu-profile=on --wrap "$(until_there "$1.go"); srun train --ranks 1 --steps 20 --truth $work/$1.0"
}
job=$(once_told database)
wait_until 60 job_state_is "$job" RUNNING
"$mfu_cluster" kill "$MFU_CLUSTER_DIR" slurmdbd
touch "$work/database.go"
wait_job "$job"
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmdbd
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'slurmdbd killed' "$work/database.0"
is "$(sacct_field "$job" State)" COMPLETED 'slurmdbd killed: the job is well'

# --- slurmdbd is there and does not answer when a job ends

job=$(once_told frozen)
wait_until 60 job_state_is "$job" RUNNING
dbd=$(<"$MFU_CLUSTER_DIR/run/slurmdbd.pid")
kill -STOP "$dbd"
touch "$work/frozen.go"
ok 'slurmdbd frozen: the job ends all the same' wait_job "$job"
like "$(grep '^State:' "/proc/$dbd/status")" 'T \(stopped\)' 'slurmdbd frozen: and it has not answered'
kill -CONT "$dbd"
ok 'slurmdbd frozen: then its steps are done with' wait_until 120 no_folders "$job"
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'slurmdbd frozen' "$work/frozen.0"
is "$(grep -o 'mfu/1 ' <<<"$l" | wc -l)" 1 'slurmdbd frozen: it has one line'
is "$(sacct_field "$job" State)" COMPLETED 'slurmdbd frozen: the job is well'

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

ok 'interim lines have all that was done, on one pair of nodes' wait_until 60 told_so_far "$other" "$work"/other.{0,1}
ok 'and on the other' wait_until 60 told_so_far "$first" "$work"/first.{0,1}
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

# Its clock was 20 s behind the controller's when the step began: by it, before the job did.
python3 - "$spool/n3/$first.0.0" <<'END'
import re, struct, sys
behind = 20 * 10**9
path = sys.argv[1] + "/plan"
text = open(path).read()
began = int(re.search(r"started_ns=(\d+)", text)[1]) - behind
open(path, "w").write(re.sub(r"started_ns=\d+", f"started_ns={began}", text))
try:
    with open(sys.argv[1] + "/heard", "r+b") as heard: # behind its magic number it has the same time
        heard.seek(8)
        heard.write(struct.pack("=Q", began))
except FileNotFoundError:
    pass
END
is "$?" 0 'first node comes back: its clock was behind'
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" n3
scontrol update NodeName=n3 State=RESUME 2>/dev/null
srun -w n3 -n1 --gpus=1 true
l=$(line "$first" ' s=0')
diagnose "$l"
like "$l" ' s=0[, ]' 'first node comes back: the line is a final one'
unlike "$l" 'state=running' 'first node comes back: it is not said to run'
same_as_truth "$l" 'first node comes back' "$work"/first.*
done_testing
