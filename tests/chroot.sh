# shellcheck shell=bash disable=SC2034 # for those that source it
# Debian chroots in which a private cluster runs. Sourced, from the top folder, by tests/slurm-versions and tests/packages.
#
# By environment: MFU_CHROOTS=FOLDER where the chroots are (default: build/chroots); MFU_MIRROR=URL.
chroots=$(realpath -m "${MFU_CHROOTS:-build/chroots}")
mirror=${MFU_MIRROR:-http://deb.debian.org/debian}

# in_own_namespace SCRIPT ARGUMENTS...: SCRIPT begins again where its mounts go with it.
in_own_namespace() {
    local name=${1##*/} tool
    [[ $EUID -eq 0 ]] || { echo "$name: must run as root: chroots and clusters need it" >&2; exit 2; }
    for tool in debootstrap chroot; do
        command -v $tool >/dev/null || { echo "$name: $tool is missing: apt-get install debootstrap" >&2; exit 2; }
    done
    [[ -n ${MFU_NAMESPACE-} ]] || MFU_NAMESPACE=1 exec unshare --mount --propagation private "$PWD/$1" "${@:2}"
}

attach() { # attach SOURCE FOLDER MOUNT-OPTIONS...
    local source=$1 folder=$2
    shift 2
    mkdir -p "$folder"
    mount "$@" "$source" "$folder"
}

# What a cluster needs of the machine in the chroot $1. Daemons look up this machine's name, and do not start when their
# packages are installed. A mirror may be older than its own release file allows. The chroot is a mount of its own, as a
# root must be for namespaces in it.
furnish() {
    attach "$1" "$1" --bind && attach proc "$1/proc" -t proc && attach sysfs "$1/sys" -t sysfs -o ro &&
        attach /sys/fs/cgroup "$1/sys/fs/cgroup" --rbind && attach /dev "$1/dev" --bind && attach devpts "$1/dev/pts" -t devpts &&
        attach shm "$1/dev/shm" -t tmpfs || return
    cp /etc/hosts /etc/resolv.conf "$1/etc/"
    grep -qw "$(uname -n)" "$1/etc/hosts" || echo "127.0.0.1 $(uname -n)" >>"$1/etc/hosts"
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 0755 "$1/usr/sbin/policy-rc.d"
    echo 'Acquire::Check-Valid-Until "false";' >"$1/etc/apt/apt.conf.d/99mirror"
}

# inside ROOT COMMAND...: in a furnished chroot. Not by chroot(1): the kernel gives who is in a chroot no user namespace.
inside() {
    # shellcheck disable=SC2016 # for the other shell
    unshare --mount --propagation private sh -c 'cd "$0" && pivot_root . mnt && umount -l /mnt && exec "$@"' "$1" \
        /usr/bin/env -i HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"
}
