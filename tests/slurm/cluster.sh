#!/usr/bin/env bash
# A real Slurm of three nodes on one Debian machine, for the tests: munge, MariaDB, slurmdbd, slurmctld, slurmd.
#
#   cluster.sh start                  install what is missing, start, wait until the nodes are idle
#   cluster.sh stop                   end everything that start began, remove its network
#   cluster.sh fail|restore NODE      power cut of a node, and its return
#   cluster.sh down|up DAEMON         slurmctld or slurmdbd
#   cluster.sh freeze|thaw DAEMON     it hangs: it takes connections and answers nothing
#   cluster.sh full|readonly|empty    $BENCHRUN_SLURM_DIR/small, a file system that the nodes share: no space left;
#                                     no writing, except for the nodes; as it was
#
# Beside the partition "batch" there are three on the last node: what runs in "scavenger" is cancelled for a job in
# "urgent", and what runs in "restart" goes back to the queue.
#
# BENCHRUN_SLURM_RELEASE=trixie takes Slurm from that Debian release (24.11) in place of this machine's own.
# Each node has network, hostname, processes and mounts of its own, so that localhost, a port or a dead machine mean
# what they mean on a cluster. Runs as root; no systemd. Everything lies in $BENCHRUN_SLURM_DIR; then
# `export SLURM_CONF=$BENCHRUN_SLURM_DIR/etc/slurm.conf`.
set -euo pipefail

DIR=${BENCHRUN_SLURM_DIR:-/var/lib/benchrun-slurm}
NUMBER=${BENCHRUN_SLURM_NUMBER:-0} # 0 to 9: a second cluster beside the first needs another number and directory
NODES=(n1 n2 n3)
GPUS=2
NET=10.219.$((7 + NUMBER)) # the nodes' /24; the controller is .1
BRIDGE=brslurm$NUMBER
NAMESPACE=benchrun$NUMBER
PORT=$((17817 + 10 * NUMBER)) # slurmctld; slurmd +1, slurmdbd +2, MariaDB +3
SMALL=$DIR/small
RELEASE=${BENCHRUN_SLURM_RELEASE:-}
# $DIR/bin holds the Slurm of another release, or enroot beside this machine's own.
export SLURM_CONF=$DIR/etc/slurm.conf PATH=$DIR/bin:$PATH:/usr/sbin:/sbin
HERE=$(dirname "${BASH_SOURCE[0]}")

# shellcheck source=SCRIPTDIR/daemons.sh
. "$HERE/daemons.sh"

# -- installing and configuring ---------------------------------------------------------------------------------

install_packages() {
  local need=()
  # type wants every one of them; command -v is content with any.
  type slurmctld slurmd sinfo slurmdbd munged mariadbd ip ch-run faketime >/dev/null 2>&1 && return 0
  need=(slurmctld slurmd slurm-client slurmdbd munge mariadb-server-core mariadb-client-core iproute2
    charliecloud faketime)
  say "apt-get install ${need[*]}"
  # Debian starts a daemon when it installs one, unless this file says no.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update || true
  apt-get -qq install -y --no-install-recommends "${need[@]}" >"$DIR/log/apt.out" 2>&1 ||
    die "apt-get failed: $(tail -n 5 "$DIR/log/apt.out")"
}

choose_release() {
  rm -rf "${DIR:?}/bin"
  [ -n "$RELEASE" ] || return 0
  "$HERE/release.sh" "$RELEASE" "$DIR/$RELEASE" || die "no Slurm of $RELEASE"
  ln -s "$DIR/$RELEASE/bin" "$DIR/bin"
}

configure() {
  local i=0 node memory
  memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024))
  head -c 128 /dev/urandom >"$DIR/etc/munge.key"
  chmod 600 "$DIR/etc/munge.key"
  cat >"$SLURM_CONF" <<CONF
