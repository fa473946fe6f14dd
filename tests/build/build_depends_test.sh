#!/usr/bin/env bash
# What configure demands is in packages.txt, which make installs, and in the Debian package's Build-Depends.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=tests/cluster/lib.sh
. tests/cluster/lib.sh

# The second argument of every MFU_MISSING: packages, "and", remarks in parentheses. CUDA's are not Debian's; g++ is always there
# when a Debian package is built.
demanded=$(grep -oE 'MFU_MISSING\(\[[^]]*\], \[[^]]*\]' configure.ac | sed -E 's/.*\[//; s/\]$//; s/\([^)]*\)//g; s/ and |,/ /g' |
    tr -s ' ' '\n' | grep -vE '^$|^cuda-' | sort -u)
build_depends=$(sed -n '/^Build-Depends:/,/^[A-Z].*:/p' debian/control | sed 's/^Build-Depends://; /^[A-Z]/d; s/([^)]*)//; s/[ ,]//g')
ok 'configure demands packages' test "$(wc -l <<<"$demanded")" -gt 15
is "$(grep -vxF "$(<packages.txt)" <<<"$demanded")" '' 'packages.txt has all that configure demands'
is "$(grep -vxF "$build_depends" <<<"$demanded" | grep -vx 'g++')" '' 'Build-Depends of debian/control has all that configure demands'
done_testing
