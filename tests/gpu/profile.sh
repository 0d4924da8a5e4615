#!/usr/bin/env bash
# Profiles training on a GPU node that has neither Slurm nor network, under Nsight Systems and under torch's profiler.
#
#   profile.sh pack PACK              on Debian 12, with network: the libraries that nsys's importer lacks on the node
#   profile.sh run PACK OUT [SUITE [MORE...]]   on the node, as root; SUITE is a file, recipes/suites/profile-1xh100.yaml if
#                                     not given; MORE as for measure.sh
#
# PACK also needs what pack.sh and frameworks.sh (nemo2) put there. The node's nsys is that of Nsight Systems or Nsight
# Compute. OUT gets runs.tar.xz (measure.sh), and for each profiled run its fingerprint and its traces, packed, where they
# are smaller than 16 MiB. Also read: EVENT_SAMPLES=1 adds --event-sample=system-wide, as in the source presentation, and
# the variables of measure.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${BENCHRUN_HOME:-/opt/benchrun}
LARGEST=16M

pack() { # PACK
  local to work
  to=$(mkdir -p "$1/nsight" && cd "$1/nsight" && pwd) work=$(mktemp -d)
  (cd "$work" && apt-get -qq download libdw1 libelf1 libglib2.0-0 libdbus-1-3 libpcre2-8-0 libbz2-1.0)
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
  find "$work/root" -name '*.so.*' -type l -exec cp -L -t "$to" {} + # under the names by which they are loaded
  rm -rf "$work"
  du -sh "$to"
}

find_nsys() { # nothing is printed where there is none
  command -v nsys && return
  { find /opt/nvidia -path '*target-linux-x64/nsys' 2>/dev/null || true; } | sort -V | tail -n 1
}

add_libraries() { # NSYS PACK: beside the importer of NSYS, those that the node does not know
  local importer library known
  known=$(ldconfig -p)
  importer=$(dirname "$(find "$(dirname "$1")/.." -name QdstrmImporter 2>/dev/null | head -n 1)")
  [ -x "$importer/QdstrmImporter" ] || return 0
  for library in "$2"/nsight/*; do
    grep -qF "${library##*/} " <<<"$known" || [ -e "$importer/${library##*/}" ] || cp "$library" "$importer"
  done
}

traces() { # OUT: of every profiled run
  local run name
  cd "$home/src"
  for run in "$home"/results/runs/*/; do
    [ -d "$run/profile" ] || continue
    name=$(basename "$run")
    ls -l "$run/profile"
    PYTHONPATH=$home/site python3 -m benchrun fingerprint "$run" >"$1/$name.fingerprint.txt" || true
    PYTHONPATH=$home/site python3 -m benchrun fingerprint "$run" --json >"$1/$name.fingerprint.json" || true
    mkdir -p "$1/$name"
    find "$run/profile" \( -name '*.sqlite' -o -name '*.json' \) -exec xz -T0 -k {} +
    (cd "$run/profile" && find . \( -name '*.nsys-rep' -o -name '*.xz' -o -name '*.gz' \) -size "-$LARGEST" \
      -exec cp --parents -t "$1/$name" {} +)
  done
}

run() { # PACK OUT [SUITE [MORE...]]
  local pack out suite nsys gpu cudnn
  pack=$(realpath "$1") out=$(mkdir -p "$2" && realpath "$2") suite=${3:-$here/../../recipes/suites/profile-1xh100.yaml}
  nsys=$(find_nsys)
  [ -n "$nsys" ] || { echo "profile: no nsys on this node" >&2 && exit 3; }
  [ ! -d "$pack/nsight" ] || add_libraries "$nsys" "$pack"
  mkdir -p "$home/programs"
  ln -sfn "$nsys" "$home/programs/nsys"
  export PATH=$home/programs:$PATH
  nsys --version
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 2>/dev/null | awk '{ print $2 }' || true)
  sed "s/gpu: H100/gpu: ${gpu:-H100}/" "$suite" >"$out/profile.yaml"
  # With cuDNN among the traces nsys loads the node's, which must be torch's where torch has one of its own.
  cudnn=$(python3 -c 'import nvidia.cudnn; print(nvidia.cudnn.__path__[0])' 2>/dev/null || true)
  [ -z "$cudnn" ] ||
    sed -i "s|profile: {tool: nsys,|env: {LD_LIBRARY_PATH: $cudnn/lib, CUDNN_HOME: $cudnn}, &|" "$out/profile.yaml"
  [ -z "${EVENT_SAMPLES:-}" ] ||
    sed -i 's/profile: {tool: nsys,/profile: {tool: nsys, options: ["--event-sample=system-wide"],/' "$out/profile.yaml"
  bash "$here/measure.sh" "$pack" "$out" "$out/profile.yaml" "${@:4}" || echo "profile: measure.sh ended with $?" >&2
  export BENCHRUN_RESULTS=$home/results
  traces "$out"
}

case "${1:-} ${2:-} ${3:-}" in
  "pack "?*) pack "$2" ;;
  "run "?*" "?*) run "${@:2}" ;;
  *) sed -n '2,14p' "$0" && exit 2 ;;
esac
