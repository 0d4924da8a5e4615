#!/bin/bash
# Runs the command of a rank, under Nsight Systems if the rank is one of those that are profiled: bash nsys.sh COMMAND...
# Before the range begins and after its end nsys is attached and records nothing.
set -eu
rank=${RANK:-0}
case $rank in
  0) ;;
  *) exec "$@" ;;
esac
if ! type -P nsys >/dev/null; then
  echo "benchrun: rank $rank finds no nsys on its PATH: NVIDIA's images have it; elsewhere install Nsight Systems" >&2
  exit 127
fi
# Without samples of the CPU, unless the recipe asks for them: a report of a few steps would have gigabytes of them.
exec nsys profile --trace=cuda,cudnn,cublas,osrt,nvtx --sample=none --cpuctxsw=none --show-output=true \
  --capture-range=cudaProfilerApi --capture-range-end=stop \
  --output="profile/rank$rank" --force-overwrite=true --export=sqlite \
  "$@"
