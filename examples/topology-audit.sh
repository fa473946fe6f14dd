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

# GPUs, adapters and NUMA nodes of every node that has room for one more task: the nodes look at themselves. On the others the
# plugin audits each step when it begins.
nodes=$(sinfo -h -N -t idle,mix -o %N | sort -u | paste -sd,)
if [[ -n $nodes ]]; then
    srun -Q --nodes="$(tr , '\n' <<<"$nodes" | wc -l)" --ntasks-per-node=1 --nodelist="$nodes" --mem=0 --overcommit --label \
        --immediate=60 mfu-topo audit >"$folder/nodes.txt" 2>&1
    case $? in 0) ;; 1 | 2) note 1 ;; *) note 2 ;; esac
fi

# What Slurm believes against what is plugged in.
if [[ -n $conf ]]; then
    all=$(sinfo -h -N -o %N | sort -u | paste -sd,)
    mfu-topo diff "$conf" --fabric "$folder/fabric" "${names[@]}" --nodes "$all" >"$folder/topology.txt"
    case $? in 0) ;; 1) note 1 ;; *) note 2 ;; esac
fi

# The placement of what runs now.
squeue -h -t R -o %A | sort -u | while read -r job; do
    mfu-topo audit --fabric "$folder/fabric" "${names[@]}" --job "$job" 2>/dev/null | sed "s/^/job $job: /"
done >"$folder/jobs.txt"

wc -l "$folder"/{nodes,topology,jobs}.txt 2>/dev/null | sed '/total$/d'
exit "$worst"
