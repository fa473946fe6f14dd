#!/usr/bin/env bash
# mfu-analyze's page as a browser shows it: its script runs, the figures are the traces' answers, and names out of a trace
# stay texts.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck disable=SC2034 # lib.sh's functions
. tests/cluster/lib.sh
B=${B:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
browser=$(command -v chromium || command -v google-chrome)
if [[ -z $browser ]]; then
    skip "mfu-analyze's page in a browser" 'no chromium here'
    done_testing
fi

# show FILE...: what the page of these traces is in the end: $dom, its elements alone $shown; what its script complained of:
# $errors.
show() {
    "$B/mfu-analyze" -q --html "$scratch/page.html" "$@" || return
    dom=$(timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/browser" --enable-logging=stderr \
        --dump-dom "file://$scratch/page.html" 2>"$scratch/log")
    errors=$(grep -E 'CONSOLE.*(Error|Refused|Uncaught)' "$scratch/log")
    shown=$(sed -n '/<main/,/<script/p' <<<"$dom")
}

show tests/data/two-ranks/rank{0,1}.json
is "$errors" '' 'the script has no error'
expected=$(jq -r '[.[].devices[]] | (map(.span_ns) | add) as $all | def share(f): (1000 * (map(f) | add) / $all | round) / 10 |
    "\(floor).\((. * 10 | round) % 10)%"; [share(.compute_union_ns - .overlapped_comm_ns), share(.overlapped_comm_ns),
    share(.exposed_comm_ns), share(.memory_only_ns), share(.idle_ns)] | join(" ")' tests/data/two-ranks/expected.json)
is "$(grep -oE '<b>[0-9.]+%</b>' <<<"$shown" | tr -d '</b>' | paste -sd' ')" "$expected" \
    'all GPUs together: compute, both, communication, copies, idle'
is "$(grep -oE '<h2>[^<]*' <<<"$shown" | sed 's/<h2>//' | paste -sd,)" 'All GPUs together,By rank,Over time,Collectives,Kernels by time' \
    'the sections'
is "$(grep -o '<svg' <<<"$shown" | wc -l)" 2 "each rank's time has a picture"
like "$shown" '<div>rank 1</div><div class="bar">.*<div>4.000 ms</div>' 'each rank has its span'

cat >"$scratch/hostile.json" <<'END'
{"deviceProperties": [{"id": 0, "name": "<img src=x onerror=document.title=1>"}], "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "</script><script>document.title=1</script>", "ts": 0, "dur": 5, "pid": 0, "tid": 7,
   "args": {"device": 0, "stream": 7}}]}
END
show "$scratch/hostile.json"
is "$errors" '' 'a hostile name: the script has no error'
like "$shown" '&lt;/script&gt;&lt;script&gt;document.title=1&lt;/script&gt;' 'a hostile name: is a text'
unlike "$shown" '<img' 'a hostile name: is no element'
like "$dom" '<title>mfu-analyze</title>' 'a hostile name: the title stays'
done_testing
