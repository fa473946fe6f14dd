#!/usr/bin/env bash
# The libraries as they are built and installed: what they export and need, where they go, and that configure names all
# that is missing at once.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=${B:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
profiler=$B/libmfu_profiler.so
spank=$B/spank_mfu.so

exported() { nm -D --defined-only "$1" | awk '$2 ~ /[A-Z]/ { print $3 }' | sed 's/@.*//' | sort | paste -sd' '; }
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | paste -sd' '; }
newest_glibc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1; }

# --- the injected library

is "$(exported "$profiler")" "$(echo InitializeInjection{,Nvtx2} ncclProfiler_v{1..6})" \
    'profiler: exports what CUDA, NVTX and NCCL look for alone'
is "$(needed "$profiler")" 'libc.so.6 libdl.so.2 libpthread.so.0' 'profiler: needs libc, libdl and libpthread alone'
newest=$(newest_glibc "$profiler")
is "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" GLIBC_2.17 "profiler: loads from GLIBC_2.17 on (needs $newest)"
is "$(nm -D --undefined-only "$profiler" | grep -E ' (_ZN?St|_ZT|__cxa_(throw|begin|guard|allocate)|__gxx|_Unwind)')" '' \
    'profiler: nothing of the C++ runtime'
is "$(nm -D --undefined-only "$profiler" | awk '{ print $2 }' | grep -E '^(cu|cupti)[A-Z]')" '' 'profiler: CUDA and CUPTI are not linked'
is "$(nm "$profiler" 2>/dev/null | grep -cE 'cuptiFinalize')$(strings -a "$profiler" | grep -c '^cuptiFinalize$')" 01 \
    'profiler: knows cuptiFinalize only to see others call it'
is "$(nm -D --undefined-only "$profiler" | awk '{ print $2 }' | sed 's/@.*//' |
    grep -E '^(_?exit|abort|quick_exit|printf|puts|fputs|perror|malloc|free|signal|sigaction|setenv|putenv)$')" '' \
    'profiler: never exits, aborts, prints, allocates or takes a signal'
like "$(readelf -d "$profiler")" 'NODELETE' 'profiler: stays mapped under its worker thread'
like "$(readelf -d "$profiler")" 'BIND_NOW' 'profiler: all symbols are bound when it is loaded'
unlike "$(readelf -lW "$profiler" | grep GNU_STACK)" RWE 'profiler: no executable stack'

# --- the plugin

is "$(exported "$spank" | tr ' ' '\n' | grep -vE '^(plugin_(name|type|version)|spank_plugin_version|slurm_spank_[a-z_]+)$')" '' \
    'plugin: exports what SPANK looks for alone'
for symbol in plugin_name plugin_type plugin_version slurm_spank_init slurm_spank_task_init slurm_spank_task_exit; do
    like " $(exported "$spank") " " $symbol " "plugin: exports $symbol"
done
like "$(readelf -d "$spank")" 'BIND_NOW' 'plugin: what is missing is missed when it is loaded, not in a task'
is "$(nm -D --undefined-only "$spank" | grep -c ' _ZN\?K\?3mfu')" 0 'plugin: nothing of its own is missing'
unlike "$(needed "$spank")" 'libstdc|libgcc|boost|munge' "plugin: brings no library into slurmd ($(needed "$spank"))"
is "$(nm -D --undefined-only "$spank" | awk '{ print $2 }' | sed 's/@.*//' | grep -E '^slurm_' |
    grep -vE '^slurm_(error|info|verbose|debug|spank_log)$')" '' "plugin: takes slurmd's log functions alone"

# --- installed: every file where it belongs, and the set works there

root=$scratch/root
if output=$(make --no-print-directory B="$B" DESTDIR="$root" prefix=/opt/mfu install 2>&1); then
    ok 'make install DESTDIR='
else
    not_ok 'make install DESTDIR=' "$(tail -n 5 <<<"$output")"
fi
libraries=$root/opt/mfu/lib/slurm-mfu
for file in lib/slurm-mfu/{libmfu_profiler.so,spank_mfu.so,mfu-collector} bin/mfu-report; do
    ok "installed: $file" test -x "$root/opt/mfu/$file"
done
for page in man/*.[158]; do
    ok "installed: ${page##*/}" test -r "$root/opt/mfu/share/man/man${page##*.}/${page##*/}"
done
for file in README.md LICENSE examples/plugstack.conf; do
    ok "installed: $file" test -r "$root/opt/mfu/share/doc/slurm-mfu/$file"
done
is "$(find "$root" -type f ! -path "$root/opt/mfu/*")" '' 'installed: nothing outside of the prefix'
is "$(find "$root" -type f -perm /022)" '' 'installed: nothing that others may write to'
is "$(readelf -d "$libraries"/* "$root"/opt/mfu/bin/* 2>/dev/null | grep -E 'R(UN)?PATH' | grep -F "$PWD")" '' \
    'installed: no path of the build folder is searched'
like "$("$libraries/mfu-collector" --version)" '^mfu-collector [0-9.]+$' 'installed: the collector runs'
is "$(cd "$root/opt/mfu/share/doc/slurm-mfu/examples" && sed '/^#/d' plugstack.conf enroot.fstab mfu-live.service |
    grep -oE '/[^ =]+' | grep -v '^/var/' | sort -u | paste -sd' ')" \
    "$(echo /opt/mfu/{bin/mfu-live,lib/slurm-mfu,lib/slurm-mfu/spank_mfu.so})" 'installed: the examples name what is installed'

# --- configure names all that is missing, at once, with its package. A compiler that lacks headers stands for the machine.

missing_headers='slurm/spank.h munge.h tl/expected.hpp isa-l/igzip_lib.h zlib.h gtest/gtest.h cupti.h nvtx3/nvToolsExt.h'
mkdir -p "$scratch/configure" "$scratch/bin"
cp configure configure.ac config.mk.in install-packages "$scratch/configure"
mkdir "$scratch/configure/plugin" && cp plugin/spank_mfu.cc "$scratch/configure/plugin"
cat >"$scratch/bin/compiler" <<'END'
#!/bin/sh
for argument; do
    case $argument in *.cpp | *.cc | *.c)
        for header in $MISSING; do
            if grep -q "include *[<\"]$header[>\"]" "$argument"; then echo "$header: not there" >&2; exit 1; fi
        done ;;
    esac
done
exec ${REAL_COMPILER} "$@"
END
chmod +x "$scratch/bin/compiler"
output=$(cd "$scratch/configure" && MISSING=$missing_headers REAL_COMPILER=g++ ./configure CXX="$scratch/bin/compiler" 2>&1)
code=$?
ok 'configure fails when something is missing' test "$code" -ne 0
report=$(sed -n '/error: missing/,$p' <<<"$output")
while read -r header package; do
    like "$report" "$header: Debian package $package" "configure names $header with $package"
done <<'END'
slurm/spank.h libslurm-dev
munge.h libmunge-dev
tl/expected.hpp libexpected-dev
isa-l/igzip_lib.h libisal-dev
zlib.h zlib1g-dev
nvtx3/nvToolsExt.h cuda-nvtx
gtest/gtest.h libgtest-dev
cupti.h cuda-cupti-dev
END
is "$(grep -c 'Debian package' <<<"$report")" 8 'configure names nothing else'
ok 'configure writes no config.mk then' test ! -e "$scratch/configure/config.mk"
tests_done=yes
done_testing
