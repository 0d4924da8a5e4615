#!/usr/bin/env bash
# A root file system for the container test: the host's own Debian with Python and nothing else, and the runtime for it.
#
#   image.sh        print the image's directory; make it first if it is not there (about a minute, once)
#
# It lies in $BENCHRUN_SLURM_DIR/image-<release> and outlives the cluster. PyTorch is not in it: the test mounts it.
set -euo pipefail

DIR=${BENCHRUN_SLURM_DIR:-/var/lib/benchrun-slurm}
# shellcheck source=/dev/null
. /etc/os-release
IMAGE=$DIR/image-${VERSION_CODENAME:?this is not a release of Debian}
export DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin

[ "$(id -u)" = 0 ] || { echo "image: root is needed" >&2; exit 1; }
mkdir -p "$DIR/log"
# The runtime from charliecloud-runtime alone: the rest of charliecloud builds images.
command -v ch-run debootstrap >/dev/null && packages=() || packages=(charliecloud-runtime debootstrap)
if [ ${#packages[@]} -gt 0 ]; then
  apt-get -qq update || true
  apt-get -qq install -y --no-install-recommends "${packages[@]}" >"$DIR/log/image.out" 2>&1 ||
    { tail -n 5 "$DIR/log/image.out" >&2; exit 1; }
fi

if [ ! -d "$IMAGE" ]; then
  half=$IMAGE.new # renamed when it is whole
  rm -rf "$half"
  debootstrap --variant=minbase --include=python3-minimal,libpython3-stdlib "$VERSION_CODENAME" "$half" \
    >"$DIR/log/image.out" 2>&1 || { tail -n 5 "$DIR/log/image.out" >&2; exit 1; }
  # A mount needs its mount point, and a name that is not in hosts should fail at once: there is no DNS.
  mkdir "$half/opt/site-packages"
  sed -i 's/^hosts:.*/hosts: files/' "$half/etc/nsswitch.conf"
  mv "$half" "$IMAGE"
fi
echo "$IMAGE"
