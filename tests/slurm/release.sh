#!/usr/bin/env bash
# release.sh CODENAME DIR: the Slurm of another Debian release beside this machine's own, for cluster.sh. Made once.
#
# Unpacks the release's packages into DIR and installs nothing: no script of theirs runs. The programs are told to take
# loader and libraries from DIR, so that they run on this machine as it is, without chroot: jobs see the machine's own
# files and Python. DIR/bin holds them under their usual names; DIR/plugins is Slurm's PluginDir.
set -euo pipefail
codename=$1 dir=$2
[ ! -e "$dir/.ready" ] || exit 0
type debootstrap patchelf >/dev/null 2>&1 ||
  apt-get -qq install -y --no-install-recommends debootstrap patchelf >/dev/null
rm -rf "$dir"
mkdir -p "$dir/bin"
root=$dir/root
debootstrap --variant=minbase --download-only --include=slurmctld,slurmd,slurm-client,slurmdbd,slurm-wlm-mysql-plugin,libslurm-dev \
  "$codename" "$dir/download" >"$dir/debootstrap.log" 2>&1 || { tail -n 5 "$dir/debootstrap.log" >&2; exit 1; }
for package in "$dir"/download/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
rm -rf "$dir/download"

libraries=$root/usr/lib/$(uname -m)-linux-gnu
ln -s "$libraries/slurm-wlm" "$dir/plugins"
# A library's own path would lead to the machine's Slurm; a program's is inherited only by libraries that have none.
for plugin in "$libraries"/slurm-wlm/*.so; do patchelf --remove-rpath "$plugin"; done
loader=$(find -L "$root/usr/lib64" -name 'ld-linux-*')
for name in slurmctld slurmd slurmdbd slurmstepd sacct sacctmgr sbatch scancel scontrol sinfo squeue srun; do
  program=$(find "$root/usr/sbin" "$root/usr/bin" -type f \( -name "$name" -o -name "$name-wlm" \))
  patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries/slurm-wlm:$libraries" "$program"
  ln -s "$program" "$dir/bin/$name"
done
touch "$dir/.ready"
