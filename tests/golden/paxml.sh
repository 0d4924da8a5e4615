#!/bin/bash
# gpt3-5b: pretrain, fp8, paxml, 256 x H100
# tp 1, pp 1, cp 1, vp 1, ep 1, fsdp 256, dp 256; global batch 2048 = micro-batch 8 x dp 256 x 1 micro-batches
# Rendered by benchrun VERSION. By hand: cd into this directory, then sbatch job.sh
#SBATCH --job-name=gpt3-5b
#SBATCH --nodes=32
#SBATCH --ntasks=256
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8
#SBATCH --partition=batch
#SBATCH --mem=0
#SBATCH --time=00:30:00
#SBATCH --output=stdout.log
#SBATCH --error=stderr.log
#SBATCH --open-mode=append
# A run that Slurm restarts is not one measurement.
#SBATCH --no-requeue
# Nor does it depend on the limits of the submitting shell, or on what a site passes on by default.
#SBATCH --propagate=NONE
#SBATCH --export=ALL
#SBATCH --exclusive
set -euo pipefail

# Write done.json however this job ends: without accounting it is the only record.
rm -f done.json  # of an earlier start of this job
started=$(date -u +%FT%TZ)
signal=null
finish() {
  local code=$? stalled_s
  [ -z "${watchdog:-}" ] || kill -KILL "$watchdog" 2>/dev/null || true
  read -r stalled_s 2>/dev/null <no_step_s || stalled_s=null  # why the watchdog ended it
  # KILL and not TERM: srun must not wait here for a node that does not answer. Slurm ends its tasks with the job.
  [ -z "${sampler:-}" ] || kill -KILL "$sampler" 2>/dev/null || true
  printf '{"schema_version": 1, "exit_code": %d, "signal": %s, "started": "%s", "ended": "%s", "restarts": %d, "job_id": "%s", "host": "%s", "no_step_s": %s}\n' \
    "$code" "$signal" "$started" "$(date -u +%FT%TZ)" "${SLURM_RESTART_COUNT:-0}" "${SLURM_JOB_ID:-$$}" "$(uname -n)" "$stalled_s" >done.json.tmp
  mv done.json.tmp done.json
}
trap finish EXIT
ended() { signal="\"$(kill -l "$1")\""; exit $((128 + $1)); }
for number in {1..64}; do
  # shellcheck disable=SC2064 # the number of now, not that of the loop's end
  case $number in
    4 | 7 | 8 | 9 | 11 | 1[7-9] | 2[0-3] | 28 | 32 | 33) ;; # defects of bash itself, and what ends no process
    *) trap "ended $number" "$number" ;;
  esac
done

# In the background: every 15 s, record in progress.json for how long the log has had no line and no step.
rm -f progress.json no_step_s  # of an earlier start of this job
watch() {
  set +eu +o pipefail  # nothing here may end the job
  local pause file size from new before late paused=0 now=$SECONDS lines=0 step_file=null step_offset=0
  local quiet=$now stepped=$now
  declare -A at
  exec {pause}<> <(:)  # never has a line: reading it with a timeout sleeps without starting a process
  for file in stdout.log stderr.log; do at[$file]=$(stat -c %s "$file" || echo 0); done
  while
    printf '{"schema_version": 1, "checked": "%s", "quiet_s": %d, "no_step_s": %d, "step_lines": %d, "step_file": %s, "step_offset": %d}\n' \
      "$(date -u +%FT%TZ)" $((now - quiet)) $((now - stepped)) "$lines" "$step_file" "$step_offset" >progress.json.tmp &&
      mv -f progress.json.tmp progress.json
    before=$SECONDS
    read -rt 15 -u "$pause"
    kill -0 $$
  do
    late=$((SECONDS - before - 15))  # the job was suspended, which is no time without a step
    [ "$late" -le 1 ] || paused=$((paused + late))
    now=$((SECONDS - paused))
    for file in stdout.log stderr.log; do
      size=$(stat -c %s "$file" || echo 0)
      [ "$size" -ne "${at[$file]}" ] || continue
      quiet=$now
      from=$((at[$file] > 8 && at[$file] < size ? at[$file] - 8 : 0))  # a word may have been cut
      new=$(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | LC_ALL=C grep -acF -e steps/sec)
      at[$file]=$size
      if [ "${new:-0}" -gt 0 ]; then
        stepped=$now lines=$((lines + new)) step_file="\"$file\"" step_offset=$from
      fi
    done
  done
}
# Run by hand, the output may go elsewhere: then there is no log to watch.
if [ /dev/fd/1 -ef stdout.log ]; then
  watch 3>&2 2>/dev/null </dev/null >/dev/null &
  watchdog=$!
  disown "$watchdog"
fi

