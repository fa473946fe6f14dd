#!/usr/bin/env bash
# mfu-report against a real slurmdbd: which jobs it finds, and what it says of their lines.
# environment: B, the build folder (default: build)
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath -e "$here/../../${B:-build}" 2>/dev/null || realpath -e "${B:-build}") || exit 2
# shellcheck source=tests/cluster/lib.sh
. "$here/lib.sh"
cluster_up
# Ordinary users run it too, and a checkout may be closed to them.
report=$MFU_CLUSTER_DIR/mfu-report
cp "$build/mfu-report" "$report"

# 8 H100 for 22 s at 51.9 %, and the same without declared FLOPs.
line='mfu/1 mfu=51.9% hfu=n/a(no-counts) basis=model gpus=8xH100-SXM peak=989.4(bf16) compute=78.2% comm=12.1%+9.3%'
line+=' mem=0.2% idle=9.5% steps=20 step=1.10s cover=100.0%/99.8% s=0 sum=opvj41gmps0,1bmlhqzz0yyo,28uput4w,28uput4w,'
line+='28uput4w,28uput4o,1r86jev4,9s736rk,7ip31mo,5tkkxs,5tkkxs,k,a3u8cn4,,,,,,,,,,,,,,,,,,,,,,,,.'
plain='mfu/1 mfu=n/a(no-flops) hfu=n/a(no-counts) gpus=8xH100-SXM peak=n/a compute=n/a(denied) comm=n/a mem=n/a idle=n/a'
# Findings of placement, behind the line.
findings='mfu-place/1 high nic-down {n3 mlx5_2}{port 1 is %22DOWN%22}{ibstat} warning gpu-order {n1}{n2}+{seen}{mend} + .'
plain+=' cover=0.0%/0.0% s=0 sum=,,,28uput4w,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,.'
# A GPU for 0.4 s: 0.2 s of training steps, 0.1 s of a checkpoint, 0.06 s before and 0.04 s behind them, at 600 W; of a
# job's first run, and of its second.
run0='mfu/1 mfu=n/a(no-flops) gpus=1xH100-SXM compute=75.0% goodput=50.0%(checkpoint) power=600W clock=1755/1980(power)'
run0+=' s=0 sum=,,,6m5dz4,6m5dz4,,4ym1hc,,,,,,,,,,,,,,,6o,b4,ji,b4,,,1c,c,b4,5k,1o,,2s,,,14.'
run1=${run0/ s=0/ run=1 s=0}
run1=${run1/5k,1o,,/5k,,1o,}

# Jobs live until their start is in the database: the controller sends it within 5 s, and of a job that has ended before,
# slurmdbd knows neither name nor nodes.
hold="until [ -e $MFU_CLUSTER_DIR/home/go.\${SLURM_ARRAY_JOB_ID:-\$SLURM_JOB_ID} ]; do sleep 0.1; done"
in_database() { [[ $(sacct -X -n -P -s RUNNING -j "$1" -o AllocNodes,JobName | grep -vc '^0') == "$2" ]]; }
# started JOB [TASKS]
started() { wait_until 60 in_database "$1" "${2:-1}" || not_ok "job $1 is in the database"; }
# finish JOB: lets it end.
finish() {
    touch "$MFU_CLUSTER_DIR/home/go.$1"
    wait_job "$1"
}

two=$(submit -N2 --gres=gpu:2 --job-name=train --wrap "$hold")
alices=$(submit_as alice -o /dev/null --gres=gpu:4 --job-name='ein-Name|mit-vielen-Zeichen' --wrap "$hold")
array=$(submit --gres=gpu:1 --array=1-2 --job-name=arr --wrap "$hold")
requeued=$(submit --gres=gpu:1 --requeue --wrap "$hold")
for job in "$two" "$alices" "$requeued"; do started "$job"; done
started "$array" 2
scontrol update "jobid=$two" admincomment="note $line $findings end" comment="$plain"
scontrol update "jobid=$alices" admincomment="$plain"
scontrol update "jobid=$requeued" admincomment="${line:0:-5}"
sleep 1.1 # of whole seconds, which Slurm counts, there is one
for job in "$two" "$alices" "$array"; do finish "$job"; done
scontrol requeue "$requeued"
wait_until 60 job_state_is "$requeued" PENDING && scancel "$requeued"
wait_job "$requeued"
for job in "$two" "$alices" "${array}_1" "${array}_2" "$requeued"; do sacct_field "$job" JobID >/dev/null; done

