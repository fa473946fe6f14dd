#!/usr/bin/env bash
# The first process of a pod, as an image's entry point: container_pod.sh NODE ADDRESS CONTROLLER FOLDER. container_test.sh
# starts it in namespaces of its own (mount, PID, network, UTS). It makes the pod's file system, waits for its network
# interface and runs slurmd, which asks slurmctld for its configuration.
#
# FOLDER is the cluster's. The pod has a few of its folders as volumes: the product (at another path), the configuration
# (pods' own plugstack.conf), munge's socket, homes, results, the fake GPU. The root is read-only, all else that can be
# written to is tmpfs and ends with the pod. There is no syslogd and no DNS.
set -eu
node=$1 address=$2 controller=$3 folder=$4
hostname "$node-7d9f6c"

mount --make-rprivate /
empty() { mount -t tmpfs -o "mode=$1" pod "$2"; }
empty 755 /srv
volumes=(dev fake home munge work)
mkdir /srv/{slurm-mfu,cgroup,etc} "${volumes[@]/#//srv/}"
mount --bind "$folder/product" /srv/slurm-mfu
mount -o remount,bind,ro /srv/slurm-mfu
mount --bind "$folder/pods" /srv/etc
for volume in "${volumes[@]}"; do mount --bind "$folder/$volume" "/srv/$volume"; done
mount --rbind /sys/fs/cgroup /srv/cgroup

# What is not a volume is out of sight from here on.
empty 1777 /tmp
mkdir -p "$folder"
empty 755 "$folder"
mkdir "${volumes[@]/#/$folder/}" "$folder"/{etc,run,log,spool}
for volume in etc "${volumes[@]}"; do mount --move "/srv/$volume" "$folder/$volume"; done
for own in /var/spool /var/log /run /dev; do empty 755 "$own"; done
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/zero c 1 5
mknod -m 666 /dev/urandom c 1 9
mkdir -m 1777 /dev/shm
mount -t sysfs -o ro sysfs /sys
mount --move /srv/cgroup /sys/fs/cgroup
# slurmd asks before it knows AuthInfo.
mkdir /run/munge
ln -s "$folder/munge/socket" /run/munge/munge.socket.2
mount -o remount,bind,ro /

ip link set lo up
until ip link set eth0 up 2>/dev/null; do sleep 0.02; done
ip address add "$address/24" dev eth0
cd / # a checkout in /tmp is not here
slurmd -D -Z -N "$node" --conf-server "$controller" --conf 'CPUs=8 RealMemory=4000 Gres=gpu:2 Feature=pod' &
wait "$!" # and for orphans, as a container's init does
