#!/usr/bin/env bash
# Discovery by libibnetdisc against ibsim, a simulator that answers as the nodes of a fabric do: what is found must be what
# the text parser makes of ibnetdiscover's output, and what was simulated.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=${B:-build}
scratch=$(mktemp -d)
simulator=
trap 'stop_simulator; rm -rf "$scratch"' EXIT

preload=$(find /usr/lib /usr/lib64 /usr/local/lib -name libumad2sim.so -print -quit 2>/dev/null)
if [[ -z $preload ]] || ! command -v ibsim >/dev/null || ! command -v ibnetdiscover >/dev/null; then
    echo "ok - live discovery equals the text parser's # SKIP no ibsim or no ibnetdiscover"
    exit 0
fi

stop_simulator() {
    [[ -n $simulator ]] && kill "$simulator" 2>/dev/null && wait "$simulator" 2>/dev/null
    simulator=
}

# Parallel runs have sockets of their own, which lie in the abstract name space.
export IBSIM_SOCKNAME=mfu-$$
start_simulator() { # start_simulator NET
    stop_simulator
    ibsim -s -n -N 4096 -S 1024 -P 65536 "$1" >"$scratch/ibsim.log" 2>&1 &
    simulator=$!
    for _ in {1..600}; do
        grep -q 'simulator ready' "$scratch/ibsim.log" && return
        sleep 0.1
    done
    return 1
}

simulated() { LD_PRELOAD=$preload timeout 60 "$@"; }
probe=$scratch/probe

cxx=$(sed -n 's/^CXX = //p' config.mk)
name='the probe builds'
if output=$("${cxx:-c++}" -std=c++20 -I. -o "$probe" tests/build/fabric_live_probe.cc topology/fabric.cc \
    topology/fabric_assembly.cc topology/fabric_live.cc topology/fabric_text.cc topology/fabric_writer.cc \
    -libnetdisc -libmad 2>&1); then
    ok "$name"
else
    not_ok "$name" "$output"
    tests_done=yes
    done_testing
fi

# compare NAME NET: live, ibnetdiscover's text, and what was simulated.
compare() {
    if ! start_simulator "$2"; then
        not_ok "$1: ibsim takes it" "$(tail -n 5 "$scratch/ibsim.log")"
        return
    fi
    {
        simulated ibnetdiscover >"$scratch/printed" && "$probe" read "$scratch/printed" >"$scratch/parsed" &&
            simulated "$probe" live >"$scratch/live" && "$probe" wiring "$scratch/live" >"$scratch/live.wiring" &&
            "$probe" wiring "$2" >"$scratch/net.wiring"
    } 2>"$scratch/err" || diagnose "$(<"$scratch/err")" # and the comparisons fail
    same "$1: live equals ibnetdiscover's text" "$scratch/live" "$scratch/parsed"
    same "$1: live equals what was simulated" "$scratch/live.wiring" "$scratch/net.wiring"
}

same() { # same NAME A B
    if [[ -s $2 ]] && diff "$2" "$3" >"$scratch/diff"; then ok "$1"; else not_ok "$1" "$(head -n 8 "$scratch/diff")"; fi
}

# ibsim does not know NDR.
"$probe" make 1 4 8 4 8 0 HDR >"$scratch/two"
compare 'two levels' "$scratch/two"
"$probe" make 3 2 4 8 8 2 EDR >"$scratch/three"
compare 'three levels' "$scratch/three"

# Widths, speeds and descriptions of all sorts; each link is in the file twice.
sed -e 's/\(mlx5_0\|r1:MQM9700.*lid 0\)\(.*\) 4xHDR/\1\2 1xSDR/' -e '/mlx5_1"/s/4xHDR/4xEDR/' \
    -e "s/node3 mlx5_2/O'Brien # host caf\xc3\xa9 mlx5_2/" \
    -e 's/node4 mlx5_2/a description that is longer than the sixty-four bytes that there are mlx5_2/' \
    "$scratch/two" >"$scratch/odd"
if start_simulator "$scratch/odd"; then
    simulated ibnetdiscover 2>/dev/null >"$scratch/printed"
    "$probe" read "$scratch/printed" >"$scratch/parsed"
    simulated "$probe" live 2>/dev/null >"$scratch/live"
    same 'odd widths, speeds and names: live equals the text' "$scratch/live" "$scratch/parsed"
    name='odd widths, speeds and names are in it'
    if grep -q 1xSDR "$scratch/live" && grep -q 4xEDR "$scratch/live" && grep -q "O'Brien # host caf   mlx5_2" "$scratch/live"; then
        ok "$name"
    else
        not_ok "$name" "$(grep -m 3 -e Brien -e EDR "$scratch/live")"
    fi

    name='from a chosen adapter and port: the same'
    host=$(sed -n 's/^Ca.*"\(H-[0-9a-f]*\)".*node9 mlx5_3.*/\1/p' "$scratch/odd")
    SIM_HOST=$host simulated "$probe" live ibsim0 1 2>/dev/null >"$scratch/chosen"
    same "$name" "$scratch/chosen" "$scratch/live"

    name='an adapter that is not there is an error'
    if output=$(simulated "$probe" live nosuch0 1 2>&1 >/dev/null); then
        not_ok "$name" "$output"
    elif grep -q 'discovery failed from nosuch0' <<<"$output"; then
        ok "$name"
    else
        not_ok "$name" "$output"
    fi
else
    not_ok 'odd widths, speeds and names' "$(tail -n 5 "$scratch/ibsim.log")"
fi
tests_done=yes
done_testing
