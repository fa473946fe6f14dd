#!/usr/bin/env bash
# What lies in examples/ works as it stands, on a private cluster; demo_test.sh has the demo, plugstack.conf and the recipes.
# Without Prometheus (promtool) its parts are skipped, without torch that of train.py.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"
examples=$(realpath examples)
mfu_up update=10
cp "$build/mfu-live" "$build/mfu-report" "$product"
export PATH=$product:$PATH
background=()
end_background() { ((${#background[@]} == 0)) || kill "${background[@]}" 2>/dev/null; background=(); }
trap 'end_background; cluster_down' EXIT

# --- a training job, its metrics, and a Prometheus that reads them while all else is tested

job=$(submit_as alice -N2 -n4 --gpus-per-task=1 --mfu-profile --wrap 'srun train --ranks 4 --steps 100000 --gemms')
site=$MFU_CLUSTER_DIR/site
mkdir "$site"
wait_until 60 test -d "$spool"
mfu-live --spool "$spool" --interval 1 --prometheus "$site/live.prom" 2>"$site/err" &
background+=($!)
query() { # EXPRESSION: how many series Prometheus has of it, or the error
    python3 - "$prometheus" "$1" <<'END'
import json, sys, urllib.error, urllib.parse, urllib.request
try:
    answer = urllib.request.urlopen(sys.argv[1] + "/api/v1/query?" + urllib.parse.urlencode({"query": sys.argv[2]}), timeout=10)
    print(len(json.load(answer)["data"]["result"]))
except (urllib.error.URLError, OSError) as error:
    print(error, error.read().decode() if hasattr(error, "read") else "")
END
}
has_series() { [[ $(query "$1") =~ ^[1-9] ]]; }
if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
    # In node_exporter's place: the textfile, and adapters' counters that rise.
    (
        for ((i = 0; ; i += 1000000)); do
            {
                cat "$site/live.prom" "$site/report.prom"
                for metric in port_data_received_bytes port_data_transmitted_bytes link_downed; do
                    printf 'node_infiniband_%s_total{device="mlx5_0",port="1"} %d\n' $metric $i
                done
            } >"$site/part" 2>/dev/null && mv "$site/part" "$site/metrics"
            sleep 0.5
        done
    ) &
    background+=($!)
    # Ports are the kernel's choice.
    python3 - "$site" <<'END' &
import functools, http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {"": "text/plain; version=0.0.4"} # Prometheus 3 takes nothing without a type
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
open(sys.argv[1] + "/port.new", "w").write(str(server.server_port))
__import__("os").rename(sys.argv[1] + "/port.new", sys.argv[1] + "/port")
server.serve_forever()
END
    background+=($!)
    wait_until 60 test -s "$site/port"
    cp "$examples"/mfu-alerts.yml "$site"
    # The file as it stands, but for the target, and quicker.
    sed "s/localhost:9100.*/127.0.0.1:$(<"$site/port")]/; s/interval: .*/interval: 1s/; /^alerting/,/9093/d" "$examples/prometheus.yml" >"$site/prometheus.yml"
    prometheus_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    prometheus --config.file="$site/prometheus.yml" --storage.tsdb.path="$site/data" --web.listen-address="127.0.0.1:$prometheus_port" \
        >"$site/prometheus.log" 2>&1 &
    background+=($!)
    ok 'prometheus.yml and mfu-alerts.yml are sound' promtool check config "$examples/prometheus.yml"
    prometheus=http://127.0.0.1:$prometheus_port
    # Else every expression would wait for it.
    if wait_until 60 has_series 'vector(1)'; then
        ok 'Prometheus answers'
    else
        not_ok 'Prometheus answers' "$(tail -n 20 "$site/prometheus.log")"
        done_testing
    fi
else
    prometheus=
    skip 'prometheus.yml, mfu-alerts.yml, dashboards' 'no promtool and prometheus here: install the package prometheus'
fi

# --- the PyTorch job: its script is taken by Slurm, its program runs

# Its 8 CPUs a task are more than a node has here.
out=$(as_user alice sbatch --test-only --cpus-per-task=1 "$examples/train-pytorch.sbatch" 2>&1)
like "$out" '^sbatch: Job [0-9]+ to start at ' 'train-pytorch.sbatch: Slurm takes it'
ok 'train.py: python takes it' python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$examples/train.py"
# Debian's torch belongs to Debian's python, which need not be the first one.
python=$(for python in python3 /usr/bin/python3; do "$python" -c 'import torch' 2>/dev/null && echo "$python" && break; done)
if [[ -n $python ]]; then
    out=$("$python" "$examples/train.py" --steps 2 --seq 16)
    like "$out" '^2 steps of [0-9.]+ s, loss [0-9.]+'$'\n''--mfu-profile=flops-per-step=[0-9]+,precision=bf16$' 'train.py trains'
    flops=$(grep -o -- '--mfu-profile=.*' <<<"$out")
    is "$(srun -n1 --gpus=1 --mfu-placement=off "$flops" true 2>&1)" '' 'train.py: what it says is an option'
else
    skip 'train.py trains' 'no torch here: install the package python3-torch'
fi

# --- enroot.fstab: the plugin's folder and the spool, as plugstack.conf has them

folder=$(sed -nE 's#^optional +(/[^ ]*)/spank_mfu\.so.*#\1#p' "$examples/plugstack.conf")
default_spool=$(sed -nE 's#^\# +spool=([^ ]+).*#\1#p' "$examples/plugstack.conf")
is "$(grep -v '^#' "$examples/enroot.fstab" | awk '{ print $1, $2, $3 }')" "$folder $folder none
$default_spool $default_spool none" 'enroot.fstab mounts what plugstack.conf names, under the same paths'
is "$(grep -v '^#' "$examples/enroot.fstab" | grep -c "^$default_spool .*[,=]rw,")" 1 'enroot.fstab: the spool is writable'

# --- mfu-live.service

if command -v systemd-analyze >/dev/null; then
    sed "s#/usr/local/bin/mfu-live#$product/mfu-live#" "$examples/mfu-live.service" >"$site/mfu-live.service"
    ok 'mfu-live.service is sound' systemd-analyze verify "$site/mfu-live.service"
else
    skip 'mfu-live.service is sound' 'no systemd-analyze here'
fi
words=$(sed -n 's/^ExecStart=[^ ]* //p' "$examples/mfu-live.service")
# shellcheck disable=SC2086 # words
mfu-live ${words/\/var\/lib\/node_exporter/$site} --spool "$spool" 2>"$site/service.err" &
background+=($!)
ok 'mfu-live.service: its arguments are right' wait_until 60 grep -q "jobid=\"$job\"" "$site/mfu.prom"
is "$(cat "$site/service.err")" '' 'mfu-live.service: no complaint'

# --- topology-audit.sh, on a fabric of one leaf that all four nodes are on

{
    printf 'vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa1\nswitchguid=0xa1(a1)\nSwitch\t65 "S-00000000000000a1"\t\t# "MF0;LEAF-1:MQM9701/U1" enhanced port 0 lid 1 lmc 0\n'
    for i in 1 2 3 4; do printf '[%d]\t"H-00000000000000b%d"[1](b%d) \t\t# "n%d mlx5_0" lid 1%d 4xNDR\n' $i $i $i $i $i; done
    for i in 1 2 3 4; do
        printf '\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0xb%d\ncaguid=0xb%d\nCa\t1 "H-00000000000000b%d"\t\t# "n%d mlx5_0"\n' $i $i $i $i
        printf '[1](b%d) \t"S-00000000000000a1"[%d]\t\t# lid 1%d lmc 0 "MF0;LEAF-1:MQM9701/U1" lid 1 4xNDR\n' $i $i $i
    done
} >"$site/discovered"
mkdir "$site/audit"
cp "$site/discovered" "$site/audit/fabric"
printf 'SwitchName=LEAF-1 Nodes=n[1-4]\n' >"$site/topology.conf"
out=$("$examples/topology-audit.sh" "$site/audit" "$site/topology.conf" 2>"$site/audit.err")
code=$?
diagnose "$out"$'\n'"$(cat "$site/audit.err" "$site/audit/nodes.txt")"
ok "topology-audit.sh ends with 0 or 1, not $code" test "$code" -le 1
is "$(cat "$site/audit.err")" '' 'topology-audit.sh: no complaint'
is "$(jq -r '.findings | type' "$site/audit/fabric.json")" array 'topology-audit.sh: the findings of the fabric'
is "$(grep -oE '^n[0-9]+:' "$site/audit/nodes.txt" | sort -u | paste -sd' ')" 'n1: n2: n3: n4:' 'topology-audit.sh: every node has looked at itself'
is "$(cat "$site/audit/topology.txt")" '' 'topology-audit.sh: topology.conf is as the fabric'
printf 'SwitchName=LEAF-1 Nodes=n[1-3]\nSwitchName=LEAF-2 Nodes=n4\n' >"$site/topology.conf"
"$examples/topology-audit.sh" "$site/audit" "$site/topology.conf" >/dev/null 2>&1
is "$? $(grep -c n4 "$site/audit/topology.txt")" '1 1' 'topology-audit.sh: a difference is found'
# What each part's exit status makes of the whole one.
mkdir "$site/stub"
# shellcheck disable=SC2016 # for the stub
printf '#!/bin/sh\n%s\n' 'case "$*" in $STUB_SEES) echo finding; exit "$STUB_CODE" ;; esac' >"$site/stub/mfu-topo"
chmod 755 "$site/stub/mfu-topo"
while read -r sees code whole what; do
    PATH=$site/stub:$PATH STUB_SEES=$sees STUB_CODE=$code "$examples/topology-audit.sh" "$site/audit" "$site/topology.conf" >/dev/null 2>&1
    is "$?" "$whole" "topology-audit.sh: $what"
done <<'END'
nothing 1 0 nothing is found
*--json 2 1 something of high severity in the fabric
*--json 3 2 the fabric cannot be looked at
audit 2 1 something of high severity on the nodes
audit 3 2 nodes cannot be looked at
diff* 1 1 a difference
*--job* 1 1 a warning about a job
*--job* 3 2 a job cannot be looked at
END
SLURM_RESERVATION=nobodys PATH=$site/stub:$PATH STUB_SEES='' "$examples/topology-audit.sh" "$site/audit" >/dev/null 2>&1
is "$?" 2 'topology-audit.sh: no allocation is no finding'
like "$(cat "$site/audit/nodes.txt")" 'srun: error: .*reservation' 'topology-audit.sh: and nodes.txt says why'

# --- a job of the cluster's dashboard leads to its own

is "$(jq -r '.panels[].fieldConfig.overrides[].properties[] | select(.id == "links").value[].url' "$examples/grafana-cluster.json" | cut -d= -f1)" \
    "$(jq -r '"/d/\(.uid)?var-\(.templating.list[] | select(.name == "jobid").name)"' "$examples/grafana-job.json")" 'grafana-cluster.json leads to grafana-job.json'

# --- the alerts: each fires where it should, and only there

if [[ -n $prometheus ]]; then
    cat >"$site/alerts_test.yml" <<'END'
rule_files: [mfu-alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: # a second of GPU time a second; job 1 idles, job 2 communicates, job 3 trains, job 4 is not observed,
                  # job 5 has a GPU that works and seven that it does not open, job 6 opens none
      - {series: 'mfu_step_attributed_gpu_seconds_total{jobid="1"}', values: '0+60x120'}
      - {series: 'mfu_gpu_compute_seconds_total{jobid="1"}', values: '0+1x120'}
      - {series: 'mfu_gpu_communication_exposed_seconds_total{jobid="1"}', values: '0+1x120'}
      - {series: 'mfu_gpu_memory_exposed_seconds_total{jobid="1"}', values: '0x120'}
      - {series: 'mfu_step_attributed_gpu_seconds_total{jobid="2"}', values: '0+60x120'}
      - {series: 'mfu_gpu_compute_seconds_total{jobid="2"}', values: '0+30x120'}
      - {series: 'mfu_gpu_communication_exposed_seconds_total{jobid="2"}', values: '0+27x120'}
      - {series: 'mfu_gpu_memory_exposed_seconds_total{jobid="2"}', values: '0x120'}
      - {series: 'mfu_step_attributed_gpu_seconds_total{jobid="3"}', values: '0+60x120'}
      - {series: 'mfu_gpu_compute_seconds_total{jobid="3"}', values: '0+50x120'}
      - {series: 'mfu_gpu_communication_exposed_seconds_total{jobid="3"}', values: '0+5x120'}
      - {series: 'mfu_gpu_memory_exposed_seconds_total{jobid="3"}', values: '0x120'}
      - {series: 'mfu_step_attributed_gpu_seconds_total{jobid="4"}', values: '0x120'}
      - {series: 'mfu_gpu_compute_seconds_total{jobid="4"}', values: '0x120'}
      - {series: 'mfu_step_attributed_gpu_seconds_total{jobid="5"}', values: '0+480x120'}
      - {series: 'mfu_gpu_compute_seconds_total{jobid="5"}', values: '0+20x120'}
      - {series: 'mfu_gpu_communication_exposed_seconds_total{jobid="5"}', values: '0x120'}
      - {series: 'mfu_gpu_memory_exposed_seconds_total{jobid="5"}', values: '0x120'}
      - {series: 'mfu_step_gpus{jobid="5",step="0"}', values: '8x120'}
      - {series: 'mfu_gpu_processes{jobid="5",step="0",uuid="f"}', values: '1x120'}
      - {series: 'mfu_step_gpus{jobid="6",step="0"}', values: '4x120'}
      - {series: 'mfu_step_gpus{jobid="3",step="0"}', values: '8x120'}
      - {series: 'mfu_gpu_processes{jobid="3",step="0",uuid="a"}', values: '1x120'}
      - {series: 'mfu_step_peak_flops{jobid="3",step="0"}', values: '100x120'}
      - {series: 'mfu_step_model_flops_total{jobid="3",step="0",basis="gemm"}', values: '0+2400x120'}
      - {series: 'mfu_step_model_flops_gpu_seconds_total{jobid="3",step="0",basis="gemm"}', values: '0+480x120'}
      - {series: 'mfu_gpu_clock_hertz{jobid="3",uuid="a"}', values: '1700x120'}
      - {series: 'mfu_gpu_clock_hertz{jobid="3",uuid="b"}', values: '1710x120'}
      - {series: 'mfu_gpu_clock_hertz{jobid="3",uuid="c"}', values: '1720x120'}
      - {series: 'mfu_gpu_clock_hertz{jobid="3",uuid="d"}', values: '1200x120'}
      - {series: 'mfu_gpu_clock_reason_seconds_total{jobid="3",uuid="d",reason="thermal"}', values: '0+30x120'}
      - {series: 'mfu_gpu_clock_reason_seconds_total{jobid="3",uuid="a",reason="power"}', values: '0+60x120'}
      - {series: 'mfu_gpu_temperature_celsius{jobid="3",uuid="d"}', values: '92x120'}
      - {series: 'mfu_gpu_temperature_celsius{jobid="3",uuid="a"}', values: '70x120'}
      - {series: 'mfu_gpu_state_info{jobid="3",uuid="a",state="ok"}', values: '1x120'}
      - {series: 'mfu_gpu_state_info{jobid="2",uuid="e",state="silent"}', values: '1x120'}
      - {series: 'mfu_live_reading_time_seconds{instance="n1"}', values: '0x120'}
      - {series: 'mfu_live_reading_time_seconds{instance="n2"}', values: '0+60x120'}
      - {series: 'node_infiniband_link_downed_total{instance="n1",device="mlx5_0",port="1"}', values: '0x60 1x60'}
      - {series: 'node_infiniband_link_downed_total{instance="n2",device="mlx5_0",port="1"}', values: '3x120'}
    promql_expr_test:
      - expr: jobid:mfu:ratio_rate5m
        eval_time: 60m
        exp_samples: [{labels: 'jobid:mfu:ratio_rate5m{jobid="3"}', value: 0.05}]
      - expr: count by (alertname, jobid, uuid, instance) (ALERTS{alertstate="firing"})
        eval_time: 110m
        exp_samples:
          - {labels: '{alertname="MfuGpusIdle",jobid="1"}', value: 1}
          - {labels: '{alertname="MfuGpusIdle",jobid="5"}', value: 1}
          - {labels: '{alertname="MfuGpusUntouched",jobid="6"}', value: 1}
          - {labels: '{alertname="MfuCommunicationExposed",jobid="2"}', value: 1}
          - {labels: '{alertname="MfuGpuSilent",jobid="2",uuid="e"}', value: 1}
          - {labels: '{alertname="MfuLow",jobid="3"}', value: 1}
          - {labels: '{alertname="MfuGpuSlower",jobid="3",uuid="d"}', value: 1}
          - {labels: '{alertname="MfuGpuThrottled",jobid="3",uuid="d"}', value: 1}
          - {labels: '{alertname="MfuGpuHot",jobid="3",uuid="d"}', value: 1}
          - {labels: '{alertname="MfuLiveStopped",instance="n1"}', value: 1}
      - expr: count by (alertname, instance) (ALERTS{alertname="MfuInfinibandLinkDown",alertstate="firing"})
        eval_time: 65m
        exp_samples: [{labels: '{alertname="MfuInfinibandLinkDown",instance="n1"}', value: 1}]
END
    ok 'mfu-alerts.yml: every alert fires where it should, and nowhere else' promtool test rules "$site/alerts_test.yml"

    # --- the dashboards: every expression has series of the job that runs

    # shellcheck disable=SC2317 # wait_until calls it
    # Of a job that runs, accounting has the line that the controller has.
    report() {
        mfu-report --all-users --prometheus "$site/report.prom" 2>/dev/null && grep -q '^mfu_report_mfu_ratio' "$site/report.prom"
    }
    ok "mfu-report: the job's MFU" wait_until 60 report
    ok 'Prometheus has the job' wait_until 60 has_series "rate(mfu_step_model_flops_total{jobid=\"$job\"}[8s]) > 0"
    ok 'and of accounting' wait_until 60 has_series mfu_report_mfu_ratio
    ok 'and its power' wait_until 60 has_series "mfu_gpu_power_watts{jobid=\"$job\"}"
    expressions=0
    for dashboard in "$examples"/grafana-*.json; do
        name=$(basename "$dashboard")
        is "$(jq -r '[.panels[] | select((.title and .description and .fieldConfig.defaults.unit and (.targets | length > 0)) | not) | .id] | length' "$dashboard")" 0 \
            "$name: every panel has title, description and unit"
        is "$(jq -r '[.panels[].id] | length == (unique | length)' "$dashboard")" true "$name: panels have ids of their own"
        wrong=
        while IFS= read -r expression; do
            ((++expressions))
            # What Grafana puts in.
            asked=${expression//\$__rate_interval/8s}
            asked=${asked//\$jobid/$job}
            # Clocks that are held back and alerts that fire may be none.
            [[ $asked != *ALERTS* && $asked != *clock_reason* ]] || asked="($asked) or vector(1)"
            wait_until 60 has_series "$asked" || wrong+=$'\n'"$(query "$asked"): $asked"
        done < <(jq -r '.panels[].targets[].expr' "$dashboard")
        is "$wrong" '' "$name: every expression has series"
    done
    ok "dashboards: $expressions expressions" test "$expressions" -gt 20
    # Of the running cluster and of a job.
    shown=$(jq -r '.panels[].targets[].expr' "$examples"/grafana-{cluster,job}.json)
    while read -r topic series; do
        like "$shown" "(^|[^a-z_])$series([^a-z_]|\$)" "dashboards: $topic"
    done <<'END'
MFU mfu_step_model_flops_total
communication mfu_gpu_communication_exposed_seconds_total
InfiniBand node_infiniband_port_data_received_bytes_total
temperature mfu_gpu_temperature_celsius
power mfu_gpu_power_watts
alerts ALERTS
END
    # The same figures as mfu-live's own, give or take what ranks do in 8 s, and how late readings and scrapes are on a busy machine.
    ok 'four GPUs have four seconds a second' wait_until 60 has_series \
        "abs(sum(rate(mfu_gpu_attributed_seconds_total{jobid=\"$job\"}[8s])) - 4) < 1.5"
fi
end_background
is "$(cat "$site/err")" '' 'mfu-live had no complaint'
scancel "$job"
wait_job "$job"
done_testing
