#!/usr/bin/env bash
# Container engines on the nodes of the test cluster (cluster.sh), for the tests that train inside them.
#
#   engines.sh start podman|docker|pyxis   on every node that is up, with the image benchrun-test made of $DIR/rootfs
#   engines.sh stop pyxis                  the other two end with their nodes
#   engines.sh on NODE COMMAND...          run a command inside a node
#
# $DIR/own is a directory of each node's own, under one name: $DIR/own/docker.sock, $DIR/own/storage.conf.
set -euo pipefail

DIR=${BENCHRUN_SLURM_DIR:-/var/lib/benchrun-slurm}
export CONTAINERS_CONF=$DIR/own/containers.conf CONTAINERS_STORAGE_CONF=$DIR/own/storage.conf
export DOCKER_HOST=unix://$DIR/own/docker.sock DEBIAN_FRONTEND=noninteractive

# shellcheck source=SCRIPTDIR/daemons.sh
. "$(dirname "${BASH_SOURCE[0]}")/daemons.sh"

nodes() { for node in n1 n2 n3; do ! alive "node-$node" || echo "$node"; done; }
on() { # NODE COMMAND...
  local outer inner
  read -r outer _ <"$DIR/run/node-$1.pid"
  inner=$(cut -d" " -f1 "/proc/$outer/task/$outer/children")
  nsenter -t "$inner" --net --mount --uts --ipc --pid "${@:2}"
}
install() { # PACKAGE...
  # Debian starts a daemon when it installs one, unless this file says no.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt-get -qq install -y --no-install-recommends "$@" >"$DIR/log/apt-$1.out" 2>&1 ||
    die "apt-get failed: $(tail -n 5 "$DIR/log/apt-$1.out")"
}
own() { # NODE: give it its directory
  mkdir -p "$DIR/own" "$DIR/spool/$1/own"
  on "$1" mountpoint -q "$DIR/own" || on "$1" mount --bind "$DIR/spool/$1/own" "$DIR/own"
}
image() { tar -C "$DIR/rootfs" -c --exclude=./usr/share/doc --exclude=./usr/share/locale --exclude=./var/cache .; }

podman_on() {
  own "$1"
  # No systemd here, and neither journal nor user session.
  cat >"$DIR/spool/$1/own/containers.conf" <<CONF
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
CONF
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$DIR/own/podman" "$DIR/own/podman-run" \
    >"$DIR/spool/$1/own/storage.conf"
  on "$1" podman image exists benchrun-test || image | on "$1" podman import --quiet - benchrun-test >/dev/null
  on "$1" podman run --rm --network=host benchrun-test true
}

docker_on() {
  own "$1"
  if ! alive "dockerd-$1"; then
    rm -f "$DIR/spool/$1/own/docker.pid"
    spawn "dockerd-$1" "$0" on "$1" dockerd --data-root "$DIR/own/docker" --exec-root "$DIR/own/docker-run" \
      --pidfile "$DIR/own/docker.pid" --host "$DOCKER_HOST" --iptables=false --ip6tables=false --bridge=none
    wait_for "dockerd-$1" on "$1" docker info
  fi
  on "$1" docker image inspect benchrun-test >/dev/null 2>&1 || image | on "$1" docker import - benchrun-test >/dev/null
  on "$1" docker run --rm --network=host benchrun-test true
}

case "${1:-} ${2:-}" in
  "start podman")
    type podman runc >/dev/null 2>&1 || install podman runc
    for node in $(nodes); do podman_on "$node"; done
    ;;
  "start docker")
    type dockerd docker >/dev/null 2>&1 || install docker.io
    for node in $(nodes); do docker_on "$node"; done
    ;;
  "start pyxis") # Slurm reads this file whenever it starts a step
    { type gcc && ls /usr/include/slurm/spank.h; } >/dev/null 2>&1 || install gcc libc6-dev libslurm-dev
    headers=/usr/include
    [ -z "${BENCHRUN_SLURM_RELEASE:-}" ] || headers=$DIR/$BENCHRUN_SLURM_RELEASE/root/usr/include  # a plugin is of one release
    gcc -std=c11 -shared -fPIC -I"$headers" -o "$DIR/etc/pyxis.so" "$(dirname "${BASH_SOURCE[0]}")/pyxis.c"
    echo "required $DIR/etc/pyxis.so" >"$DIR/etc/plugstack.conf"
    ;;
  "stop pyxis") rm -f "$DIR/etc/plugstack.conf" ;;
  "on "n*) on "${@:2}" ;;
  *) sed -n '2,9p' "$0" && exit 2 ;;
esac
