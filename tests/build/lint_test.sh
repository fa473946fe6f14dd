#!/usr/bin/env bash
# The manual pages are mdoc without a fault, and every program has one that names all its options.
set -u
cd "$(dirname "$0")/../.." || exit 2
failed=0
ok() { echo "ok - $1"; }
not_ok() {
    echo "not ok - $1"
    sed 's/^/# /' <<<"$2"
    failed=1
}

for page in man/*.[1-8]; do
    if faults=$(mandoc -Tlint -W warning "$page" 2>&1); then ok "$page is clean mdoc"; else not_ok "$page is clean mdoc" "$faults"; fi
done

for page in man/*.1; do
    name=$(basename "$page" .1)
    program=${B:-build}/$name
    if [[ ! -x $program && $name =~ ^mfu-(peak|overlap)$ ]]; then
        echo "ok - $page names every option of --help # SKIP configure left $name out"
        continue
    fi
    [[ -x $program ]] || { not_ok "$page describes a program" "$program is not built"; continue; }
    missing=
    text=$(mandoc -Tascii -O width=200 "$page" | col -b)
    while read -r option; do
        [[ $text == *"--$option"* ]] || missing+="--$option "
    done < <("$program" --help | grep -oE -- '--[a-z][a-z-]+' | sed 's/^--//' | sort -u)
    if [[ -z $missing ]]; then ok "$page names every option of --help"; else not_ok "$page names every option of --help" "$missing"; fi
done
exit $failed
