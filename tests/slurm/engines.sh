#!/usr/bin/env bash
# Container engines on the nodes of the test cluster (cluster.sh), for the tests that train inside them.
#
#   engines.sh start podman|docker|pyxis   on every node that is up, with the image benchrun-test made of $DIR/rootfs
#   engines.sh stop pyxis                  the other two end with their nodes
#   engines.sh on NODE COMMAND...          run a command inside a node
#
# pyxis is the plugin pyxis.c, or the real one where PYXIS_SOURCE and ENROOT_SOURCE name the trees of a release of
# github.com/NVIDIA/pyxis and NVIDIA/enroot: then both are built, and $DIR/rootfs.sqsh is the image.
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

headers() { # of the Slurm that runs: a plugin is of one release
  if [ -n "${BENCHRUN_SLURM_RELEASE:-}" ]; then echo "$DIR/$BENCHRUN_SLURM_RELEASE/root/usr/include"; else echo /usr/include; fi
}

build_pyxis() { # FOLDER
  type make jq mksquashfs >/dev/null 2>&1 || install make jq squashfs-tools
  [ -e /usr/include/bsd/string.h ] || install libbsd-dev
  rm -rf "$1"
  # enroot is linked with this machine's libraries: its tree has neither musl, nor kernel headers, nor makeself.
  mkdir -p "$1/enroot/deps/dist/makeself/bin"
  touch "$1/enroot/deps/dist/makeself/bin/enroot-makeself"
  cp -rT "$PYXIS_SOURCE" "$1/pyxis"
  cp -rT "$ENROOT_SOURCE" "$1/enroot"
  {
    CPPFLAGS="-I$(headers)" make -C "$1/pyxis"
    make -C "$1/enroot/deps" FORCE_GLIBC=1 libbsd
    CPPFLAGS="-D_GNU_SOURCE= -include bsd/string.h" make -C "$1/enroot" -o deps FORCE_GLIBC=1 prefix="$1/installed" \
      LDLIBS="-l:libbsd.a -l:libbsd.so" install
  } >"$DIR/log/pyxis.out" 2>&1 || die "pyxis or enroot does not build: $(tail -n 5 "$DIR/log/pyxis.out")"
  touch "$1/.ready"
}

real_pyxis() {
  local built=$DIR/pyxis node path
  [ -e "$built/.ready" ] || build_pyxis "$built"
  mkdir -p "$DIR/bin"
  ln -sf "$built"/installed/bin/* "$DIR/bin" # on the PATH of slurmd
  for path in RUNTIME CONFIG CACHE DATA TEMP; do
    echo "ENROOT_${path}_PATH $DIR/own/enroot/$path"
  done >"$built/installed/etc/enroot/enroot.conf"
  for node in $(nodes); do
    own "$node"
    on "$node" mkdir -p "$DIR/own/pyxis" "$DIR"/own/enroot/{RUNTIME,CONFIG,CACHE,DATA,TEMP}
  done
  [ -e "$DIR/rootfs.sqsh" ] || mksquashfs "$DIR/rootfs" "$DIR/rootfs.sqsh" -comp lzo -no-progress >/dev/null
  echo "required $built/pyxis/spank_pyxis.so runtime_path=$DIR/own/pyxis" >"$DIR/etc/plugstack.conf"
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
    if [ -n "${PYXIS_SOURCE:-}" ]; then
      real_pyxis
    else
      gcc -std=c11 -shared -fPIC -I"$(headers)" -o "$DIR/etc/pyxis.so" "$(dirname "${BASH_SOURCE[0]}")/pyxis.c"
      echo "required $DIR/etc/pyxis.so" >"$DIR/etc/plugstack.conf"
    fi
    ;;
  "stop pyxis") rm -f "$DIR/etc/plugstack.conf" ;;
  "on "n*) on "${@:2}" ;;
  *) sed -n '2,12p' "$0" && exit 2 ;;
esac
