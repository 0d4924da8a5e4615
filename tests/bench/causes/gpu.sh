#!/usr/bin/env bash
# Injects causes of slowness on a machine with one or two GPUs and without a network, and prints what benchrun explain names.
#
#   gpu.sh PACK OUT [NAME...]    PACK as tests/gpu/pack.sh made it; NAME: rows of causes.csv with `gpu`
#                                (`gpu1` where it has one GPU), all by default
#
# A case takes about a minute. After LIMIT_S (480) seconds no other one is started; name those that are left in a second
# call. OUT/causes.txt gets the lines, OUT/runs.tar.xz the runs without traces and copies of the worker.
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
python3 "$here/run.py" "${@:3}" --where "$where" --gpu "$gpu" --folder "$home/causes" --limit "${LIMIT_S:-480}" 2>&1 |
  tee "$out/causes.txt" || code=${PIPESTATUS[0]}
cd "$home"
find causes -type f -not -path '*/worker/*' -not -path '*/without/*' -not -path '*/profile/*' -size -4M -print0 |
  tar --null -T - -cJf "$out/runs.tar.xz"
exit "$code"
