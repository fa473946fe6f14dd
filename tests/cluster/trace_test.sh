#!/usr/bin/env bash
# Recorded traces, replayed as job steps: the line's times are the traces' expected answers, to the nanosecond.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"
traces=$(realpath "${MFU_SHARED:-../shared}/data/traces" 2>/dev/null)
mfu_up update=10

# answer KEY EXPECTED FILE...: the sum over the named traces and their devices; EXPECTED has a trace a key.
answer() {
    local key=$1 expected=$2
    shift 2
    jq --arg key "$key" '[.[$ARGS.positional[]].devices[][$key]] | add' "$expected" --args "$@"
}

# waiting FILE...: the line's `wait`, from what mfu-analyze finds in the ranks' traces.
waiting() {
    "$build/mfu-analyze" --json "$@" | jq -r '.stragglers | (.ranks | map(.wait_ns) | add) as $wait |
        (.transfer_ns * (.ranks | length)) as $transfer | (.ranks | max_by(.caused_ns)) as $slowest |
        (1000 * $wait / ($wait + $transfer) | round | "\(. / 10 | floor).\(. % 10)%") +
        if 2 * $slowest.caused_ns >= $wait then "(task\($slowest.rank))" else "" end'
}

# replay_traces NAME DEVICE FOLDER EXPECTED FILE...: a rank a file, over two nodes when there are several; all in one step.
replay_traces() {
    local name=$1 device=$2 folder=$3 expected=$4 files=("${@:5}") ranks=$(($# - 4)) rank job pair busy=0
    for rank in "${!files[@]}"; do
        if ! trace_script "$folder/${files[rank]}" "$work/$name.$rank"; then
            not_ok "$name: ${files[rank]} is converted"
            return
        fi
    done
    job=$(FAKE_CUDA_DEVICE_NAME=$device submit -N$((ranks > 1 ? 2 : 1)) -n"$ranks" --gpus-per-task=1 \
        --wrap "srun replay $work/$name.%r")
    wait_job "$job"
    line=$(line "$job" 's=0')
    is "$(sacct_field "$job" State)" COMPLETED "$name: completed"
    diagnose "$line"
    like "$(value "$line" gpus)" "^${ranks}x" "$name: $ranks GPUs"
    is "$(value "$line" cover | cut -d/ -f2)" '100.0%' "$name: all was observed"
    for pair in span_ns:span_ns compute_ns:compute_union_ns exposed_communication_ns:exposed_comm_ns \
        overlapped_communication_ns:overlapped_comm_ns exposed_memory_ns:memory_only_ns; do
        is "$(sum "$line" "${pair%:*}")" "$(answer "${pair#*:}" "$expected" "${files[@]}")" "$name: ${pair%:*} is the answer"
        case $pair in span* | overlapped*) ;; *) ((busy += $(sum "$line" "${pair%:*}"))) ;; esac
    done
    is "$(($(sum "$line" span_ns) - busy))" "$(answer idle_ns "$expected" "${files[@]}")" "$name: idle between its operations is the answer"
}

# Our own, with answers computed by hand.
replay_traces two-ranks 'NVIDIA H100 80GB HBM3' tests/data/two-ranks tests/data/two-ranks/expected.json rank{0,1}.json

# Real ones, with the answers of a reference of other authors; a rank alone waits for nobody.
real() { # NAME DEVICE FILE...
    local name=$1 longest
    if [[ ! -e $traces/$name/$3 ]]; then
        skip "$name" "no recorded traces in \${MFU_SHARED:-../shared}/data/traces"
        return
    fi
    longest=$(jq '[.[].devices[].span_ns] | max' "$traces/expected/$name.ref.json")
    if ((longest > 10000000000)); then
        skip "$name" 'longer than 10 s, and a replay takes as long as the recording'
        return
    fi
    replay_traces "$name" "$2" "$traces/$name" "$traces/expected/$name.ref.json" "${@:3}"
}
real megatron-tp8-a100 'NVIDIA A100-SXM4-80GB' rank{0..7}.json.gz               # 8 ranks, tensor parallel
if [[ -e $traces/megatron-tp8-a100 ]]; then
    is "$(value "$line" wait)" "$(waiting "$traces"/megatron-tp8-a100/rank{0..7}.json.gz)" \
        'megatron-tp8-a100: waiting and the straggler are those of the whole traces'
fi
real torchrec-4rank-v100-qcomm 'Tesla V100-SXM2-16GB' rank{0..3}.json.gz        # 7 streams, all three classes at once
real resnet-ddp2-a100-meta 'NVIDIA A100-PG509-200' rank0.json.gz                # gradients all-reduced under the backward pass
real dlrm-8rank-v100 'Tesla V100-SXM2-32GB' rank3.json.gz                       # all-to-all
real tracediff-control-a100 'NVIDIA A100-PG509-200' rank3.json.gz               # copies under both
real sglang-qwen3-30b-b300-cudagraph 'NVIDIA B300 SXM6 AC' rank0.json.gz        # one CUDA graph
real vllm-b200-tp8-eager 'NVIDIA B200' rank0.json.gz                            # communication that is not NCCL
done_testing
