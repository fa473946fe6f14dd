#!/usr/bin/env bash
# What we declare of NVML, against the headers of several versions of CUDA. They are Python wheels; those unpacked in
# build/nvml are not fetched again.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=${B:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

seconds=60 # for one download

# fetch PACKAGE VERSION: its nvml.h into build/nvml/VERSION.
fetch() {
    local folder=$scratch/$2
    timeout -k 5 "$seconds" python3 -m pip --disable-pip-version-check download --quiet --timeout 10 --retries 1 \
        --no-deps --only-binary :all: --dest "$folder" "$1==$2" >"$folder.log" 2>&1 || return
    python3 -m zipfile -e "$folder"/*.whl "$folder" || return
    mkdir -p "$B/nvml" &&
        { mv -T "$(dirname "$(find "$folder/nvidia" -name nvml.h)")" "$B/nvml/$2" 2>/dev/null || [[ -d $B/nvml/$2 ]]; }
}

cxx=$(sed -n 's/^CXX = //p' config.mk)
while read -r package version; do
    name="NVML $version: what we declare is what its header declares"
    if [[ ! -d $B/nvml/$version ]] && ! fetch "$package" "$version"; then
        echo "ok - $name # SKIP not to be had"
        continue
    fi
    if output=$("$cxx" -std=c++20 -fsyntax-only -Wno-deprecated-declarations -I. -isystem "$B/nvml/$version" \
        tests/build/nvml_layouts.cc 2>&1); then
        ok "$name"
    else
        not_ok "$name" "$(grep -m 5 error: <<<"$output")"
    fi
done <<'END'
nvidia-nvml-dev 13.5.37
nvidia-nvml-dev-cu12 12.9.79
nvidia-nvml-dev-cu11 11.8.86
END
tests_done=yes
done_testing
