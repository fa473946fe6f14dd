#!/usr/bin/env bash
# mfu-peak and mfu-overlap without a GPU: as they are built, as a user meets them, and on the fakes of tests/gpu, where every
# multiplication and all-reduce takes a known time. And tests/gpu/run itself, which needs a GPU to prove anything, on the
# same fakes.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=$(realpath -e "${B:-build}") || exit 2

# --- what is installed: manual pages of programs that were built

# pages [NVCC=]: of section 1, that make install takes.
pages() { env -u MAKEFLAGS -u MAKELEVEL make -n install "$@" 2>/dev/null | grep -oE 'man/mfu-[a-z]+\.1' | sort | xargs; }
all=$(printf '%s\n' man/*.1 | sort | xargs)
is "$(pages NVCC=)" "$(tr ' ' '\n' <<<"$all" | grep -vE 'mfu-(peak|overlap)' | xargs)" 'install: no page of a program that was left out'
if [[ ! -x $B/mfu-peak ]]; then
    skip 'mfu-peak and mfu-overlap' 'configure left them out: no nvcc, cuBLAS or NCCL'
    done_testing
fi
is "$(pages)" "$all" 'install: a page of every program'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# run COMMAND...: its output in $out, errors in $err, exit code in $code. on_fakes COMMAND...: the same, on the fakes.
run() {
    out=$(timeout 120 "$@" 2>"$scratch/err")
    code=$?
    err=$(<"$scratch/err")
}
on_fakes() { run env LD_LIBRARY_PATH="$B/tests/gpu/fake:$B/tests/fake" "$@"; }
# says CODE ERROR NAME: how the last run ended.
says() { is "$code: $err" "$1: $2" "$3"; }
value() { jq -r "$1" <<<"$out"; }

# --- as they are built

for program in mfu-peak mfu-overlap; do
    architectures=$(objcopy -O binary --only-section=.nv_fatbin "$B/$program" /dev/stdout | python3 -c '
import struct, sys
# Containers (magic, version, bytes of header and content), each with entries: kind (2: machine code), bytes of header and
# content, and at byte 28 the architecture.
data, at, found = sys.stdin.buffer.read(), 0, set()
while (at := data.find(struct.pack("<I", 0xBA55ED50), at)) >= 0:
    header, size = struct.unpack_from("<HQ", data, at + 6)
    entry, end = at + header, at + header + size
    while entry < end:
        kind, _, head, body = struct.unpack_from("<HHIQ", data, entry)
        if kind == 2: found.add(struct.unpack_from("<I", data, entry + 28)[0])
        entry += head + body
    at = end
print(*sorted(found))')
    wanted=$(sed -n 's/^GPU_ARCHITECTURES = //p' config.mk | grep -oE '[0-9]+' | sort -nu | xargs)
    is "$architectures" "$wanted" "$program: machine code of the GPUs that configure was told ($wanted)"
    is "$(readelf -d "$B/$program" | grep -cE 'NEEDED.*(libstdc|boost|libcuda\.so)')" 0 "$program: needs CUDA's libraries alone"
done

# --- as a user meets them

for program in mfu-peak mfu-overlap; do
    run "$B/$program" --help
    is "$code" 0 "$program --help"
    like "$out" "^usage: $program " "$program --help says how it is used"
    run "$B/$program" --version
    is "$code: $out" "0: $program $(sed -n 's/^PACKAGE_VERSION = //p' config.mk)" "$program --version"
    run "$B/$program" --bogus
    says 2 "$program: no option --bogus; see --help" "$program: an unknown option"
    run "$B/$program" --size
    says 2 "$program: option --size needs a value" "$program: an option without its value"
    run "$B/$program" now
    says 2 "$program: no argument 'now'; see --help" "$program: an argument"
    run "$B/$program" --size 12345678901
    says 2 "$program: --size: '12345678901' is no number from 16 to 65536" "$program: a size that is too large"
    run "$B/$program" --precision bf17
    says 2 "$program: --precision: 'bf17' is no precision; these are: fp64, fp32, tf32, fp16, bf16, fp8" "$program: an unknown precision"
    # The real runtime, whether there is a driver or not.
    CUDA_VISIBLE_DEVICES='' run "$B/$program" --json
    like "$code: $err" "^1: $program: no CUDA device: .+" "$program: no GPU is an error with a reason"
    is "$out" '' "$program: no GPU, no output"
done

# The fakes have the names of one CUDA's libraries. (libcudart of another has functions that the fake one lacks.)
absent=$(readelf -d "$B/mfu-peak" "$B/mfu-overlap" | sed -nE 's/.*NEEDED.*\[(lib(cu|nccl).*)\]/\1/p' | sort -u |
    while read -r library; do [[ -e $B/tests/gpu/fake/$library ]] || echo "$library"; done)
if [[ -n $absent ]]; then
    skip 'mfu-peak, mfu-overlap and tests/gpu/run on the fakes' "the programs need what has no fake: ${absent//$'\n'/ }"
    done_testing
fi
for program in mfu-peak mfu-overlap; do
    FAKE_CUDA_DEVICES=0 on_fakes "$B/$program"
    says 1 "$program: no CUDA device: no CUDA-capable device is detected" "$program: a driver without a GPU"
    on_fakes bash -c "'$B/$program' --size 256 $([[ $program == mfu-overlap ]] || echo --seconds 0.01) >/dev/full"
    is "$code" 1 "$program: output that cannot be written is an error"
done
for wrong in '--size 100' '--size 1x2' '--seconds nan' '--seconds 0' '--peak 989' '--peak bf16=-1' '--peak bf17=1' '--device -1'; do
    # shellcheck disable=SC2086 # options and values
    on_fakes "$B/mfu-peak" $wrong
    like "$code: $err" '^2: mfu-peak: --' "mfu-peak $wrong is refused"
done
for wrong in '--overlap 1.1' '--overlap nan' '--iterations 0' '--gemms 1' '--bytes 3' '--rank 0' '--id-file x --rank 2 --ranks 2' \
    '--id-file x --rank 0 --ranks 1 --gpus 2'; do
    # shellcheck disable=SC2086 # options and values
    on_fakes env -u SLURM_PROCID -u SLURM_NTASKS "$B/mfu-overlap" $wrong
    like "$code: $err" '^2: mfu-overlap: --' "mfu-overlap $wrong is refused"
done

# --- mfu-peak on the fakes: FLOPs, rates, shares

export FAKE_GPU_TFLOPS=2
FAKE_CUBLASLT_CALLS=$scratch/calls on_fakes "$B/mfu-peak" --json --size 256x512x1024 --seconds 0.02 --peak bf16=4,fp8=8
is "$code: $err" '0: ' 'mfu-peak: six precisions'
is "$(value '[.results[].precision] | join(" ")')" 'fp64 fp32 tf32 fp16 bf16 fp8' 'mfu-peak: all are there'
is "$(value '[.results[].flops] | add')" "$(awk '$1 == "flops" { print $2 }' "$scratch/calls")" 'mfu-peak: FLOPs are those that cuBLAS was called for'
is "$(value '[.results[].multiplications] | add')" "$(awk '$1 == "calls" { print $2 }' "$scratch/calls")" 'mfu-peak: so are the multiplications'
is "$(value '[.results[] | .flops == .multiplications * 2 * 256 * 512 * 1024] | all')" true 'mfu-peak: each has 2 m n k'
is "$(value '[.results[] | .best_tflops > 1.999 and .best_tflops < 2.001] | all')" true 'mfu-peak: the rate is that of the faster algorithm'
is "$(value '[.results[] | .mean_tflops <= .best_tflops and .median_tflops <= .best_tflops] | all')" true 'mfu-peak: nothing is above the best'
is "$(value '.results[4] | (.mean_share_of_peak * 4 - .mean_tflops) | fabs < 1e-9')" true 'mfu-peak: a share of the peak that was told'
is "$(value '[.results[] | select(.peak_tflops) | .precision] | join(" ")')" 'bf16 fp8' 'mfu-peak: no share without a peak'
is "$(value '"\(.m) \(.n) \(.k) \(.gpu)"')" '256 512 1024 NVIDIA H100 80GB HBM3' 'mfu-peak: what was measured where'

# The fake cublasLt can leave descriptions and layouts to the real one, which does not need a GPU for them.
real=$(sed -n 's/^CUDA = //p' config.mk)/lib64/libcublasLt.so.13
if [[ -e $real ]]; then
    REAL_CUBLASLT=$real FAKE_CUBLASLT_CALLS=$scratch/calls on_fakes "$B/mfu-peak" --json --size 256x512x1024 --seconds 0.01
    is "$code: $(value '[.results[].flops] | add')" "0: $(awk '$1 == "flops" { print $2 }' "$scratch/calls")" \
        'mfu-peak: the real cublasLt takes its descriptions at every precision'
else
    skip 'mfu-peak: the real cublasLt takes its descriptions at every precision' "no $real"
fi

on_fakes "$B/mfu-peak" --size 256 --seconds 0.02 --precision bf16 --peak 4
like "$out" $'\nbf16 +[0-9.]+ +[0-9.]+ +2\.0 +4\.0 +[0-9.]+%\n' 'mfu-peak: the table'
on_fakes "$B/mfu-peak" --json --size 256 --seconds 0.02 --precision bf16 --graph
is "$(value '.results[0] | .multiplications > .timed_multiplications and .best_tflops > 1.999')" true 'mfu-peak --graph'

FAKE_CUDA_DEVICE_NAME='NVIDIA A100-SXM4-80GB' on_fakes "$B/mfu-peak" --size 256 --seconds 0.02
like "$code: $out" '^0: .*fp8 +n/a \(needs compute capability 8\.9\)' 'mfu-peak: what a GPU has not is n/a'
FAKE_CUDA_DEVICE_NAME='NVIDIA A100-SXM4-80GB' on_fakes "$B/mfu-peak" --json --size 256 --seconds 0.02 --precision fp8
is "$code: $(value '.results[0].missing')" '1: needs compute capability 8.9' 'mfu-peak: what was asked for and is not there is an error'
FAKE_CUBLASLT_NO_ALGORITHM=1 on_fakes "$B/mfu-peak" --json --size 256
is "$code: $(value '.results[0].missing')" '1: no algorithm: CUBLAS_STATUS_NOT_SUPPORTED' 'mfu-peak: cuBLAS has no algorithm'
on_fakes "$B/mfu-peak" --device 1
says 1 'mfu-peak: no CUDA device 1: 1 visible' 'mfu-peak: a device that is not there'

# --- mfu-overlap on the fakes. A program that is held up while it enqueues a step disturbs that one: of 60 that is 1.7%.

for overlap in 0 0.25 1; do
    FAKE_CUBLASLT_CALLS=$scratch/calls on_fakes "$B/mfu-overlap" --json --size 256 --iterations 60 --overlap $overlap
    is "$(value .flops)" "$(awk '$1 == "flops" { print $2 }' "$scratch/calls")" "mfu-overlap $overlap: FLOPs are those that cuBLAS was called for"
    is "$(value '"\(.overlap) \(.communication) \(.all_reduces)"')" "$overlap stand-in $((20 + 65 * 20))" "mfu-overlap $overlap: all-reduces"
    is "$(value "(.exposed_share_of_communication - (1 - $overlap)) | fabs < 0.06")" true "mfu-overlap $overlap: exposed by its events"
    # Of 20 all-reduces of 0.5 ms.
    is "$(value "(.exposed_seconds - 0.01 * (1 - $overlap)) | fabs < 1e-5")" true "mfu-overlap $overlap: the exposed time"
    is "$(value '(.step_seconds - .compute_seconds - .exposed_seconds) | fabs < 1e-4')" true "mfu-overlap $overlap: a step is computation and what is exposed"
    is "$(value '.mean_step_seconds / .step_seconds | . > 0.9 and . < 2')" true "mfu-overlap $overlap: the mean of the steps"
done
# The mean is that of all steps, of which there is one.
on_fakes "$B/mfu-overlap" --json --size 256 --iterations 1
is "$(value '.mean_step_seconds == .step_seconds')" true 'mfu-overlap: mean and median of one step'
# Its kernel waits for room beside the multiplications, which is no communication.
FAKE_GPU_WAIT_US=100 on_fakes "$B/mfu-overlap" --json --size 256 --iterations 10 --overlap 1
is "$(value '(.hidden_seconds - 0.01) | fabs < 1e-6')" true 'mfu-overlap: what the stand-in waits for is not hidden communication'
# Four multiplications hide too little: what outlasts them is exposed. (17 ms; 3 multiplications of 1/60 ms under them.)
on_fakes "$B/mfu-overlap" --json --size 256 --iterations 5 --overlap 1 --gemms 4
is "$(value '.gemms == 4 and .exposed_share_of_communication > 0.99')" true 'mfu-overlap: what outlasts the multiplications is exposed'

FAKE_CUDA_DEVICES=3 FAKE_CUBLASLT_CALLS=$scratch/calls on_fakes "$B/mfu-overlap" --json --size 256 --iterations 60 --overlap 0.5 --bytes 4096
is "$(value '"\(.gpus) \(.ranks) \(.communication)"')" '3 3 nccl' 'mfu-overlap: NCCL among the GPUs of a process'
is "$(value .flops)" "$(awk '$1 == "flops" { print $2 }' "$scratch/calls")" 'mfu-overlap: FLOPs of all three'
is "$(value '"\(.all_reduces) \(.bytes)"')" "$((3 * 1320)) $((3 * 1320 * 4096))" 'mfu-overlap: bytes of all three'
is "$(value '(.exposed_share_of_communication - 0.5) | fabs < 0.06')" true 'mfu-overlap: overlap of NCCL'
FAKE_CUDA_DEVICES=3 on_fakes "$B/mfu-overlap" --json --size 256 --iterations 2 --gpus 4
says 1 'mfu-overlap: no 4 CUDA devices: 3 visible' 'mfu-overlap: more GPUs than there are'
on_fakes "$B/mfu-overlap" --size 256 --iterations 60
like "$out" $'\nexposed: [45][0-9]\.[0-9]% of the communication, [0-9.]+% of the steps' 'mfu-overlap: the text'

# Two processes, as srun starts them.
id=$scratch/id
mkdir "$scratch/meeting"
export FAKE_NCCL_FOLDER=$scratch/meeting
rank() { # rank N: of two; what it prints and its exit code go to a file
    SLURM_PROCID=$1 SLURM_NTASKS=2 SLURM_LOCALID=$1 FAKE_CUDA_DEVICES=2 LD_LIBRARY_PATH=$B/tests/gpu/fake:$B/tests/fake \
        timeout 60 "$B/mfu-overlap" --json --size 256 --iterations 5 --id-file "$id" >"$scratch/rank.$1" 2>&1
    echo "$?" >"$scratch/code.$1"
}
rank 1 &
rank 0
wait
is "$(<"$scratch/code.0")$(<"$scratch/code.1")" 00 'mfu-overlap: one rank a process'
is "$(jq -r '"\(.gpus) \(.ranks) \(.communication)"' "$scratch/rank.0")" '1 2 nccl' 'mfu-overlap: rank 0 tells of all ranks'
is "$(<"$scratch/rank.1")" '' 'mfu-overlap: the other one says nothing'
is "$(echo "$id"*)" "$id*" "mfu-overlap: NCCL's id is taken away"
echo 'of yesterday' >"$id"
on_fakes "$B/mfu-overlap" --size 256 --id-file "$id" --rank 0 --ranks 2
says 1 "mfu-overlap: $id: File exists" 'mfu-overlap: an id that is there already'
is "$(<"$id")" 'of yesterday' 'mfu-overlap: and stays'
on_fakes "$B/mfu-overlap" --size 256 --id-file "$id" --rank 1 --ranks 2
says 1 "mfu-overlap: $id: no id of NCCL" 'mfu-overlap: what is no id'
rm "$id"
on_fakes "$B/mfu-overlap" --size 256 --id-file "$id" --rank 1 --ranks 2 --limit 1
says 1 'mfu-overlap: not all ranks have come in time' 'mfu-overlap: rank 0 does not come'
unset FAKE_GPU_TFLOPS

# --- tests/gpu/run: on the fakes all holds; with a profiler that counts nothing it must not

# Its checks by themselves, with either awk: what is missing or no number is nothing that holds.
checks=$(sed -n '/^is()/,/^}/p; /^holds()/,/^}/p; /^compute()/,/^}/p' tests/gpu/run)
for awk in mawk gawk; do
    if ! at=$(command -v $awk); then
        skip "tests/gpu/run: its checks, by $awk" "no $awk"
        continue
    fi
    mkdir "$scratch/$awk"
    ln -s "$at" "$scratch/$awk/awk"
    is "$(PATH=$scratch/$awk:$PATH bash -c "ok() { echo yes; }; not_ok() { echo no; }; $checks
        is '' '' x; is 1 2 x; is 1 1 x; holds '-nan < 1' x; holds 'null < 1' x; holds ' < 1' x; holds '2 < 1' x; holds '1e-05 > 0' x
        compute '0 / 0'; compute '100 * nan'; compute '100 * '; compute 3/2" | xargs)" 'no no yes no no no no yes 1.5' "tests/gpu/run: its checks, by $awk"
done

# python3 with PyTorch: FAKE_TORCH is the exit code of its import, and a training of the fakes stands for a script.
mkdir "$scratch/torch"
cat >"$scratch/torch/python3" <<EOF
#!/usr/bin/env bash
if [[ \$1 == -c ]]; then
    echo 'ImportError: no libtorch_cuda.so' >&2
    exit "\$FAKE_TORCH"
fi
LD_LIBRARY_PATH=$B/tests/fake "$B/tests/fake/train" --ranks 1 --gemms --steps 80 --kineto-from-step 20 --kineto-steps 20 \\
    --truth "$scratch/truth" && jq -r '"flops \(.gemm_flops)"' "$scratch/truth" && echo seen 1
EOF
chmod +x "$scratch/torch/python3"
# The other awk where there is one: Debian's own is mawk.
PATH=$scratch/torch:$([[ -d $scratch/mawk ]] && echo "$scratch/mawk:")$PATH

! command -v shellcheck >/dev/null || ok 'tests/gpu/run: shellcheck' shellcheck tests/gpu/run
mkdir "$scratch/good" "$scratch/bad"
OUT=$scratch/good FAKE_TORCH=0 MFU_GPU_FAKE=1 run tests/gpu/run "$B"
is "$code" 0 'tests/gpu/run: all holds on the fakes'
is "$(grep '^not ok' <<<"$out")" '' 'tests/gpu/run: no check fails'
like "$(tail -n 1 <<<"$out")" '^[0-9]{2} passed, 0 failed, 0 skipped$' 'tests/gpu/run: all is checked'
is "$(<"$scratch/good/gpu.txt")" "$out" 'tests/gpu/run: everything is in OUT'
for name in exposed_of_communication_0.5 torch_lost steps_difference small_kernels_rate_with small_kernels_launch peak_bf16; do
    like "$out" $'\n'"figure - $name [0-9.e+-]+ " "tests/gpu/run: the figure $name"
done
FAKE_TORCH=124 MFU_COUNT=off MFU_GPU_FAKE=1 run tests/gpu/run "$B"
is "$code" 1 'tests/gpu/run: a profiler that counts nothing fails it'
is "$(grep -c '^not ok - .*FLOPs' <<<"$out")" 10 'tests/gpu/run: wherever FLOPs are compared'
like "$out" $'\nnot ok - torch: it is imported in time\n# import torch: exit code 124, ImportError: no libtorch_cuda.so\n' \
    'tests/gpu/run: PyTorch that is not there in time is no skip'
MFU_GPU_LIMIT=6 MFU_GPU_FAKE=1 run tests/gpu/run "$B"
is "$code: $(grep '^not ok' <<<"$out")" '1: not ok - all within 6 s' 'tests/gpu/run: ends when its time is over'
FAKE_CUBLASLT_NO_ALGORITHM=1 MFU_GPU_FAKE=1 run tests/gpu/run "$B"
is "$code: $(tail -n 1 <<<"$out")" '1: 0 passed, 1 failed, 0 skipped' 'tests/gpu/run: a program that fails is no GPU that is not there'
like "$out" '# exit code 1.# mfu-overlap: no algorithm: CUBLAS_STATUS_NOT_SUPPORTED' 'tests/gpu/run: and it says why'
FAKE_CUDA_DEVICES=0 MFU_GPU_FAKE=1 run tests/gpu/run "$B"
is "$code: $(tail -n 1 <<<"$out")" '3: 0 passed, 0 failed, 1 skipped' 'tests/gpu/run: without a GPU nothing is claimed'
done_testing