# column NAME JOB [OPTION...]
column() {
    "$report" -P -j "$2" "${@:3}" | awk -F'|' -v name="$1" 'NR==1{for(i=1;i<=NF;i++)if($i==name)c=i;next}{print $c}'
}

is "$(column MFU "$two")" 51.9% 'the MFU of a line with text around it'
is "$(column GPUS "$two")/$(column NODES "$two")" 4/2 'allocated GPUs and nodes'
is "$(column COMM "$two") $(column IDLE "$two") $(column COVER "$two")" '12.1%+9.3% 9.5% 100.0%/99.8%' 'the other figures'
is "$(column MFU "$two" --field comment) $(column WHY "$two" --field comment)" '- no-flops; time: denied' 'another field, and why'
is "$(column NAME "$alices")" 'ein-Name?mit-vielen-Zeichen' 'a delimiter in a name does no harm'
is "$("$report" -n -P -j "${array}_2" | cut -d'|' -f1)" "${array}_2" 'one array task'
is "$("$report" -n -P -j "$array" | cut -d'|' -f1 | paste -sd' ')" "${array}_1 ${array}_2" 'all array tasks, in order'
is "$("$report" -n -P -j "${array}_[1-2]" | wc -l)" 2 'array tasks in brackets'
is "$(column WHY "${array}_1")" 'no line' 'a job without a line'
is "$("$report" -n -P -j "$requeued" | wc -l)" 1 'the last run of a requeued job'
is "$("$report" -n -P -D -j "$requeued" | wc -l)" 2 'with --duplicates all runs'
like "$(column WHY "$requeued" -D | head -n 1)" '^broken line: byte [0-9]+: sum= must be [0-9]+ numbers' 'a line that was cut off'

is "$("$report" -n -P | wc -l)" 5 "root sees everybody's jobs of today"
is "$(as_user alice "$report" -n -P | cut -d'|' -f3 | sort -u)" alice 'others see their own'
is "$(as_user alice "$report" -n -P -a | wc -l)" 5 'unless they say --all-users'
is "$("$report" -n -P -u alice,bob | cut -d'|' -f1)" "$alices" '--user'
is "$("$report" -n -P -u root -u alice | wc -l)" 5 '--user twice'
is "$("$report" -n -P -A ml -s COMPLETED | cut -d'|' -f1)" "$alices" '--account and --state'
is "$("$report" -n -P -r gpu -S now-2hours -E now+1minute | wc -l)" 5 '--partition and times as sacct has them'
is "$("$report" -n -P -s CA | cut -d'|' -f1)" "$requeued" 'short state names'

# code COMMAND...: exit code and first line of standard error.
code() {
    local error
    error=$("$@" 2>&1 >/dev/null)
    echo "$? ${error%%$'\n'*}"
}
like "$(code "$report" -S 2001-01-01 -E 2001-01-02)" '^1 mfu-report: no job fits' 'no job'
like "$(code "$report" -s BOGUS)" "^2 mfu-report: there is no job state 'BOGUS'" 'an unknown state'
like "$(code "$report" -u nobodyhere)" "^2 mfu-report: there is no user 'nobodyhere'" 'an unknown user'
like "$(code "$report" -S yesterdayish)" '^2 ' 'a time that is none'
like "$(code "$report" -j 1x)" "^2 mfu-report: --jobs: '1x' names no jobs" 'a job that is none'
like "$(code "$report" --nonsense)" '^2 mfu-report: unrecognised option' 'an unknown option'
like "$(code "$report" --help)" '^0 ' '--help'
like "$("$report" --version)" '^mfu-report [0-9]' '--version'

json=$("$report" --json)
query() { jq -r "$1" <<<"$json"; }
is "$(query '[.format, (.jobs | length), .totals.jobs_with_mfu] | join(" ")')" 'mfu-report/1 5 1' 'JSON: jobs and totals'
is "$(query '.jobs[0] | "\(.mfu) \(.sums.elapsed_ns)"')" '0.519 176000000000' 'JSON: exact sums'
is "$(query '.jobs[0].line')" "$line" 'JSON: the line as it stands'
is "$(query '.jobs[1] | "\(.mfu) \(.mfu_reason) \(.time_reason)"')" 'null no-flops denied' 'JSON: reasons'

# --- findings of placement
is "$("$report" --placement -j "$two,$alices,$array")" "$two: not known whether all is well (train, root)
  high nic-down: n3 mlx5_2: port 1 is \"DOWN\"
    -> ibstat
  warning gpu-order: n1, n2, ...: seen
    -> mend
  and more, which had no room

