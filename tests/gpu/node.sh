#!/usr/bin/env bash
# A Slurm of one node, this one, out of the archive that pack.sh made. As root; nothing is installed, no network is needed.
#
#   node.sh start PACK     unpack PACK/slurm.tar.xz, start, wait until the node is idle
#   node.sh env            what puts srun, sbatch, squeue ... on the path: eval "$(node.sh env)"
#   node.sh stop           cancel all jobs, end what start began
#
# Everything lies in $BENCHRUN_NODE_DIR (/opt/benchrun/slurm). start also reads
#   MEM_MIB     memory to give out, where /proc/meminfo's MemTotal is not the limit
#   FAKE_GPUS   so many stand-ins without a driver instead of the node's GPUs
#
# Jobs share the node: each gets its GPUs, its CPUs, and memory in proportion to its CPUs.
set -euo pipefail

DIR=${BENCHRUN_NODE_DIR:-/opt/benchrun/slurm}
PORT=17917 # slurmctld; slurmd +1
export SLURM_CONF=$DIR/etc/slurm.conf PATH=$DIR/slurm/bin:$PATH
# shellcheck source=SCRIPTDIR/../slurm/daemons.sh
. "$(dirname "${BASH_SOURCE[0]}")/../slurm/daemons.sh"

# The devices of the GPUs, under numbers without gaps: CUDA counts what is there from 0.
link_gpus() {
  local devices=() i
  if [ "${FAKE_GPUS:-0}" -gt 0 ]; then
    for ((i = 0; i < FAKE_GPUS; i++)); do devices+=(/dev/null); done
  else
    mapfile -t devices < <(find /dev -maxdepth 1 -regex '/dev/nvidia[0-9]+' | sort -V)
  fi
  [ ${#devices[@]} -gt 0 ] || die "there is no /dev/nvidia0, and FAKE_GPUS is not set"
  for i in "${!devices[@]}"; do ln -sfn "${devices[$i]}" "$DIR/dev/gpu$i"; done
  gpus=${#devices[@]}
}

configure() {
  local gpus cpus host memory
  link_gpus
  cpus=$(env -u OMP_NUM_THREADS nproc) # it would answer with the variable
  cpus=$((gpus > cpus ? gpus : cpus)) host=$(uname -n | cut -d. -f1)
  memory=${MEM_MIB:-$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024))}
  (umask 077 && head -c 128 /dev/urandom >"$DIR/etc/munge.key")
  # Named, because to find out which one the machine has needs systemd or a mount; none is used.
  printf '%s\n' CgroupPlugin=cgroup/v1 CgroupAutomount=no >"$DIR/etc/cgroup.conf"
  printf '%s\n' AutoDetect=off "NodeName=localhost Name=gpu File=$DIR/dev/gpu[0-$((gpus - 1))]" >"$DIR/etc/gres.conf"
  cat >"$SLURM_CONF" <<CONF
ClusterName=node
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
PluginDir=$DIR/slurm/lib/slurm
AuthType=auth/munge
AuthInfo=socket=$DIR/run/munge.socket
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool
SlurmctldPidFile=$DIR/run/slurmctld.own
SlurmdPidFile=$DIR/run/slurmd.own
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd.log
# There is no accounting: the queue remembers for a day how jobs ended.
MinJobAge=86400
KillWait=5
ReturnToService=2
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=localhost NodeHostname=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory Gres=gpu:$gpus
PartitionName=batch Nodes=localhost Default=YES OverSubscribe=NO DefMemPerCPU=$((memory / cpus)) MaxTime=1-00:00:00
CONF
  # Slurm asks for addresses of the kinds that some interface but lo has; without one it finds not even 127.0.0.1.
  getent ahostsv4 127.0.0.1 >/dev/null || echo CommunicationParameters=EnableIPv6 >>"$SLURM_CONF"
  say "$gpus GPUs, $cpus CPUs, $memory MiB"
}

start() {
  [ "$(id -u)" = 0 ] || die "root is needed"
  stop
  mkdir -p "$DIR"/{etc,run,log,state,spool,dev}
  chmod 755 "$DIR/run" # munge wants to know who could have put a socket there
  tar -C "$DIR" -xJf "$1/slurm.tar.xz"
  configure
  spawn munged munged --foreground --force --key-file="$DIR/etc/munge.key" --socket="$DIR/run/munge.socket" \
    --pid-file="$DIR/run/munged.own" --log-file="$DIR/log/munged.log" --seed-file="$DIR/run/munge.seed"
  wait_for munged munge -n -S "$DIR/run/munge.socket"
  spawn slurmctld slurmctld -D -i
  wait_for slurmctld bash -c 'scontrol ping | grep -q UP'
  spawn slurmd slurmd -D -N localhost -d "$DIR/slurm/bin/slurmstepd"
  wait_for slurmd bash -c 'sinfo -h -o %T | grep -qx idle'
  say "$(sinfo -V) is up"
}

stop() {
  if alive slurmctld; then
    squeue -h -o %A | xargs -r scancel || true
    for _ in $(seq 100); do
      [ -n "$(squeue -h)" ] || break
      sleep 0.2
    done
  fi
  for daemon in slurmd slurmctld munged; do end "$daemon"; done
  rm -rf "${DIR:?}"/{state,spool,run,dev}
}

case "${1:-} ${2:-}" in
  "start "?*) start "$2" ;;
  "env ") echo "export SLURM_CONF='$SLURM_CONF' PATH='$DIR/slurm/bin':\$PATH" ;;
  "stop ") stop ;;
  *) sed -n '2,14p' "$0" && exit 2 ;;
esac
