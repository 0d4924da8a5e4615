#!/bin/bash
# Describes this node as JSON in probe/<host>.json: one task per node runs it before the training.
#   probe.sh [PYTHON]    PYTHON: without a container, what starts the framework; its packages are named too
set -u
mkdir -p probe
host=$(uname -n)  # not $HOSTNAME: srun passes on that of the first node
field() { sed -n "s/^$1[[:space:]]*:[[:space:]]*//p" "$2" 2>/dev/null | head -n 1 | tr -d '\\"'; }
part=probe/.$host.part
# bounded SECONDS COMMAND...: its output is in $part. One that does not end is named, and nothing waits for it: what
# hangs in the kernel, in a driver or on a file system, cannot be killed.
bounded() {
  local limit=$1 command timer code
  shift
  timeout -k 5 "$limit" "$@" >"$part" 2>/dev/null <&0 &
  command=$!
  sleep $((limit + 10)) &
  timer=$!
  disown "$timer"
  while kill -0 "$command" 2>/dev/null && kill -0 "$timer" 2>/dev/null; do sleep 0.1; done
  if kill -0 "$command" 2>/dev/null; then
    code=137
    disown "$command"
  else
    kill "$timer" 2>/dev/null
    wait "$command"
    code=$?
  fi
  case $code in 124 | 137) echo "benchrun: $1 gave no answer in $limit s on $host; going on without it" >&2 ;; esac
  return "$code"
}
versions='{}'
if [ $# -gt 0 ]; then
  # The versions of the packages that train, as PYTHON imports them; a source tree states its own.
  bounded 60 "$1" - <<'PYTHON'
import importlib.metadata, importlib.util, json, os, runpy
os.environ["NO_VCS_VERSION"] = "1"  # megatron-core would ask git
SOURCES = {"nemo-toolkit": "nemo", "megatron-bridge": "megatron.bridge", "megatron-core": "megatron.core"}
OTHERS = ("transformer-engine", "transformers", "lightning", "jax", "vllm", "sglang", "trl", "torch")
found = {}
for name in (*SOURCES, *OTHERS):
    try:
        source = importlib.util.find_spec(SOURCES[name]) if name in SOURCES else None
        file = source and source.origin and os.path.join(os.path.dirname(source.origin), "package_info.py")
        stated = runpy.run_path(file) if file and os.path.exists(file) else {}
        version = stated.get("__version__") or importlib.metadata.version(name)
        if isinstance(version, str) and version.isprintable():
            found[name] = version
    except BaseException:
        pass  # not installed, or what is imported to find it ends or fails
print("\nbenchrun versions: " + json.dumps(found), flush=True)
PYTHON
  found=$(sed -n 's/^benchrun versions: //p' "$part" | tail -n 1)  # what else is printed on the way is not JSON
  versions=${found:-$versions}
fi
query=driver_version,name,uuid,memory.total,power.limit,clocks.sm,clocks.max.sm,clocks.mem,ecc.mode.current,pstate
bounded 30 nvidia-smi --query-gpu=$query --format=csv,noheader,nounits </dev/null || : >"$part"
{
  printf '{"schema_version": 1, "host": "%s", "kernel": "%s", "machine": "%s", ' "$host" "$(uname -r)" "$(uname -m)"
  printf '"cpu": "%s", "cpus": %d, "memory_kib": %d, ' \
    "$(field 'model name' /proc/cpuinfo)" "$(env -u OMP_NUM_THREADS nproc)" "$(field MemTotal /proc/meminfo | tr -dc 0-9)"
  [ $# -eq 0 ] || printf '"versions": %s, ' "$versions"
  # One line per GPU; none without nvidia-smi.
  printf '"driver": "%s", "gpus": [' "$(sed -n '1s/, .*//p' "$part")"
  awk -F', ' '{ printf "%s{\"name\": \"%s\", \"uuid\": \"%s\", \"memory_mib\": \"%s\", \"power_limit_w\": \"%s\", \"sm_clock_mhz\": \"%s\", \"max_sm_clock_mhz\": \"%s\", \"memory_clock_mhz\": \"%s\", \"ecc\": \"%s\", \"pstate\": \"%s\"}", (NR > 1 ? ", " : ""), $2, $3, $4, $5, $6, $7, $8, $9, $10 }' "$part"
  printf ']}\n'
} >"probe/$host.json.tmp"
rm -f "$part"
mv "probe/$host.json.tmp" "probe/$host.json"
