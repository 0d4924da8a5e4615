#!/usr/bin/env bash
# Collects, on a Debian machine with network, what a GPU node without network lacks:
#
#   pack.sh DIR [WHEEL...]    DIR/slurm.tar.xz: Slurm and munge, to run from any folder (glibc as on this machine, or newer)
#                             DIR/wheels: benchrun's and its worker's packages for Python 3.12, and each WHEEL given
#
# transformer-engine's torch extension is published as source only: build it where torch and nvcc are, and give its wheel.
# apt-get and pip ask the sources they are configured for. Nothing is installed; root is not needed.
set -euo pipefail

MEGATRON_CORE=0.19.2
TRANSFORMER_ENGINE=2.11.0 # 2.13 asks for a newer cuBLAS than torch 2.11 brings
SM=90                     # Hopper; the core library holds code for every other GPU too, ten times as much

out=$(mkdir -p "${1:?usage: pack.sh DIR [WHEEL...]}" && cd "$1" && pwd)
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# -- Slurm: packages unpacked into a folder, every program told to look for its libraries beside itself --------

unpack() { # an empty list of installed packages, so that every dependency is fetched
  mkdir -p "$work/cache/archives/partial" "$work/root"
  : >"$work/status"
  apt-get -qq -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Install-Recommends=false \
    -o APT::Sandbox::User= -o Debug::NoLocking=1 --download-only -y install \
    slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge patchelf
  rm "$work"/cache/archives/libc6_*.deb # the node's own
  for deb in "$work"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
}

needs() { # the libraries of FILE that were unpacked, and theirs
  LD_LIBRARY_PATH=$libs:$libs/slurm-wlm ldd "$1" | awk -v root="$work/root" 'index($3, root) == 1 { print $3 }'
}

slurm() {
  local libs=$work/root/usr/lib/x86_64-linux-gnu to=$work/slurm name file
  export PATH=$PATH:$work/root/usr/bin
  unpack
  cp -rn "$work/root/lib/." "$work/root/usr/lib/"
  mkdir -p "$to"/{bin,lib/slurm}
  for name in srun sbatch squeue scancel scontrol sinfo sacct munge unmunge; do cp "$work/root/usr/bin/$name" "$to/bin"; done
  for name in slurmctld slurmd slurmstepd; do cp "$work/root/usr/sbin/$name-wlm" "$to/bin/$name"; done
  cp "$work/root/usr/sbin/munged" "$to/bin"
  for file in "$to"/bin/* "$libs"/slurm-wlm/auth_munge.so; do needs "$file"; done | sort -u | xargs cp -Lt "$to/lib"
  for file in "$libs"/slurm-wlm/*_*.so; do # all plugins but those that want still more, for Lua and JSON
    case ${file##*/} in mpi_pmix*) continue ;; esac # its library is loaded later, and not there
    for name in $(needs "$file"); do [ -e "$to/lib/${name##*/}" ] || continue 2; done
    cp "$file" "$to/lib/slurm"
  done
  # shellcheck disable=SC2016  # the loader's word, not the shell's
  {
    patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$to"/bin/*
    patchelf --force-rpath --set-rpath '$ORIGIN' "$to"/lib/*.so*
    patchelf --force-rpath --set-rpath '$ORIGIN/..' "$to"/lib/slurm/*.so
  }
  (cd "$work/cache/archives" && ls) >"$to/packages.txt"
  tar -C "$work" --owner=0 --group=0 -cJf "$out/slurm.tar.xz" slurm
}

# -- wheels -----------------------------------------------------------------------------------------------------

fetch() { # TO REQUIREMENT...
  local platforms=() glibc
  for glibc in 28 27 24 17; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
  python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --python-version 3.12 \
    --implementation cp "${platforms[@]}" --platform manylinux2014_x86_64 --dest "$@"
}

wheels() { # GIVEN...
  local core
  rm -rf "$out/wheels"
  mkdir -p "$out/wheels"
  fetch "$out/wheels" pydantic
  fetch "$out/wheels" --no-deps "megatron-core==$MEGATRON_CORE" "transformer-engine==$TRANSFORMER_ENGINE" nvdlfw-inspect peft
  fetch "$work" --no-deps "transformer-engine-cu13==$TRANSFORMER_ENGINE"
  core=$(ls "$work"/transformer_engine_cu13-*.whl)
  python3 "$here/keep_sm.py" "$SM" "$core" "$out/wheels/$(basename "$core")"
  [ $# = 0 ] || cp "$@" "$out/wheels"
}

slurm
wheels "$@"
du -sh "$out"/*