ClusterName=benchrun
SlurmctldHost=$(hostname -s)($NET.1)
SlurmUser=root
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
AuthType=auth/munge
AuthInfo=socket=$DIR/run/munge.socket
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmctldPidFile=$DIR/run/slurmctld.own
SlurmdPidFile=$DIR/run/slurmd-%n.own
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd-%n.log
SlurmdTimeout=15
MessageTimeout=10
KillWait=5
MinJobAge=${MIN_JOB_AGE:-300}
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=$((memory / 24))
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=OverMemoryKill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,requeue_setup_env_fail
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$NET.1
AccountingStoragePort=$((PORT + 2))
AccountingStoragePass=$DIR/run/munge.socket
AccountingStorageTRES=gres/gpu
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=DEFAULT MaxTime=1-00:00:00 DefaultTime=00:10:00 State=UP
PartitionName=batch Nodes=ALL Default=YES PriorityTier=2 PreemptMode=OFF
PartitionName=urgent Nodes=${NODES[-1]} PriorityTier=2 PreemptMode=OFF
PartitionName=scavenger Nodes=${NODES[-1]} PriorityTier=1 PreemptMode=CANCEL
PartitionName=restart Nodes=${NODES[-1]} PriorityTier=1 PreemptMode=REQUEUE
CONF
  echo CgroupAutomount=no >"$DIR/etc/cgroup.conf"
  if [ -n "$RELEASE" ]; then
    echo "PluginDir=$DIR/$RELEASE/plugins" >>"$SLURM_CONF"
    echo CgroupPlugin=disabled >"$DIR/etc/cgroup.conf" # 24.11 would not start without a cgroup of its own
  fi
  # GPUs without a driver: character devices of a major number that nobody has. Slurm gives them out like real ones.
  for ((i = 0; i < GPUS; i++)); do
    [ -e "$DIR/dev/gpu$i" ] || mknod -m 666 "$DIR/dev/gpu$i" c 240 "$i"
  done
  { echo AutoDetect=off; } >"$DIR/etc/gres.conf"
  cp /etc/hosts "$DIR/etc/hosts"
  i=0
  for node in "${NODES[@]}"; do
    i=$((i + 1))
    echo "NodeName=$node NodeAddr=$NET.$((10 + i)) CPUs=16 RealMemory=$memory Gres=gpu:$GPUS" >>"$SLURM_CONF"
    echo "NodeName=$node Name=gpu File=$DIR/dev/gpu[0-$((GPUS - 1))]" >>"$DIR/etc/gres.conf"
    echo "$NET.$((10 + i)) $node" >>"$DIR/etc/hosts"
  done
  # No DNS inside the nodes: a name that is not in hosts fails at once instead of after a time-out.
  { grep -v '^hosts:' /etc/nsswitch.conf; echo "hosts: files"; } >"$DIR/etc/nsswitch.conf"
  cat >"$DIR/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$DIR/run/munge.socket
DbdHost=$(hostname -s)
DbdAddr=$NET.1
DbdPort=$((PORT + 2))
SlurmUser=root
LogFile=$DIR/log/slurmdbd.log
PidFile=$DIR/run/slurmdbd.own
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 3))
StorageUser=slurm
StorageLoc=slurm
${RELEASE:+PluginDir=$DIR/$RELEASE/plugins}
CONF
  chmod 600 "$DIR/etc/slurmdbd.conf"
}

# -- daemons ------------------------------------------------------------------------------------------------------

start_munged() {
  rm -f "$DIR"/run/munge.socket*
  spawn munged munged --foreground --force --key-file="$DIR/etc/munge.key" --socket="$DIR/run/munge.socket" \
    --pid-file="$DIR/run/munged.own" --log-file="$DIR/log/munged.log" --seed-file="$DIR/run/munge.seed"
  wait_for munged munge -n -S "$DIR/run/munge.socket"
}
start_mariadbd() {
  local user=nobody
  id mysql >/dev/null 2>&1 && user=mysql
  mkdir -p "$DIR/db"
  chown "$user" "$DIR/db"
  [ -d "$DIR/db/mysql" ] || mariadb-install-db --no-defaults --user="$user" --datadir="$DIR/db" --skip-test-db \
    --auth-root-authentication-method=normal >"$DIR/log/db.out" 2>&1 || die "mariadb-install-db: $(tail -n 5 "$DIR/log/db.out")"
  cat >"$DIR/db-init.sql" <<SQL
CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1';
GRANT ALL ON slurm.* TO 'slurm'@'127.0.0.1';
SQL
  spawn mariadbd mariadbd --no-defaults --user="$user" --datadir="$DIR/db" --socket="$DIR/db/sock" \
    --pid-file="$DIR/db/own" --bind-address=127.0.0.1 --port=$((PORT + 3)) --skip-name-resolve --skip-log-bin \
    --init-file="$DIR/db-init.sql" --innodb-buffer-pool-size=64M
  wait_for mariadbd bash -c "exec 3<>/dev/tcp/127.0.0.1/$((PORT + 3))"
}
start_slurmdbd() {
  spawn slurmdbd slurmdbd -D
  wait_for slurmdbd sacctmgr -n list cluster
  sacctmgr -n -P list cluster format=cluster | grep -qx benchrun || sacctmgr -i -Q add cluster benchrun >/dev/null
}
start_slurmctld() {
  spawn slurmctld slurmctld -D -f "$SLURM_CONF"
  wait_for slurmctld bash -c 'scontrol ping | grep -q UP'
}
start_node() { # NODE: its own namespaces; the shell in them is process 1, and everything ends with it
  local node=$1 i
  for i in "${!NODES[@]}"; do [ "${NODES[$i]}" != "$node" ] || break; done
  ip netns del "$NAMESPACE-$node" 2>/dev/null || true
  ip link del "$BRIDGE-$i" 2>/dev/null || true
  ip netns add "$NAMESPACE-$node"
  ip link add "$BRIDGE-$i" type veth peer name eth0 netns "$NAMESPACE-$node"
  ip link set "$BRIDGE-$i" master "$BRIDGE" up
  ip -n "$NAMESPACE-$node" addr add "$NET.$((11 + i))/24" dev eth0
  ip -n "$NAMESPACE-$node" link set eth0 up
  ip -n "$NAMESPACE-$node" link set lo up
  mkdir -p "$DIR/spool/$node"
  # shellcheck disable=SC2016  # expanded inside the node
  spawn "node-$node" nsenter --net="/run/netns/$NAMESPACE-$node" \
    unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc --propagation private \
    bash -c 'hostname "$1"; mount --bind "$2/etc/hosts" /etc/hosts; mount --bind "$2/etc/nsswitch.conf" /etc/nsswitch.conf
      [ ! -e "$2/bin/slurmstepd" ] || own=(-d "$2/bin/slurmstepd")
      slurmd -D -N "$1" -f "$2/etc/slurm.conf" "${own[@]}" & wait' node "$node" "$DIR"
}
daemon() { # SIGNAL NAME
  local pid
  alive "$2" || die "$2 is not up"
  read -r pid _ <"$DIR/run/$2.pid"
  kill "-$1" "$pid"
}
fill() { # Blocks of one byte in the end: not even an event may fit
  dd if=/dev/zero of="$SMALL/.fill" bs=1M 2>/dev/null || true
  dd if=/dev/zero of="$SMALL/.fill" bs=1 oflag=append conv=notrunc 2>/dev/null || true
}
nodes_idle() { [ "$(sinfo -h -N -p batch -o '%N %T' | grep -Ec ' (idle|mixed|allocated|completing)$')" = "${#NODES[@]}" ]; }

