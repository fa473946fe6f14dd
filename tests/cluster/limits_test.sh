#!/usr/bin/env bash
# Whatever a job's processes do and whatever they may not do, and however the spool and the options are: the job runs as
# without slurm-mfu, and the line says what could be seen.
# shellcheck disable=SC2016 # a task's shell expands $FILE and the like
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/mfu.sh"
. "$(dirname "$0")/cases.sh"
mfu_up update=0
"$(sed -n 's/^CC = //p' config.mk)" -shared -fPIC -O1 -o "$work/odd.so" tests/cluster/odd_process.c -ldl -lpthread || exit

train='train --ranks 2 --rank 0 --steps 6 --exit-code 3 --truth $FILE.truth'
# Until there is a record with its first words.
recorded='until [ "$(od -An -t u8 -j 16 -N 8 $MFU_RECORD_DIR/*.mfu 2>/dev/null | tr -d " ")" -gt 0 ] 2>/dev/null; do sleep 0.05; done'
odd() { echo "exec env LD_PRELOAD=$work/odd.so ODD=$1 $train"; }
whole=' cover=0.0%/100.0% '
less=' cover=0.0%/[0-9]?[0-9]\.[0-9]%'

# --- processes that fork, exec and end in every way

new_case 'fork, the child calls exit' "$whole" right -- "exec $train --fork"
new_case 'fork, the child calls _exit' "$whole" right -- "exec $train --fork-exit"
new_case 'clone, the child calls exit' "$whole" right -- "$(odd clone) --sleep-after 1.2"
cat >"$work/second" <<'END'
#!/bin/sh
exec train --ranks 2 --rank 0 --seed 9 --steps 3 --exit-code 3 --truth $FILE.truth2
END
printf '#!/bin/sh\nexit 3\n' >"$work/plain"
chmod +x "$work/second" "$work/plain"
new_case 'exec of another CUDA program' "$less" busy -- "exec $train --sleep-after 1.2 --exec $work/second"
new_case 'exec of a program without CUDA' "$less" right -- "exec $train --sleep-after 1.2 --exec $work/plain"
CODE=134 new_case 'crash' "$less" right -- "ulimit -c 0; exec $train --sleep-after 1.2 --crash"
new_case '_exit' "$less" right -- "exec $train --sleep-after 1.2 --_exit"
new_case 'no CUDA' 'compute=n/a\(no-cuda\)' none -- 'exit 3'
new_case 'a helper that sees no GPU' "$whole" right -- "CUDA_VISIBLE_DEVICES= train --steps 1 2>/dev/null; exec $train"
new_case 'no GPU is to be seen' 'compute=n/a\((no-device|no-records)\)' none -- 'CUDA_VISIBLE_DEVICES= train --steps 1 2>/dev/null; exit 3'
new_case 'daemon' "$whole" right -- "setsid sh -c '$train; touch \$FILE.done' >/dev/null 2>&1 &
    while [ ! -e \$FILE.done ]; do sleep 0.1; done; exit 3"
new_case 'other folder' "$whole" right -- "cd /; exec $train"

# --- processes with habits of their own

new_case 'closes all descriptors' "$whole" right FAKE_CUPTI_LOG= -- "$(odd closes)"
new_case 'blocks all signals' "$whole" right -- "$(odd blocks)"
new_case 'handles SIGTERM' "$whole" right -- "env LD_PRELOAD=$work/odd.so ODD=term $train --hang-at-step 4 &
    while [ ! -s \$FILE.truth ]; do sleep 0.1; done; kill -TERM \$!; wait \$!"
new_case 'cuInit in eight threads' "$whole" right -- "$(odd threads)"
new_case 'the profiler is unloaded' . any -- "$(odd unload)"
# For most of 2 s; how long the program takes to start counts as observed. After some seconds the profiler would come back.
new_case 'profiles itself' ' cover=0.0%/[0-8]?[0-9]\.[0-9]%\(gap\) ' any -- \
    "exec env LD_PRELOAD=$work/odd.so ODD=kineto train --ranks 2 --rank 0 --steps 40 --exit-code 3"
