#!/bin/bash
# Describes this node as JSON in probe/<host>.json: one task per node runs it before the training.
set -u
mkdir -p probe
host=$(uname -n)  # not $HOSTNAME: srun passes on that of the first node
field() { sed -n "s/^$1[[:space:]]*:[[:space:]]*//p" "$2" 2>/dev/null | head -n 1 | tr -d '\\"'; }
{
  printf '{"schema_version": 1, "host": "%s", "kernel": "%s", "machine": "%s", ' "$host" "$(uname -r)" "$(uname -m)"
  printf '"cpu": "%s", "cpus": %d, "memory_kib": %d, ' \
    "$(field 'model name' /proc/cpuinfo)" "$(env -u OMP_NUM_THREADS nproc)" "$(field MemTotal /proc/meminfo | tr -dc 0-9)"
  # One line per GPU; none without nvidia-smi.
  printf '"driver": "%s", "gpus": [' \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
  nvidia-smi --query-gpu=name,uuid,memory.total,power.limit,clocks.sm,clocks.max.sm,clocks.mem,ecc.mode.current,pstate \
    --format=csv,noheader,nounits 2>/dev/null |
    awk -F', ' '{ printf "%s{\"name\": \"%s\", \"uuid\": \"%s\", \"memory_mib\": \"%s\", \"power_limit_w\": \"%s\", \"sm_clock_mhz\": \"%s\", \"max_sm_clock_mhz\": \"%s\", \"memory_clock_mhz\": \"%s\", \"ecc\": \"%s\", \"pstate\": \"%s\"}", (NR > 1 ? ", " : ""), $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
  printf ']}\n'
} >"probe/$host.json.tmp"
mv "probe/$host.json.tmp" "probe/$host.json"
