# shellcheck shell=bash
# From a written configuration to four idle nodes and working accounts. Sourced by cluster; works on $dir.
# shellcheck disable=SC2154 # cluster sets dir, config.sh the rest

# An empty database with Slurm's user in it takes 2 s to make, so it is made once a MariaDB version and copied. The cache
# is root's own; a rename publishes it whole, and the loser of a race throws its own away.
install_database() {
    local cache=/var/cache/slurm-mfu-tests version made
    version=$(mariadbd --version | awk '{print $3}')
    if [[ ! -d $cache/$version ]]; then
        mkdir -p "$cache" || die "cannot make $cache."
        made=$(mktemp -d "$cache/new.XXXXXX") || die "cannot write to $cache."
        chown mysql "$made"
        mariadb-install-db --no-defaults --user=mysql --datadir="$made" --auth-root-authentication-method=socket --skip-test-db \
            --innodb-log-file-size=4M &>"$dir/log/mariadb.log" || failed mariadb "could not make its tables"
        mv -T "$made" "$cache/$version" 2>/dev/null || rm -rf "$made"
    fi
    cp -a "$cache/$version" "$dir/db"
    # The path to the socket must be open to the user slurm; the tables themselves are not.
    chmod 711 "$dir/db"
}

start_accounting() {
    install_database
    start_daemon munged
    start_daemon mariadb
    wait_ready munged
    wait_ready mariadb
    mariadb --no-defaults --socket="$dir/db/socket" &>>"$dir/log/mariadb.log" <<'END' || failed mariadb "refused Slurm's user"
create user slurm@localhost identified via unix_socket;
create database slurm_acct_db;
grant all on slurm_acct_db.* to slurm@localhost;
END
    start_daemon slurmdbd
    wait_ready slurmdbd
    account add cluster "mfu$port"
}

# Each call costs 0.2 to 0.6 s, spent in the protocol's small packets. slurmdbd has been seen to fail at the first one after its
# start ("We should have gotten a result: 'No error'"): it is asked again.
account() {
    local said
    for _ in 1 2 3; do
        if said=$(slurm sacctmgr -i "$@" 2>&1); then
            echo "$said" >>"$dir/log/slurmdbd.log"
            return
        fi
        echo "$said" >>"$dir/log/slurmdbd.log"
        # It was done all the same.
        [[ $said != *'already exists'* && $said != *'Nothing new added'* ]] || return 0
        sleep 1
    done
    failed slurmdbd "refused: sacctmgr $*"
}

# slurmctld needs only its cluster's row; the accounts are added while it starts, and slurmdbd tells it of them.
start_slurm() {
    local node accounts names
    printf -v names ',%s' "${users[@]}"
    (account add account ml && account add user "root$names" account=ml) &
    accounts=$!
    start_daemon slurmctld
    wait_ready slurmctld
    for node in "${nodes[@]}"; do start_daemon "$node"; done
    wait "$accounts" || exit
    wait_until 60 all_idle || failed slurmctld "does not show ${#nodes[@]} idle nodes"
}