export NVTE_FUSED_ATTN=1  # cuDNN's fused attention, the faster one on Hopper; dgxc-benchmarking set 0 for NeMo 1's Grok-1, Nemotron-4 340B (as these recipes do) and, to v25.01, GPT-3
export XLA_FLAGS='--xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_enable_triton_gemm=false --xla_gpu_enable_highest_priority_async_stream=true --xla_gpu_enable_triton_softmax_fusion=false --xla_gpu_graph_level=0 --xla_gpu_all_reduce_combine_threshold_bytes=51200'  # how XLA orders and combines communication, as in the published runs
export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9  # how much of the GPU's memory JAX takes at once
export ENABLE_TE=1  # transformer-engine's layers in PaXML, fused attention among them
export ENABLE_FP8=1  # transformer-engine's FP8 in PaXML
export VOCAB_PATH=gs://t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model  # PaXML asks for one on import; the experiment reads none
export NCCL_DEBUG=INFO  # NCCL names its links: benchrun status reads them
export NCCL_DEBUG_SUBSYS=INIT,NET  # at the start alone, not in each step
export NCCL_DEBUG_FILE=nccl/%h.%p  # in files of its own, by host and process
export HOPPER_EXPERIMENTAL_OVERRIDE=1
rm -rf nccl && mkdir nccl  # NCCL makes no folder

# In the background, because bash runs no trap while a program runs in the foreground: done.json must be written even
# if ranks ignore TERM.
step() { srun --export=ALL "$@" & wait "$!"; }

# Each task runs under this reaper: processes that it leaves on its node end with it, whatever their session or parent.
# shellcheck disable=SC2016  # expanded on the nodes
reaped=(
  bash -c 'type -P python3 >/dev/null && exec python3 -I -S -c "$@"
[ "${SLURM_LOCALID:-0}" != 0 ] || echo "benchrun: no python3 on $(uname -n): what detaches itself from a rank may outlive it" >&2
shift
exec "$@"' reaped \
  REAPER
)

export PATH  # bash has one even where the job's environment is empty
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)  # not head: it would close the pipe early
MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))  # per job, and below 32768, where Linux assigns no ports itself
export MASTER_ADDR MASTER_PORT

once_per_node=(--nodes=32 --ntasks=32 --ntasks-per-node=1)
step "${once_per_node[@]}" bash probe.sh || echo "benchrun: the nodes could not be described; going on" >&2

# The framework's entry point, with every value stated.
command=(
  # every value is in paxml_point.py, next to this script
  python3 -u -m paxml.main --fdl_config=paxml_point.Point --job_log_dir=paxml-log --mode=train --enable_checkpoint_saving=False --multiprocess_gpu --alsologtostderr
)

# During the training, on every node: clocks, power, temperature. Its failure does not affect the run.
mkdir -p telemetry || true
# --mem=0: the training has all memory allocated, and this step must not take any of it.
srun --export=ALL --overlap --mem=0 "${once_per_node[@]}" bash telemetry.sh </dev/null >telemetry/errors 2>&1 &
sampler=$!
disown "$sampler"  # its driver may hang: nothing waits for it

# The framework may not print all of this; the parser reads it.
echo 'benchrun launched: {"task":"pretrain","precision":"fp8","gpu":"H100","num_gpus":256,"seq_length":2048,"gbs":2048,"mbs":8,"steps":50,"layout":{"fsdp":256},"model":{"num_layers":24,"hidden_size":4096,"ffn_hidden_size":16384,"num_attention_heads":32,"num_query_groups":32,"kv_channels":128,"vocab_size":51200,"max_position_embeddings":2048,"activation":"gelu","normalization":"LayerNorm","position_embedding":"learned","bias":true,"tied_embeddings":true}}'

# Each rank sets the variables that PyTorch expects, then runs the command.
# shellcheck disable=SC2016  # expanded by each rank, not here
rank='export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
exec 2>&1  # it prints its steps to stderr
node=$((SLURM_LOCALID / 4))  # the NUMA node of this rank'"'"'s GPU
# Not numactl: this runs inside the image, and JAX images have none. Linux allocates memory near the CPU anyway.
exec taskset --cpu-list "$(cat /sys/devices/system/node/node$node/cpulist)" "$@"'

step --kill-on-bad-exit=1 --mpi=pmix \
  '--container-image=ghcr.io#nvidia/jax:pax-2024-03-04' \
  --container-mounts="$PWD:$PWD" --container-workdir="$PWD" \
  --container-env=MASTER_ADDR,MASTER_PORT,RANK,LOCAL_RANK,WORLD_SIZE,SLURM_JOB_ID,SLURM_JOB_NAME,SLURM_JOB_NODELIST,SLURM_LOCALID,SLURM_NNODES,SLURM_NODEID,SLURM_NTASKS,SLURM_NTASKS_PER_NODE,SLURM_PROCID,SLURM_STEP_NODELIST,SLURM_STEP_NUM_NODES,ENABLE_FP8,ENABLE_TE,HOPPER_EXPERIMENTAL_OVERRIDE,NCCL_DEBUG,NCCL_DEBUG_FILE,NCCL_DEBUG_SUBSYS,NVTE_FUSED_ATTN,VOCAB_PATH,XLA_FLAGS,XLA_PYTHON_CLIENT_MEM_FRACTION \
  --no-container-mount-home \
  "${reaped[@]}" bash -c "$rank" rank \
  "${command[@]}"
