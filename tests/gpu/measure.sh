#!/usr/bin/env bash
# Measures suites on a GPU node that has neither Slurm nor network: benchrun launch -> sbatch -> srun -> log -> compare.
#
#   measure.sh PACK OUT SUITE...
#   measure.sh PACK OUT study:NAME...
#   measure.sh PACK OUT tune:RECIPE
#
# PACK as pack.sh and frameworks.sh made it; OUT gets runs.tar.xz; SUITE is a name or a file. A study runs with STUDY_STEPS
# (11) steps on the node's kind of GPU and with STUDY_OPTIONS (--profile kineto --set training.breakdown=true), reuses the
# runs of the studies before it, and leaves its page in OUT/NAME.md. Traces of studies come back in parts of 15 MiB:
# cat OUT/traces.tar.* | tar x.
# tune:RECIPE searches the fastest layout on all GPUs (TUNE holds more options, as --vary mbs=1,2), leaves it in
# OUT/RECIPE.json, and then tries every other layout in the time that is left: the search against the sweep.
# The SUITE nodes is a check of this node, alone before all others.
# With REPEATS=N each point of a suite runs N times forth and back (A B B A, sides.py), on whichever GPU the node has; in
# the time that is left, runs whose steps vary or whose rank is slow run again.
#
# All jobs are queued at once and Slurm puts them on the GPUs. What has not ended after LIMIT_S (480) seconds is cancelled,
# so that the rest comes back in time. Also read: MEM_MIB and FAKE_GPUS (node.sh), BENCHRUN_COMMIT (where there is no .git).
# The last thing printed is the table. Exit code as of benchrun compare.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '2,21p' "$0" && exit 2; }
pack=$(realpath "$1") out=$(mkdir -p "$2" && realpath "$2")
suites=()
for suite in "${@:3}"; do # a file is named from here, not from where it is launched
  [ ! -f "$suite" ] || suite=$(realpath "$suite")
  suites+=("$suite")
done
checkout=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
home=${BENCHRUN_HOME:-/opt/benchrun} # a neutral place: its paths stand in logs and results
deadline=$((SECONDS + ${LIMIT_S:-480}))
export BENCHRUN_NODE_DIR=$home/slurm BENCHRUN_RESULTS=$home/results PYTHONPATH=$home/site PYTHONUNBUFFERED=1

# shellcheck disable=SC2317  # the trap calls it
pack_up() { # whatever happened: the runs without the copies of the worker, and what Slurm said
  bash "$checkout/tests/gpu/node.sh" stop || true
  cd "$home"
  find results slurm/log -type f -not -path '*/worker/*' -not -path '*/profile/*' -not -path 'results/data/*' -size -16M -print0 |
    tar --null -T - -cJf "$out/runs.tar.xz"
  case "${STUDY_OPTIONS:-}" in *--profile*)
    find results/runs -path '*/profile/*' -name '*.gz' -size -15M -print0 |
      tar --null -T - -c | split -b 15M - "$out/traces.tar."
    ;;
  esac
}

rm -rf "${home:?}"/{src,site,frameworks,results,sides}
mkdir -p "$home"/{src,site,frameworks,results/runs,sides,slurm/log}
trap pack_up EXIT
tar -C "$checkout" -c benchrun datagen recipes templates results/reference tests/gpu | tar -C "$home/src" -x
if [ -d "$pack/wheels" ]; then
  python3 -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
    --root-user-action=ignore --target "$home/site" "$pack"/wheels/*.whl
fi
for archive in "$pack"/frameworks/*.tar.xz; do [ ! -f "$archive" ] || tar -C "$home/frameworks" -xJf "$archive"; done
bash "$checkout/tests/gpu/node.sh" start "$pack"
eval "$(bash "$checkout/tests/gpu/node.sh" env)"

cd "$home/src"
gpus=$(find "$BENCHRUN_NODE_DIR/dev" -name 'gpu*' | wc -l)
cpus=$(sinfo -h -o %c)
gpu=CPU
[ "${FAKE_GPUS:-0}" -gt 0 ] || gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0 | awk '{ print $2 }')
installed=() # where each framework of the pack is
for folder in "$home"/frameworks/*/; do
  [ -f "$folder/pythonpath" ] || continue
  folders=$(tr : '\n' <"$folder/pythonpath" | sed "s|^|$folder|" | paste -sd:)
  installed+=(--set "cluster.frameworks.$(basename "$folder").path=$folders")
done
site=(--cluster tests/gpu/node.yaml --set "cluster.gpu=$gpu" --set "cluster.gpus_per_node=$gpus" "${installed[@]}")
site+=(--set "cluster.cpus_per_task=$((cpus / gpus))" --set "cluster.env.PYTHONPATH=$home/site")
queue() { # SUITE: its runs, in order; SUITE.ids has their ids
  python3 -m benchrun launch "$1" "${site[@]}" | tee "$home/sides/$(basename "$1").ids" ||
    echo "measure: $1 was not launched whole" >&2
}

