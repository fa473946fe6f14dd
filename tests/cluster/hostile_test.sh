#!/usr/bin/env bash
# A job that abuses what it was given, and daemons that are not there: the job ends as it would without us, nothing outside
# of its folder is touched, and the line is sound.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mfu.sh"
mfu_up update=10
forge=$MFU_CLUSTER_DIR/forge

long=(--steps 60 --step-ms 50)                   # three seconds
hang=(train --ranks 2 --steps 3 --hang-at-step 2) # publishes, writes its truth, then hangs
first_port=61000 last_port=61999                 # the default range

# sound JOB LINE NAME: the reader takes the line, whatever it says.
sound() {
    local text="mfu/1 ${2##*mfu/1 }"
    text=${text%% mfu-place/1 *} # findings of placement stand behind it
    like "$text" '^mfu/1 mfu=[^ ]+ ([a-z]+=[!-~]+ )*sum=([0-9a-z]*,){36}[0-9a-z]*\.$' "$3: the line is sound"
    ok "$3: at most 768 bytes" test "${#text}" -le 768
    [[ -x $build/mfu-report ]] || return 0
    is "$("$build/mfu-report" --json -j "$1" | jq -c '.jobs[0].line_fault')" null "$3: mfu-report finds no fault"
}

# ours PATTERN: pids of this cluster's processes with that command line.
ours() {
    local pid
    for pid in $(pgrep -f -- "$1"); do
        ! grep -qzxF -e "MFU_CLUSTER=$MFU_CLUSTER_DIR" "/proc/$pid/environ" 2>/dev/null || echo "$pid"
    done
}
no_collectors() { [[ -z $(ours mfu-collector) ]]; }
# collectors_are COUNT: for wait_until; the batch script has one, a step one a node.
collectors_are() { [[ $(ours 'mfu-collector --step' | wc -l) -eq $1 ]]; }
# alone NAME: no collector of a former step is left, which would be taken for the next one's.
alone() { ok "$1: no other step is running" wait_until 60 no_collectors; }

# held NAME: what a task runs that trains, then waits for $work/NAME.go. Its truth is in $work/NAME.RANK.
held() { echo "sh -c 'train --ranks 2 --steps 20 --truth $work/$1.%r; until [ -e $work/$1.go ]; do sleep 0.1; done'"; }
# has_run NAME JOB: for ok; the tasks have written their truth, and the step's records hold it.
has_run() {
    caught_up "$2.0" "$work/$1".{0,1} && all_there "$work/$1".{0,1} && compgen -G "$spool/n*/$2.0.0/records/*.mfu" >/dev/null
}

