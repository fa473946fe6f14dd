#!/usr/bin/env bash
# Every CUPTI call that the profiler makes fails, lies or hangs: the job runs as without slurm-mfu, and the line says so or
# carries the truth.
# shellcheck disable=SC2016 # a task's shell expands $FILE and the like
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mfu.sh"
. "$(dirname "$0")/cases.sh"
mfu_up update=0

# --- its own cost beyond the budget: it stands down, after ten seconds at the earliest, while the others run

plugstack update=0 budget=0.00001
new_case 'cost above the budget' 'compute=n/a\(stood-down\)' none -- \
    'exec train --ranks 2 --rank 0 --steps 230 --exit-code 3'
wait_until 60 test -s "$work/cost-above-the-budget.job"
plugstack update=0

# --- without faults, and without slurm-mfu

new_case 'no fault' ' cover=0.0%/100.0% ' right
SRUN=--mfu-profile=off new_case off '^$' any

# --- a failing call: name in the line, function and argument, from its N-th call on, and with which codes

# state CODE: what the line calls it.
state() { case $1 in 35) echo denied ;; 39) echo cupti-busy ;; *) echo cupti ;; esac; }

while read -r name function calls; do
    for call in $calls; do
        for code in 999 35 39 15; do
            new_case "$name from call $call, code $code" "compute=n/a\($(state $code):$name:$code\)" none \
                FAKE_CUPTI_FAIL="$function@$call=$code"
        done
    done
done <<'END'
version cuptiGetVersion 1
callbacks cuptiActivityRegisterCallbacks 1
enable-kernel cuptiActivityEnable:10 1
enable-memcpy cuptiActivityEnable:1 1
enable-memcpy2 cuptiActivityEnable:22 1
enable-memset cuptiActivityEnable:2 1
flush cuptiActivityFlushAll 1 3
next-record cuptiActivityGetNextRecord 1 40
END
new_case 'flush at exit only' 'compute=n/a\(cupti:flush:999\)' none FAKE_CUPTI_FAIL=cuptiActivityFlushAll:1=999
new_case 'enable and disable' 'compute=n/a\(cupti:enable-memset:15\)' none \
    FAKE_CUPTI_FAIL='cuptiActivityEnable:2=15,cuptiActivityDisable=999'

# A buffer that a flush brings back is no reason to flush again: at a high rate of kernels that would never end.
new_case 'few flushes' ' cover=0.0%/100.0% ' right FAKE_CUPTI_LOG= FAKE_CUPTI_FAIL=cuptiActivityFlushAll:0@9=77 -- \
    'exec train --ranks 2 --rank 0 --steps 50 --layers 300 --exit-code 3 --truth $FILE.truth'

# --- failures that do not touch the figures

for code in 999 35 39 15; do
    new_case "zeroed buffers refused, code $code" ' cover=0.0%/100.0% ' right FAKE_CUPTI_FAIL="cuptiActivitySetAttribute=$code"
    # How much was dropped is not known: nothing of the process's time can be vouched for.
    new_case "dropped count refused, code $code" " cover=0.0%/[0-9]?[0-9]\\.[0-9]%\\(cupti:dropped:$code\\) " right \
        FAKE_CUPTI_FAIL="cuptiActivityGetNumDroppedRecords=$code"
done
new_case 'dropped count refused from call 3' ' cover=0.0%/[0-9]?[0-9]\.[0-9]%\(cupti:dropped:999\) ' right \
    FAKE_CUPTI_FAIL='cuptiActivityGetNumDroppedRecords@3=999'

# --- records that do not come, or come wrong

new_case 'silence' 'compute=n/a\(no-records\)' none FAKE_CUPTI_FAULT=silence
new_case 'no buffers' 'compute=n/a\(no-records\)' none FAKE_CUPTI_FAULT=no-buffers
less=' cover=0.0%/[0-9]?[0-9]\.[0-9]%'
new_case 'dropped records' "$less\(dropped\) " any FAKE_CUPTI_FAULT=drop=7
new_case 'times are zero' "$less\(bad-records\) " any FAKE_CUPTI_FAULT=zero-times=7
new_case 'times are reversed' "$less\(bad-records\) " any FAKE_CUPTI_FAULT=reversed=7
new_case 'records come twice' ' cover=0.0%/100.0% ' right FAKE_CUPTI_FAULT=duplicate=3
new_case 'records come late' ' cover=0.0%/100.0% ' right FAKE_CUPTI_FAULT=late=5
new_case 'operations still run at the end' "$less\(bad-records\) " any -- \
    "exec train --ranks 2 --rank 0 --no-sync --steps $case_steps --exit-code 3"

# --- calls that never return: two seconds, no more

for call in flush:cuptiActivityFlushAll next-record:cuptiActivityGetNextRecord dropped:cuptiActivityGetNumDroppedRecords; do
    new_case "${call%:*} hangs" "compute=n/a\\(cupti:${call%:*}:hang\\)" none FAKE_CUPTI_FAULT="hang=${call#*:}" -- \
        "t=\$(date +%s%N); train --ranks 2 --rank 0 --steps 2; t=\$(((\$(date +%s%N) - t) / 1000000))
         echo \$t >'$work/${call%:*}.took'; exit 3"
done

# --- no libcupti. In a folder of its own, and the toolkit's is not to be found: cupti= means that one alone.

mkdir "$work/driver-only"
cp "$fake/libcuda.so.1" "$work/driver-only"
judge
is "$(grep -c 'cuptiActivityDisable' "$work/cost-above-the-budget.calls")" 4 'cost above the budget: all kinds are disabled'
plugstack update=0 cupti=/nonexistent/libcupti.so
new_case 'libcupti is missing' 'compute=n/a\(no-cupti\)' none LD_LIBRARY_PATH="$work/driver-only"
echo 'not a library' >"$work/broken.so"
judge
plugstack update=0 cupti="$work/broken.so"
new_case 'libcupti is no library' 'compute=n/a\(no-cupti\)' none LD_LIBRARY_PATH="$work/driver-only"
judge
plugstack update=0 cupti="$fake/libcupti.so.13"
new_case 'libcupti by cupti= alone' ' cover=0.0%/100.0% ' right LD_LIBRARY_PATH="$work/driver-only"
judge

for call in flush next-record dropped; do
    took=$(<"$work/$call.took")
    ok "$call hangs: the end waits 2 s at most ($took ms in all)" test "$took" -lt 10000
done

# --- killed while a call hangs: the time since then is not passed off as idle

plugstack update=0
new_case 'killed while flush hangs' ' cover=0.0%/[0-8]?[0-9]\.[0-9]%(\([^)]*\))? ' any FAKE_CUPTI_FAULT=hang=cuptiActivityFlushAll@4 -- \
    'train --ranks 2 --rank 0 --steps 70 & sleep 4; kill -9 $!; wait $! 2>/dev/null; exit 3'
judge
nothing_left
done_testing
