#!/usr/bin/env bash
# The gate to CUPTI over the real libcupti of many versions of CUDA, on buffers made with each version's own headers. The
# libraries are Python wheels; those unpacked in build/cupti are not fetched again.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=${B:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The newest one first. Each differs from its neighbours in a record's size or a result. 13.5: its GetNextRecord wants a
# driver; the layouts can be told without. Not 13.2, whose every call crashes where there is no driver.
versions='13.5.25 13.1.115 13.0.85 12.9.79 12.8.90 12.6.80 12.4.127 12.1.105 11.8.87 11.7.101'
checks='sizes fields mixes unknown truncated empty'
seconds=60 # for one download

skip() { echo "ok - $1 # SKIP $2"; }

# fetch VERSION: its headers and libcupti into build/cupti/VERSION.
fetch() {
    local package folder=$scratch/$1
    case $1 in
    11.* | 12.*) package=nvidia-cuda-cupti-cu${1%%.*} ;;
    *) package=nvidia-cuda-cupti ;;
    esac
    timeout -k 5 "$seconds" python3 -m pip --disable-pip-version-check download --quiet --timeout 10 --retries 1 \
        --no-deps --only-binary :all: --dest "$folder" "$package==$1" >"$folder.log" 2>&1 || return
    python3 -m zipfile -e "$folder"/*.whl "$folder" || return
    # In place at once, or not at all.
    mkdir -p "$B/cupti" "$folder/kept" &&
        mv "$folder"/nvidia/*/lib/libcupti.so.* "$folder/kept" &&
        mv "$(dirname "$(find "$folder/nvidia" -name cupti_activity.h)")" "$folder/kept/include" &&
        { mv -T "$folder/kept" "$B/cupti/$1" 2>/dev/null || [[ -d $B/cupti/$1 ]]; }
}

# structures HEADERS NAME FIRST: all CUpti_ActivityNAME from number FIRST on, the newest one last.
structures() {
    cat "$1"/cupti_activity*.h | sed -nE "s/^\} *CUpti_Activity$2([0-9]*);.*/\1/p" | sort -nu |
        awk -v first="$3" -v name="CUpti_Activity$2" '$1 + 0 >= first { print name $1 }'
}

config() { sed -n "s/^$1 = //p" config.mk; }
cxx=$(config CXX) cuda=$(config CUDA)
toolkit=(-isystem "$cuda/include" -isystem "$cuda/extras/CUPTI/include")
gate=()
for source in cupti_gate cupti_library loaded_object; do
    gate+=("$scratch/$source.o")
    "$cxx" -std=c++20 -O1 -I. "${toolkit[@]}" -c -o "$scratch/$source.o" "profiler/$source.cc" || exit
done

# build HEADERS PROGRAM
build() {
    local structure name first flags=()
    while read -r structure name first; do
        mapfile -t all < <(structures "$1" "$name" "$first")
        flags+=("-D$structure=${all[-1]}" "-D${structure}S=$(IFS=,; echo "${all[*]}")")
    done <<'END'
KERNEL Kernel 4
MEMCPY Memcpy 3
PEER MemcpyPtoP 0
MEMSET Memset 2
OVERHEAD Overhead 0
MARKER Marker 2
END
    "$cxx" -std=c++20 -O1 -Wall -I. -isystem "$1" "${toolkit[@]}" "${flags[@]}" -o "$2" tests/build/cupti_layouts.cc \
        "${gate[@]}" -ldl
}

# compare NAME PROGRAM LIBRARY
compare() {
    local check output code
    for check in $checks; do
        output=$("$2" "$check" "$3" 2>&1)
        code=$?
        case $code in
        0) ok "$1: $check" ;;
        77) skip "$1: $check" 'this libcupti reads nothing without a driver' ;;
        *) not_ok "$1: $check" "exit code $code: $(head -n 20 <<<"$output")" ;;
        esac
    done
}

fetched=0 unreachable=
for version in $versions; do
    if [[ ! -d $B/cupti/$version ]]; then
        if [[ -n $unreachable ]]; then
            skip "CUPTI of CUDA $version" "$unreachable"
            continue
        elif fetch "$version"; then
            fetched=$((fetched + 1))
        else
            reason="no wheel of it: $(tail -n 1 "$scratch/$version.log" | cut -c1-120)"
            ((fetched > 0)) || unreachable=$reason
            skip "CUPTI of CUDA $version" "$reason"
            continue
        fi
    fi
    folder=$PWD/$B/cupti/$version
    [[ $B == /* ]] && folder=$B/cupti/$version
    ok "CUPTI of CUDA $version: every layout begins as the gate reads it" build "$folder/include" "$scratch/$version.program"
    [[ -x $scratch/$version.program ]] || continue
    compare "CUPTI of CUDA $version" "$scratch/$version.program" "$(echo "$folder"/libcupti.so.*)"
    # The fakes are of CUDA 13.0.
    [[ $version == 13.0.* ]] || continue
    compare 'the fake CUPTI' "$scratch/$version.program" "$(realpath "$B/tests/fake/libcupti.so.13")"
    output=$(MFU_REAL_CUPTI=$(echo "$folder"/libcupti.so.*) "$B/tests/unit/fake_cupti_test" 2>&1 | grep '^\[  [A-Z]')
    like "$output" '^\[  PASSED  \] [1-9][0-9]* tests\.$' "the fake CUPTI reads as that of CUDA $version"
done
tests_done=yes
done_testing