await() { while [ -n "$(squeue -h)" ] && [ $SECONDS -lt $deadline ]; do sleep 2; done; }

for suite in "${suites[@]}"; do
  case $suite in study:* | tune:*) continue ;; esac
  if [ "$suite" = nodes ]; then
    python3 -m benchrun nodes tests/gpu/node.yaml --num-nodes 1 "${site[@]:2}" || echo "measure: nodes ended with $?" >&2
    continue
  fi
  if [ -n "${REPEATS:-}" ]; then
    [ -f "$suite" ] || suite=recipes/suites/$suite.yaml
    python3 tests/gpu/sides.py order "$suite" "$gpu" "$REPEATS" >"$home/sides/$(basename "$suite")"
    suite=$home/sides/$(basename "$suite")
  fi
  queue "$suite"
done
for suite in "${suites[@]}"; do
  name=${suite#study:} left=$((deadline - SECONDS))
  if [ "$suite" = "$name" ] || [ $left -le 0 ]; then continue; fi
  study=(python3 -m benchrun study "$name" --gpu "$gpu" "${site[@]}" --set "training.steps=${STUDY_STEPS:-11}")
  read -ra more <<<"${STUDY_OPTIONS:-}"
  study+=("${more[@]}")
  echo "measure: study $name after $SECONDS s"
  timeout "$left" "${study[@]}" --concurrency "$gpus" --reuse || echo "measure: study $name is not complete" >&2
  "${study[@]}" --report --format markdown >"$out/$name.md" || true
done

for suite in "${suites[@]}"; do
  name=${suite#tune:} left=$((deadline - SECONDS))
  if [ "$suite" = "$name" ] || [ $left -le 0 ]; then continue; fi
  read -ra more <<<"${TUNE:---precision bf16 --set model.num_layers=8 --vary mbs=1,2}"
  tune=(python3 -m benchrun study "$name" --tune --gpu "$gpu" --num-gpus "$gpus" "${site[@]}" "${more[@]}")
  timeout "$left" "${tune[@]}" || echo "measure: the search for $name is not complete" >&2
  "${tune[@]}" --report --json >"$out/$name.json"
  "${tune[@]}" --report
  # The sweep: every layout over as many steps as the search's first jobs.
  python3 - "$out/$name.json" "$out/$name.sweep.yaml" "$name" <<'PYTHON'
import json, sys
layouts = json.load(open(sys.argv[1]))["layouts"]
runs = [{"recipe": sys.argv[3], "set": dict(each.split("=", 1) for each in layout["overrides"])} for layout in layouts]
json.dump({"description": "Every layout", "runs": runs}, open(sys.argv[2], "w"))  # JSON is YAML
PYTHON
  point=() # without what a study does not know
  for ((i = 0; i < ${#more[@]}; i += 2)); do [ "${more[i]}" = --vary ] || point+=("${more[i]}" "${more[i + 1]}"); done
  sweep=(python3 -m benchrun study "$out/$name.sweep.yaml" --gpu "$gpu" --num-gpus "$gpus" "${site[@]}" "${point[@]}")
  left=$((deadline - SECONDS))
  [ $left -le 0 ] || timeout "$left" "${sweep[@]}" --set training.steps=12 --concurrency 1 --reuse || true
  "${sweep[@]}" --set training.steps=12 --report --format markdown >"$out/$name.md" || true
done

await
for suite in "$home"/sides/*.yaml; do
  if [ ! -f "$suite" ] || [ -n "$(squeue -h)" ]; then continue; fi
  mapfile -t ids <"$suite.ids"
  python3 -m benchrun compare "${ids[@]}" >/dev/null || true # for their metrics
  python3 tests/gpu/sides.py again "$suite" "$BENCHRUN_RESULTS/runs" "${ids[@]}" >"$home/sides/again.yaml" || continue
  ! grep -q recipe "$home/sides/again.yaml" || queue "$home/sides/again.yaml"
  await
done
if [ -n "$(squeue -h)" ]; then
  echo "measure: out of time, cancelling what is left" >&2
  squeue -h -o %j | xargs python3 -m benchrun cancel
  while [ -n "$(squeue -h)" ]; do sleep 1; done
fi

mapfile -t ids < <(cd "$BENCHRUN_RESULTS/runs" && find . -mindepth 2 -maxdepth 2 -name spec.json | sort | cut -d/ -f2)
[ ${#ids[@]} -gt 0 ] || exit 3
code=0
python3 -m benchrun compare "${ids[@]}" || code=$?
python3 -m benchrun status "${ids[@]}"
python3 -m benchrun report
[ -z "${REPEATS:-}" ] || python3 -m benchrun report --by framework
exit $code