new_case 'own CUDA_INJECTION64_PATH' 'compute=n/a\(slot-taken\)' none CUDA_INJECTION64_PATH="$work/odd.so" -- \
    "[ \$CUDA_INJECTION64_PATH = $work/odd.so ] && exec $train"
new_case 'record truncated by its owner' 'compute=n/a\((broken-records|record:eio)\)' none -- \
    "$train & $recorded; for f in \$MFU_RECORD_DIR/*.mfu; do : >\$f; done; wait \$!"
new_case 'record folder emptied' 'compute=n/a\(' none -- "$train & $recorded; rm -r \$MFU_RECORD_DIR/*; wait \$!"

# --- limits

new_case 'no thread' 'compute=n/a\(no-thread\)' none -- "$(odd alone)"
AS=alice new_case 'no process more' 'compute=n/a\(no-thread\)' none -- "exec bash -c 'ulimit -u 1; exec $train'"
AS=alice new_case 'another user' "$whole" right
new_case 'no file may grow' 'compute=n/a\(record:efbig\)' none -- 'ulimit -f 0; exec train --ranks 2 --rank 0 --steps 3 --exit-code 3'
new_case 'one descriptor' "$whole" right FAKE_CUPTI_LOG= -- "ulimit -n 4; exec $train"
judge
pids=$(cut -d' ' -f1 "$work"/fork*.calls "$work"/clone*.calls | sort -u | wc -l)
is "$pids" 3 'fork and clone: no CUPTI call in a child'

# From a limit under which the program itself just runs, in steps: never another exit code. Without CUPTI, which is not
# ours and needs memory of its own.
alone() { (ulimit -v "$1"; env "${@:2}" train --ranks 1 --steps 0 --exit-code 3) >/dev/null 2>&1; }
records=$work/memory
mkdir "$records"
least=1000
until alone "$least"; [[ $? == 3 ]]; do ((least += 500)); done
bad=
for ((limit = least; limit < least + 3000; limit += 100)); do
    head -c 256 /dev/zero >"$records/board"
    alone "$limit" CUDA_INJECTION64_PATH="$build/libmfu_profiler.so" MFU_RECORD_DIR="$records" MFU_CUPTI=/nonexistent \
        LD_LIBRARY_PATH="$fake"
    [[ $? == 3 ]] || bad+=" $limit"
done
is "$bad" '' "little memory: the exit code is the program's, from $least KiB in 30 steps"

# --- the spool

cases_spool=$spool
# spool_case NAME REGEX TRUTH FOLDER [more of new_case]: with another spool, which is empty again afterwards: how much room
# the next case finds must not hang on when the step's folder goes.
spool_case() {
    spool=$4
    plugstack update=0
    new_case "$1" "$2" "$3" "${@:5}"
    judge
    [[ ! -d $4 ]] || wait_until 60 no_folders || not_ok "$1: its folder goes"
    spool=$cases_spool
}
file=$work/file
: >"$file"
spool_case 'spool is a file' 'compute=n/a\(spool:enotdir\)' none "$file"
spool_case 'spool in a folder that is not there' 'compute=n/a\(spool:enoent\)' none "$work/not/there"
mkdir -m 755 "$work/foreign" && chown alice "$work/foreign"
spool_case 'spool of another user' 'compute=n/a\(spool:eperm\)' none "$work/foreign"
mkdir "$work/open" && chmod 777 "$work/open"
spool_case 'spool that everybody may write to' 'compute=n/a\(spool:eperm\)' none "$work/open"
is "$(ls -A "$work/foreign" "$work/open" | grep -v : | tr -d '\n')" '' 'nothing is written to such a spool'