# ports_of_collectors: where this cluster's collectors listen.
ports_of_collectors() {
    local pid inode
    for pid in $(ours 'mfu-collector --step'); do
        for inode in $(find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n'); do
            awk -v inode="$inode" '$4 == "0A" && $10 == inode { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp6 /proc/net/tcp
        done
    done | while read -r hex; do echo $((16#$hex)); done | awk -v a=$first_port -v b=$last_port '$1 >= a && $1 <= b'
}

# forge FROM TO KEY=VALUE...: a copy of a record with other values and a checksum that holds. KEY is the byte offset of a
# 64-bit number, or name for the device's. The early part of the record's layout does not change (profiler/record.hh).
cat >"$forge" <<'END'
#!/usr/bin/perl
use strict; use warnings;
my ($from, $to, @changes) = @ARGV;
open(my $in, '<:raw', $from) or die "$from: $!"; read($in, my $file, 24576) == 24576 or die 'short';
my $record = substr($file, 0, 12288);
$record = substr($file, 12288) if unpack('Q<', substr($file, 12288 + 16, 8)) > unpack('Q<', substr($record, 16, 8));
my $size = unpack('L<', substr($record, 12, 4));
for (@changes) {
    my ($key, $value) = split /=/, $_, 2;
    if ($key eq 'name') { substr($record, 80, 96) = pack('a96', eval "qq($value)") }
    elsif ($key eq 'pid') { substr($record, 24, 4) = pack('L<', $value) }
    else { substr($record, $key, 8) = pack('Q<', $value) }
}
my $hash = 0xcbf29ce484222325;
for my $word (unpack('Q<*', substr($record, 0, $size - 8))) { use integer; $hash = ($hash ^ $word) * 0x100000001b3 }
substr($record, $size - 8, 8) = pack('Q<', $hash);
open(my $out, '>:raw', $to) or die "$to: $!"; print $out $record, "\0" x 12288;
END
chmod 755 "$forge"

# abuse NAME SCRIPT: a job of alice with two ranks: rank 0 trains, rank 1 runs the script in the records folder, once $mine is
# a record. The line is left in $l.
abuse() {
    local name=$1 job
    cat >"$work/$name.sh" <<END
if [ "\$SLURM_PROCID" = 0 ]; then exec train --ranks 2 ${long[*]} --truth $work/$name.0; fi
cd "\$MFU_RECORD_DIR" || exit 3
until mine=\$(ls *.mfu 2>/dev/null | head -n 1) && [ -n "\$mine" ] && [ \$(od -An -t u8 -j 16 -N 8 "\$mine") -gt 0 ]; do
    sleep 0.1
done
$2
exit 0
END
    chmod 755 "$work/$name.sh"
    job=$(submit_as alice -n2 -N1 --gpus-per-task=1 --mfu-profile=on --wrap "srun sh $work/$name.sh" -o /dev/null)
    ok "$name: the job ends" wait_job "$job"
    is "$(sacct_field "$job" State)" COMPLETED "$name: the job's state is its own"
    ok "$name: the rank's own work was done" test -s "$work/$name.0"
    l=$(line "$job" 's=0')
    diagnose "$l"
    sound "$job" "$l" "$name"
}

shadow=$(sha256sum /etc/shadow)
secret=$MFU_CLUSTER_DIR/secret
mkdir -m 700 "$secret" && echo secret >"$secret/file"

abuse files "
    ln -s /etc/shadow 1.0.mfu
    ln -s $secret/file 1.1.mfu
    ln -s $secret links
    mkfifo 2.0.mfu
    truncate -s 1T 3.0.mfu
    mkdir 4.0.mfu && mkdir -p deep/er/and/deeper && touch deep/file && chmod 0 deep/er
    rm -f board && ln -s /etc/shadow board
    i=0; while [ \$i -lt 300 ]; do : >junk.\$i.mfu; i=\$((i + 1)); done"
like "$(value "$l" compute)" '^n/a\(broken-records\)|^[0-9.]+%$' 'files: compute is a figure, or says why not'

abuse forged "
    $forge \$mine 9.0.mfu pid=9 216=1 224=72057594037927936 240=36028797018963968"
like "$(value "$l" compute)" '^n/a\((implausible|broken-records)\)$' 'forged: absurd sums are no figure'

# The only record: with another device beside it there is no name in the line.
abuse names "
    $forge \$mine 9.0.mfu pid=9 name='evil | ; mfu/1 mfu=99.9% sum=0' && rm \$mine"
like "$(value "$l" gpus)" '^[12]xevil[A-Za-z0-9._-]*$' 'names: the line names the device, in safe letters'
unlike "$l" '99\.9%|[|;]' 'names: and this is no way into the line'

abuse bytes "
    $forge \$mine 9.0.mfu pid=9 name='evil\\n\\e[31m mfu/1 mfu=99.9%' && rm \$mine"
is "$(value "$l" compute)" 'n/a(broken-records)' 'bytes: no record has a name that a terminal obeys'
unlike "$l" $'evil|[^ -~]' 'bytes: nor has the line'

abuse pids "
    $forge \$mine 1.0.mfu pid=1
    $forge \$mine 4294967295.0.mfu pid=4294967295
    cp \$mine 77.0.mfu"

abuse deleted "
    rm -rf \"\$MFU_RECORD_DIR\"/* ; rmdir \"\$MFU_RECORD_DIR\" ; mv \"\$MFU_RECORD_DIR\" /tmp/stolen.\$\$"
like "$(value "$l" compute)" '^n/a\((no-cuda|broken-records)\)$' 'deleted: nothing is known'

abuse board "
    rm -f board; head -c 256 /dev/zero | tr '\\0' '\\1' >board"
like "$(value "$l" compute)" '^n/a\(record:eperm\)$' 'board: the reason is the board'\''s'

is "$(sha256sum /etc/shadow)" "$shadow" '/etc/shadow is as it was'
is "$(cat "$secret/file")" secret 'a linked folder was not emptied'
ok 'every abused folder is gone' wait_until 60 no_folders
log=$(cat "$MFU_CLUSTER_DIR/log/collector.log" 2>/dev/null)
like "$log" 'files in the record folder are no records' 'the log tells of them'
unlike "$log" $'[^ -~\n]' 'and holds no control byte'

# --- strangers at the first node's port, while two nodes report to each other

alone strangers
job=$(submit -N2 --ntasks-per-node=1 --gpus-per-node=1 --mfu-profile=on --wrap "srun $(held tcp)")
listening() { [[ -n $(ports_of_collectors) ]]; }
ok 'strangers: a collector listens' wait_until 60 listening
read -r port < <(ports_of_collectors)
answers=$(for message in 'GET / HTTP/1.1\r\n\r\n' '\0\0\0\5MUNGE' '\xff\xff\xff\xff' '\0\0\x08\0MUNGE:AwQDAAA:' ''; do
    # shellcheck disable=SC2059 # the messages are formats
    timeout 4 bash -c "exec 3<>/dev/tcp/127.0.0.1/${port:-1} && echo in >>$work/strangers && printf '$message' >&3 && cat <&3" 2>/dev/null &
done | wc -c)
is "$(grep -c '^in$' "$work/strangers")" 5 'strangers: all of them got through'
is "$answers" 0 'strangers: none is answered'
ok 'strangers: both nodes have run' has_run tcp "$job"
touch "$work/tcp.go"
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'strangers' "$work"/tcp.{0,1}

# --- slurmctld does not answer when the step ends

ctld=$(cat "$MFU_CLUSTER_DIR/run/slurmctld.pid")
stamped() { while IFS= read -r text; do echo "$(date +%s%N) $text"; done; }
srun -v -n1 --gpus=1 --job-name=frozen --mfu-profile=on \
    sh -c "train --ranks 1 --steps 40 --truth $work/frozen.0; until [ -e $work/frozen ]; do sleep 0.1; done; date +%s%N >$work/frozen.end" \
    2> >(stamped >"$work/frozen.log") &
wait_until 60 test -s "$work/frozen.0"
kill -STOP "$ctld"
touch "$work/frozen"
# What slurmstepd does next: it tells srun; in Slurm 26.05 the controller first, whose answer it awaits for MessageTimeout.
goes_on_ns() {
    local log_time
    awk '/task exit notification/ { print $1; exit }' "$work/frozen.log" | grep . && return
    log_time=$(sed -n 's/^\[\(.*\)\] \[.*failed sending step completion message.*/\1/p' "$MFU_CLUSTER_DIR"/log/n1.log | tail -n 1)
    [[ -n $log_time ]] && echo $(($(date -d "$log_time" +%s%N) - 10000000000))
}
goes_on() { goes_on_ns >/dev/null; }
wait_until 60 goes_on
waited_ms=$((($(goes_on_ns || echo 0) - $(cat "$work/frozen.end")) / 1000000))
# Well below the 10 s of a MessageTimeout.
ok "frozen controller: slurmstepd goes on after 2 s (it took $waited_ms ms)" test "$waited_ms" -ge 0 -a "$waited_ms" -lt 8000
sleep 1
kill -CONT "$ctld"
wait # with Slurm 26.05 for a minute: slurmstepd's second attempt
l=$(line "$(job_named frozen)" 's=0')
diagnose "$l"
same_as_truth "$l" 'frozen controller' "$work/frozen.0"

# --- slurmdbd is down when a job is cancelled

job=$(submit -n2 --gpus-per-task=1 --wrap "srun --mfu-profile=on ${hang[*]} --truth $work/dbd.%r")
caught_up "$job.0" "$work"/dbd.{0,1}
"$mfu_cluster" kill "$MFU_CLUSTER_DIR" slurmdbd
scancel "$job"
wait_job "$job"
sleep 3
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmdbd
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'slurmdbd down' "$work"/dbd.*

# --- slurmctld is restarted in the middle of a step

job=$(submit -n2 --gpus-per-task=1 --mfu-profile=on --wrap "srun $(held restart)")
ok 'slurmctld restarted: the step has run' has_run restart "$job"
"$mfu_cluster" restart "$MFU_CLUSTER_DIR" slurmctld
ok 'slurmctld restarted: the step goes on' job_state_is "$job" RUNNING
touch "$work/restart.go"
wait_job "$job"
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'slurmctld restarted' "$work"/restart.{0,1}

# --- the collector is killed: the job epilog starts another

alone 'collector killed'
job=$(submit -n2 -N1 --gpus-per-task=1 --mfu-profile=on --wrap "srun $(held collector)")
ok 'collector killed: the step has run' has_run collector "$job"
ok "collector killed: it was there, and the batch script's" wait_until 60 collectors_are 2
for pid in $(ours 'mfu-collector --step'); do kill -KILL "$pid"; done
ok 'collector killed: none is left' wait_until 60 no_collectors
touch "$work/collector.go"
wait_job "$job"
is "$(sacct_field "$job" State)" COMPLETED 'collector killed: the job is well'
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'collector killed' "$work"/collector.{0,1}

# --- slurmstepd of one of two nodes is killed

job=$(submit -N2 --ntasks-per-node=1 --gpus-per-node=1 --wrap "srun --mfu-profile=on ${hang[*]} --truth $work/stepd.%r")
caught_up "$job.0" "$work"/stepd.{0,1}
read -r _ second < <(scontrol show hostnames "$(squeue -h -j "$job" -o %N)" | paste -sd' ')
stepds=$("$mfu_cluster" stepds "$MFU_CLUSTER_DIR" "$second")
is "$(wc -w <<<"$stepds")" 1 'slurmstepd killed: it was there'
# shellcheck disable=SC2086 # pids
kill -KILL $stepds
sleep 2
scancel "$job"
wait_job "$job" 90
l=$(line "$job" 's=0')
diagnose "$l"
same_as_truth "$l" 'slurmstepd killed' "$work"/stepd.*

# --- an option that another version of the plugin has left in the environment

option=SLURM_SPANK__SLURM_SPANK_OPTION_mfu_mfu_profile
for value in 'future-key=1' 'x,y=$(' $'flops=1e15\n' "$(printf '%09000d' 0)"; do
    ok "inherited option '${value:0:14}': srun runs" env "$option=$value" srun -n1 --gpus=1 true
done
ok 'typed option: a wrong one is refused' test "$(srun -n1 --gpus=1 --mfu-profile=future-key=1 true 2>&1 | grep -c 'unknown key')" -ge 1

# --- a job that says it is a task of another's array, whose number is that job's

victim=$(submit_as bob -n1 --array=0 --gpus=1 --wrap "until [ -e $work/victim ]; do sleep 0.1; done")
wait_until 60 job_state_is "${victim}_0" RUNNING
job=$(submit_as alice -n2 -N1 --gpus-per-task=1 --mfu-profile=on --wrap \
    "SLURM_ARRAY_JOB_ID=$victim SLURM_ARRAY_TASK_ID=0 srun train --ranks 2 --steps 20 --truth $work/array.%r")
wait_job "$job"
l=$(line "$job" 's=0')
same_as_truth "$l" "another's array" "$work"/array.*
unlike "$(scontrol show job "${victim}_0")" '[ ,=]s=0' "another's array: its job has no line of the step"
touch "$work/victim"
wait_job "${victim}_0"
like "$(line "${victim}_0" 's=b')" '^mfu/1 mfu=n/a\(no-cuda\).* gpus=1x' "another's array: its line is its own"

# --- what a profiled task and its collector have of each other: nothing

for profile in off on; do
    # shellcheck disable=SC2016
    srun -n1 --gpus=1 --mfu-profile=$profile sh -c 'for fd in /proc/$$/fd/*; do readlink "$fd"; done; exit 0' |
        sed 's/:.*//' | sort >"$work/descriptors.$profile"
done
ok 'descriptors: a task has some' test -s "$work/descriptors.off"
is "$(cat "$work/descriptors.on")" "$(cat "$work/descriptors.off")" 'descriptors: a profiled task has none more'

alone collectors
job=$(submit_as alice -n2 -N2 --gpus-per-task=1 --mfu-profile=on -o "$work/held.out" --wrap \
    "STRANGE=1 LD_PRELOAD=$work/strange.so srun -e $work/held.err sh -c 'train --ranks 2 --truth $work/held.%r
     until [ -e $work/held ]; do sleep 0.1; done'")
# The batch script's and the step's two.
ok 'collectors: they are there' wait_until 60 collectors_are 3
collectors=$(ours 'mfu-collector --step')
descriptors() { for pid in $collectors; do find "/proc/$pid/fd" -printf '%l\n'; done 2>/dev/null; }
holds_no_file() { ! descriptors | grep -q "^$work/"; }
ok "collectors: none holds a file of the job's" wait_until 60 holds_no_file
is "$(descriptors | grep -c '^/dev/null$')" 9 'collectors: their own standard streams are empty'
environment=$(for pid in $collectors; do tr '\0' '\n' <"/proc/$pid/environ"; done)
is "$(grep -c '^MFU_CLUSTER_NODE=' <<<"$environment")" 3 "collectors: each has slurmd's environment"
unlike "$environment" 'STRANGE|LD_PRELOAD|CUDA_INJECTION64_PATH|MFU_RECORD_DIR' "collectors: and nothing of the job's"
touch "$work/held"
wait_job "$job"

# --- nothing is left behind

ok 'the spool is empty again' wait_until 60 no_folders
ok 'no collector is left' wait_until 60 no_collectors
[[ ! -s $MFU_CLUSTER_DIR/log/collector.log ]] || diagnose "$(cat "$MFU_CLUSTER_DIR/log/collector.log")"
done_testing