# -- verbs ----------------------------------------------------------------------------------------------------------

start() {
  [ "$(id -u)" = 0 ] || die "root is needed: namespaces, and daemons that change user"
  mkdir -p "$DIR"/{etc,run,log,state,spool,dev,small}
  if alive slurmctld && nodes_idle && [ "$(readlink "$DIR/bin" || true)" = "${RELEASE:+$DIR/$RELEASE/bin}" ]; then
    say "already up"
    return
  fi
  stop
  mkdir -p "$DIR"/{etc,run,log,state,spool,dev,small}
  choose_release
  install_packages
  configure
  ip link add "$BRIDGE" type bridge
  ip addr add "$NET.1/24" dev "$BRIDGE"
  ip link set "$BRIDGE" up
  # Before the nodes: each keeps the mounts that are there when it starts.
  mount -t tmpfs -o size=48M,mode=1777 benchrun "$SMALL"
  start_munged
  start_mariadbd
  start_slurmdbd
  start_slurmctld
  local node
  for node in "${NODES[@]}"; do start_node "$node"; done
  wait_for "node-${NODES[-1]}" nodes_idle
  say "$(sinfo -V), ${#NODES[@]} nodes; export SLURM_CONF=$SLURM_CONF"
}

stop() {
  local i node
  for node in "${NODES[@]}"; do end "node-$node" KILL; done
  for i in slurmctld slurmdbd mariadbd munged; do end "$i"; done
  for i in "${!NODES[@]}"; do
    ip link del "$BRIDGE-$i" 2>/dev/null || true
    ip netns del "$NAMESPACE-${NODES[$i]}" 2>/dev/null || true
  done
  ip link del "$BRIDGE" 2>/dev/null || true
  umount "$SMALL" 2>/dev/null || true
  rm -rf "$DIR"/{state,spool,run,db} # the database too: job numbers begin again
}

case "${1:-} ${2:-}" in
  "start ") start ;;
  "stop ") stop ;;
  "fail n"*) end "node-$2" KILL ;;
  "restore n"*) start_node "$2" && wait_for "node-$2" nodes_idle ;;
  "down slurmctld" | "down slurmdbd") end "$2" ;;
  "up slurmctld") start_slurmctld ;;
  "up slurmdbd") start_slurmdbd ;;
  "freeze slurmctld" | "freeze slurmdbd") daemon STOP "$2" ;;
  "thaw slurmctld" | "thaw slurmdbd") daemon CONT "$2" ;;
  "full ") fill ;;
  "readonly ") mount -o remount,bind,ro "$SMALL" ;; # the nodes have a mount of their own, and a job may be writing
  "empty ") mount -o remount,bind,rw "$SMALL" && rm -f "$SMALL/.fill" ;;
  *) sed -n '2,16p' "$0" && exit 2 ;;
esac