4 jobs: 1 with findings, 0 audited without any, 2 no line, 1 not audited" '--placement'
is "$("$report" --placement -P -n -j "$two" | head -n 1)" "$two|-|high|nic-down|n3 mlx5_2|port 1 is \"DOWN\"|ibstat" \
    '--placement as a table'
is "$(query '.jobs[0] | "\(.findings | length) \(.findings[0].place) \(.findings_left_out) \(.findings_reason)"')" \
    '2 n3 mlx5_2 true null' 'JSON: findings'
is "$(query '.jobs[1] | "\(.findings) \(.findings_left_out) \(.findings_reason)"')" 'null null not audited' \
    'JSON: why there are none'
is "$("$report" --placement --json -j "$two" | jq -c '.jobs[0].findings')" "$(query '.jobs[0].findings' | jq -c .)" \
    '--placement --json'
for wrong in --goodput --format=jobid --helpformat; do
    like "$(code "$report" --placement "$wrong")" '^2 mfu-report: --placement goes with neither' "--placement with $wrong"
done
like "$(code "$report" --placement --by user)" '^2 mfu-report: --placement goes with neither' '--placement with --by'

# columns that are chosen
is "$("$report" -j "$two" -P -o jobid,Mfu,name%2,gpu,peak | paste -sd' ')" \
    "JOBID|MFU|NAME|GPU|PEAK $two|51.9%|train|H100-SXM|989.4(bf16)" '--format'
is "$("$report" -j "$two" -n -o name%3,steps)" 'tr+  20' '--format with a width'
like "$("$report" --helpformat)" $'(^|\n)MFU +model FLOPs utilisation\n' '--helpformat'
like "$("$report" --goodput -e)" $'(^|\n)RESTART ' '--helpformat of --goodput'
like "$(code "$report" -o mfu,foo)" "^2 mfu-report: --format: there is no column 'foo'; those that there are: JOBID NAME " \
    'an unknown column'
like "$(code "$report" -o mfu --json)" '^2 mfu-report: --format is for tables' '--format with --json'
like "$(code "$report" --by host)" "^2 mfu-report: --by: 'host' is none of user account " 'an unknown group'
like "$(code "$report" --by user --sort day)" '^2 mfu-report: the column day needs day in --by' 'a column of another group'
like "$(code "$report" --sort mfu)" '^2 mfu-report: --sort is for --by' '--sort without --by'
like "$(code "$report" --csv --json)" '^2 mfu-report: --csv goes with neither' '--csv with --json'
like "$(code "$report" --html "$MFU_CLUSTER_DIR/x" --goodput)" '^2 mfu-report: --html and --prometheus take the place' '--html with --goodput'
like "$(code "$report" --prometheus "$MFU_CLUSTER_DIR/x.prom" --by day)" '^2 mfu-report: --prometheus keeps no past' '--prometheus by day'
like "$(code "$report" --prometheus "$MFU_CLUSTER_DIR/x.txt")" "^2 mfu-report: --prometheus: '.*/x\.txt' does not end in \.prom: node_exporter would not see it" 'a file that node_exporter ignores'

# --- goodput of a job of two runs
markup='</td><script>document.title=1</script>'
job=$(submit --gres=gpu:1 --requeue --job-name="$markup" --wrap "$hold")
started "$job"
scontrol update "jobid=$job" admincomment="$run0"
is "$(column POWER "$job") $(column GOODPUT "$job")" '600W 50.0%' "the line of a job that still runs is the controller's"
sleep 1.1 # of whole seconds, which Slurm counts, there is one
scontrol requeue "$job"
wait_until 150 job_state_is "$job" RUNNING || diagnose "the requeued job did not run: $(squeue -j "$job")"
started "$job"
scontrol update "jobid=$job" admincomment="$run1"
sleep 1.1 # as above
finish "$job"
sacct_field "$job" State 60 COMPLETED >/dev/null
seconds=$(($(sacct -D -X -n -P -j "$job" -o ElapsedRaw | paste -sd+)))
goodput=$("$report" --goodput --json -j "$job")
part() { jq -r "$1" <<<"$goodput"; }
is "$(part '[.format, (.jobs | length), .jobs[0].runs, .jobs[0].runs_with_line] | join(" ")')" 'mfu-report-goodput/1 1 2 2' \
    'goodput: a job with two runs'
is "$(part '.jobs[0].allocated_gpu_seconds')" "$seconds" 'goodput: GPU time of both'
is "$(part '.jobs[0].goodput.parts | [.productive_ns, .start_up_ns, .restart_ns, .writing_ns, .tail_ns] | join(" ")')" \
    '400000000 60000000 60000000 200000000 80000000' 'goodput: parts of both runs'
