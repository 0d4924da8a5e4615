#!/usr/bin/env bash
# Injects causes of slowness on a machine with one or two GPUs and without a network, and brings the runs home.
#
#   gpu.sh PACK OUT [NAME...]    PACK as tests/gpu/pack.sh made it; NAME: rows of causes.csv with `gpu`
#                                (`gpu1` where it has one GPU), all by default
#
# A run takes about half a minute. After LIMIT_S (480) seconds no other one is started; name those that are left in a
# second call. OUT/runs.tar.* are the runs with their traces, in parts of 15 MiB. To explain them, on any machine:
#
#   cat OUT/runs.tar.* | tar x && python tests/bench/causes/run.py --where gpu1 --folder causes --again
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,9p' "$0" && exit 2; }
pack=$(realpath "$1") out=$(mkdir -p "$2" && realpath "$2")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
home=${BENCHRUN_HOME:-/opt/benchrun}
mkdir -p "$home/site" "$home/causes"
if [ -d "$pack/wheels" ]; then
  python3 -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
    --root-user-action=ignore --target "$home/site" "$pack"/wheels/*.whl
fi
export PYTHONPATH=$home/site PYTHONUNBUFFERED=1
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 | awk '{ print $2 }')
where=gpu
[ "$(nvidia-smi --list-gpus | wc -l)" -gt 1 ] || where=gpu1
code=0
python3 "$here/run.py" "${@:3}" --where "$where" --gpu "$gpu" --folder "$home/causes" --limit "${LIMIT_S:-480}" --only-runs ||
  code=$?
cd "$home"
find causes -type f -not -path '*/worker/*' -not -name 'injected-*' -print0 | tar --null -T - -c | split -b 15M - "$out/runs.tar."
exit "$code"
