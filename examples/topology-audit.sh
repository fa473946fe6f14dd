#!/bin/bash
# Is the cluster wired and placed as it should be? Takes a snapshot of the InfiniBand fabric, audits it and the nodes, and
# holds topology.conf against it. For a timer, or after work on the cables.
#   topology-audit.sh FOLDER [TOPOLOGY.CONF [NAMES]]
# FOLDER keeps the snapshot (fabric) and the findings (fabric.json, nodes.txt, topology.txt, jobs.txt). NAMES: lines
# "HOST NODE", where hosts are called otherwise in the fabric than in Slurm. A snapshot that is younger than an hour is used
# as it is.
# Exit status: 0 all is well, 1 something was found, 2 something could not be looked at.
set -u
folder=${1:?usage: topology-audit.sh FOLDER [TOPOLOGY.CONF [NAMES]]}
conf=${2-}
names=(${3:+--names "$3"})
worst=0
note() { (($1 <= worst)) || worst=$1; }

mkdir -p "$folder" || exit 2
if [[ -z $(find "$folder" -maxdepth 1 -name fabric -mmin -60) ]]; then
    mfu-topo snapshot -o "$folder/fabric" || exit 2
fi

# Cables, rails, links below their speed. mfu-topo's exit status: 0 nothing, 1 warnings, 2 of high severity, 3 trouble.
mfu-topo audit --fabric "$folder/fabric" "${names[@]}" --json >"$folder/fabric.json"
case $? in 0) ;; 1 | 2) note 1 ;; *) note 2 ;; esac

# GPUs, adapters and NUMA nodes of every node that has room for one more task: the nodes look at themselves, partition by
# partition, each node once. On the others the plugin audits each step when it begins.
: >"$folder/nodes.txt"
while read -r partition nodes; do
    # shellcheck disable=SC2016 # for the node's shell
    SLURM_EXIT_ERROR=9 SLURM_EXIT_IMMEDIATE=9 srun -Q --partition="$partition" --nodelist="$nodes" \
        --nodes="$(tr , '\n' <<<"$nodes" | wc -l)" --ntasks-per-node=1 --mem=100M --overcommit --immediate=60 \
        bash -c 'mfu-topo audit 2>&1 | sed "s/^/$SLURMD_NODENAME: /"; exit "${PIPESTATUS[0]}"' \
        </dev/null >>"$folder/nodes.txt" 2>&1
    case $? in 0) ;; 1 | 2) note 1 ;; *) note 2 ;; esac # 9: no allocation, or Slurm's own trouble
done < <(sinfo -h -N -t idle,mix -o '%a %R %N' | awk '$1 == "up" && !seen[$3]++ { nodes[$2] = nodes[$2] "," $3 }
    END { for (partition in nodes) print partition, substr(nodes[partition], 2) }')

# What Slurm believes against what is plugged in.
if [[ -n $conf ]]; then
    all=$(sinfo -h -N -o %N | sort -u | paste -sd,)
    mfu-topo diff "$conf" --fabric "$folder/fabric" "${names[@]}" --nodes "$all" >"$folder/topology.txt"
    case $? in 0) ;; 1) note 1 ;; *) note 2 ;; esac
fi

# The placement of what runs now. A job that has ended meanwhile is nobody's trouble.
: >"$folder/jobs.txt"
for job in $(squeue -h -t R -o %A | sort -u); do
    said=$(mfu-topo audit --fabric "$folder/fabric" "${names[@]}" --job "$job" 2>&1)
    case $? in 0) ;; 1 | 2) note 1 ;; *) [[ -z $(squeue -h -t R -j "$job" 2>/dev/null) ]] || note 2 ;; esac
    [[ -z $said ]] || printf '%s\n' "job $job: ${said//$'\n'/$'\n'job $job: }" >>"$folder/jobs.txt"
done

wc -l "$folder"/{nodes,topology,jobs}.txt 2>/dev/null | sed '/total$/d'
exit "$worst"
