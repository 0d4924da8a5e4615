#!/bin/bash
# Samples this node's GPUs once per second into telemetry/<host>.csv: one task per node, ended by the job.
set -u
command -v nvidia-smi >/dev/null || exit 0
mkdir -p telemetry
file=telemetry/$(uname -n).csv  # not $HOSTNAME: srun passes on that of the first node
fields=timestamp,index,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu,utilization.gpu,memory.used
# Why a clock is below its maximum; older drivers use another name.
reasons=clocks_event_reasons.active
nvidia-smi --query-gpu=$reasons --format=csv,noheader >/dev/null 2>&1 || reasons=clocks_throttle_reasons.active
echo "time,gpu,sm_clock_mhz,memory_clock_mhz,power_w,power_limit_w,temperature_c,utilisation_percent,memory_mib,reasons" >"$file"
# On a shared node, only the GPUs of this job.
own=${CUDA_VISIBLE_DEVICES:+--id=$CUDA_VISIBLE_DEVICES}
nvidia-smi ${own:+"$own"} --query-gpu=index --format=csv,noheader >/dev/null 2>&1 || own=
export TZ=UTC0  # nvidia-smi writes local time
exec nvidia-smi ${own:+"$own"} --query-gpu=$fields,$reasons --format=csv,noheader,nounits --loop=1 >>"$file"