small=$work/small
mkdir "$small"
if mount -t tmpfs -o size=64k,mode=755 mfu-test "$small" 2>/dev/null; then
    fill="dd if=/dev/zero of=$small/fill bs=4k 2>/dev/null"
    spool_case 'spool full before the record' 'compute=n/a\(record:enospc\)' none "$small" -- "$fill; exec $train"
    rm -f "$small/fill"
    spool_case 'spool full during the run' "$whole" right "$small" -- "$train & $recorded; $fill; wait \$!"
    rm -f "$small/fill"
    SRUN=--gpus=2 spool_case 'room for one record of two' 'compute=n/a\(record:enospc\)' none "$small" -- \
        "$fill; truncate -s -4k $small/fill; exec train --devices 2 --ranks 2 --rank 0 --steps 6 --exit-code 3"
    eval "$fill"
    spool_case 'spool is full' 'compute=n/a\(spool:enospc\)' none "$small"
    rm -f "$small/fill"
    is "$(find "$small" -mindepth 2 -type d)" '' 'nothing is left in the small spool'
    mount -o remount,ro "$small"
    spool_case 'spool is read-only' 'compute=n/a\(spool:erofs\)' none "$small"
    umount "$small"
else
    skip 'spool full or read-only' 'no tmpfs can be mounted here'
fi

# --- the site's arguments

plugstack update=0 profiler="$file"
new_case 'profiler is no library' 'compute=n/a\(' none
judge
plugstack update=0 profiler=/nonexistent
new_case 'profiler is missing' 'compute=n/a\(not-loaded\)' none
judge
plugstack update=0 collector=/nonexistent
new_case 'collector is missing' '^$' any
judge
untouched='[ -z "$CUDA_INJECTION64_PATH$MFU_RECORD_DIR" ] && exit 3'
plugstack inject=ask # behind inject=gpu
new_case 'an argument is there twice' '^$' any -- "$untouched"
judge
like "$(<"$work/an-argument-is-there-twice.err")" "plugstack argument 'inject=ask': the key is there twice" \
    'a broken plugstack argument is named'
plugstack colour=red
new_case 'an unknown argument' '^$' any -- "$untouched"
judge
like "$(<"$work/an-unknown-argument.err")" "plugstack argument 'colour=red': unknown key" 'an unknown argument is named'

site() { plugstack "${@:2}"; sed -i "s/inject=gpu/inject=$1/" "$MFU_CLUSTER_DIR/etc/plugstack.conf"; }
site ask update=0
new_case 'inject=ask without the option' '^$' any -- "$untouched"
SRUN=--mfu-profile new_case 'inject=ask with the option' "$whole" right
judge
site off update=0
SRUN=--mfu-profile=on new_case 'inject=off with the option' '^$' any -- "$untouched"
judge
like "$(<"$work/inject-off-with-the-option.err")" 'switched profiling off' 'inject=off with the option: a message'
site gpu update=0
SRUN=--mfu-profile=off new_case '--mfu-profile=off' '^$' any -- "$untouched"
SRUN=--mfu-profile=on new_case '--mfu-profile=on' "$whole" right
judge

# --- as it is installed, everything is found beside the plugin

if make -s B="$build" DESTDIR="$work/root" prefix=/opt/mfu install >"$work/install.log" 2>&1; then
    plugstack update=0
    sed -i "s|$build/spank_mfu.so|$work/root/opt/mfu/lib/slurm-mfu/spank_mfu.so|" "$MFU_CLUSTER_DIR/etc/plugstack.conf"
    new_case 'installed' "$whole" right -- "case \$CUDA_INJECTION64_PATH in $work/root/*) exec $train ;; esac"
    judge
else
    not_ok 'make install' "$(tail -n 5 "$work/install.log")"
fi
plugstack update=0

# --- the user's option

while read -r value named; do
    message=$(srun -n1 --gpus=1 "--mfu-profile=$value" touch "$work/ran" 2>&1)
    code=$?
    if [[ $code != 0 && ! -e $work/ran && $message == *--mfu-profile:*$named* ]]; then
        ok "--mfu-profile=$value is refused, naming $named"
    else
        not_ok "--mfu-profile=$value is refused, naming $named" "exit code $code: $message"
    fi
    rm -f "$work/ran"
done <<'END'
flops=0 flops
flops=1.5x flops
flops=1e31 flops
flops=1e15,flops=1e15 flops
flops=1e15,flops-per-step=1e12 flops-per-step
step-range=a,nvtx=off step-range
steps=-1 steps
precision=bf17 bf17
colour=red colour
maybe maybe
on,flops=1e15 on
END

nothing_left
done_testing