is "$(part '.jobs[0].goodput.parts.outside_ns')" "$((seconds * 1000000000 - 800000000))" 'goodput: time outside of job steps'
is "$(part '.jobs[0].goodput.largest_loss')" outside 'goodput: the largest loss'
like "$(part '.jobs[0].queued_seconds')" '^[1-9][0-9]*$' 'goodput: the queue between the runs'
like "$("$report" --goodput -j "$job" -P -n -o jobid,runs,io,losses)" \
    "^$job\|2\|0.12\+0.03GB/s\|outside,checkpoint,tail,start-up,restart$" 'goodput: the table'
is "$("$report" --goodput -s CD -n -P -o name | LC_ALL=C sort | paste -sd' ')" "$markup arr arr ein-Name?mit-vielen-Zeichen train" \
    'goodput: states are those of the last run'

# --- groups
is "$("$report" --by user --sort user -P -n -o user,jobs,runs,mfu,basis | paste -sd' ')" \
    'alice|1|1|-|- root|5|6|51.9%|model' '--by user: jobs and runs, and the MFU of those that have one'
is "$("$report" --by cluster,partition -P -n -o cluster,partition | paste -sd' ')" \
    "$(scontrol show config | awk '/^ClusterName/ { print $3 }')|gpu" '--by cluster,partition'
is "$("$report" --by day --json | jq -r '[.format, .groups[].day] | join(" ")')" "mfu-report-groups/1 $(date +%Y-%m-%d)" '--by day as JSON'
is "$("$report" --by day --json | jq -r '.totals.gpu_hours * 3600 | round')" \
    "$("$report" -D --json | jq -r '.totals.gpu_seconds')" '--by: GPU time is that of all runs'
is "$("$report" --by gpu --csv -o gpu,jobs,mfu | tr -d '\r' | paste -sd' ')" 'gpu,jobs,mfu H100-SXM,3,0.519 ,3,' '--by gpu --csv'
is "$("$report" --csv -n -j "$alices" -o user,name)" $'alice,ein-Name?mit-vielen-Zeichen\r' '--csv of jobs'
like "$("$report" --by user --helpformat)" $'(^|\n)WASTED +GPU-hours known to be idle' '--helpformat of --by'

# --- files
page=$MFU_CLUSTER_DIR/page.html
metrics=$MFU_CLUSTER_DIR/mfu.prom
is "$("$report" --html "$page" --prometheus "$metrics" 2>&1)" '' '--html and --prometheus: nothing is printed'
is "$(stat -c %a "$page" "$metrics" | paste -sd' ')" '644 644' 'the files can be read by others'
like "$(code "$report" --html "$MFU_CLUSTER_DIR/none/page.html")" '^1 mfu-report: .*/none/page\.html: cannot write beside it: No such file or directory' 'a file that cannot be written'
like "$(<"$metrics")" $'\nmfu_report_mfu_ratio\\{user="root",account="[a-z]*",partition="gpu",basis="model"\\} 0.519\n' '--prometheus: MFU'
if command -v promtool >/dev/null; then
    ok '--prometheus: promtool takes it' promtool check metrics <"$metrics"
else
    skip '--prometheus: promtool takes it' 'no promtool here: install the package prometheus'
fi
browser=$(command -v chromium || command -v google-chrome)
if [[ -n $browser ]]; then
    # What a browser makes of it: a job's name stays a text, and nothing runs.
    dom=$(timeout 180 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$MFU_CLUSTER_DIR/browser" \
        --dump-dom "file://$page" 2>/dev/null)
    like "$dom" '<title>mfu-report</title>' 'the page: no script of a job'"'s name ran"
    like "$dom" '<td class="left">&lt;/td&gt;&lt;script&gt;document.title=1&lt;/script&gt;' "the page: a job's name is a text"
    is "$(grep -c '<script' <<<"$dom")" 0 'the page: no script'
    like "$dom" '<b>51.9%</b><span>MFU \(model\)</span><span>of [0-9.]+% of the GPU-hours' 'the page: MFU, its basis and its share'
    like "$dom" '<h2>By account</h2>' 'the page: groups'
else
    skip 'the page in a browser' 'no chromium here'
fi

"$mfu_cluster" kill "$MFU_CLUSTER_DIR" slurmdbd
error=$("$report" 2>&1 >/dev/null)
is "$?" 1 'without slurmdbd the exit code is 1'
like "$error" 'mfu-report: slurmdbd gives no jobs: Connection refused' 'and the message says so'
done_testing
