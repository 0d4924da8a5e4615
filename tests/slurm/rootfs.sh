#!/usr/bin/env bash
# rootfs.sh DIR: a small Debian with Python in DIR, for the tests that train inside a container. Made once.
set -euo pipefail
dir=$1
[ ! -e "$dir/.ready" ] || exit 0
type debootstrap >/dev/null 2>&1 || apt-get -qq install -y --no-install-recommends debootstrap >/dev/null
rm -rf "$dir"
mkdir -p "$dir"
# The release of this machine, so that the libraries fit what is mounted into it.
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
debootstrap --variant=minbase --include=python3 "$codename" "$dir" >"$dir.log" 2>&1 ||
  { tail -n 5 "$dir.log" >&2; exit 1; }
mkdir -p "$dir/opt/site" # where the tests mount torch and megatron-core
# charliecloud lays the node's own hosts over this one; no DNS, as on the node.
touch "$dir/etc/hosts"
ln -s /usr/bin/python3 "$dir/opt/python" # a name that the nodes do not have
echo "hosts: files" >"$dir/etc/nsswitch.conf"
echo PYTHONPATH=/nowhere >"$dir/etc/environment" # what an image sets must not win over the site
touch "$dir/.ready"
