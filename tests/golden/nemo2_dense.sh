#!/bin/bash
# llama3.1-8b: pretrain, fp8, nemo2, 128 x H100
# tp 1, pp 1, cp 2, vp 1, ep 1, dp 64; global batch 2048 = micro-batch 1 x dp 64 x 32 micro-batches
# Rendered by benchrun VERSION. By hand: cd into this directory, then sbatch job.sh
#SBATCH --job-name=llama3.1-8b
#SBATCH --nodes=16
#SBATCH --ntasks=128
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
      from=$((at[$file] > 23 && at[$file] < size ? at[$file] - 23 : 0))  # a word may have been cut
      new=$(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | LC_ALL=C grep -acF -e 'train_step_timing in s: ')
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

export NCCL_NVLS_ENABLE=0  # no NVLink SHARP: saves GPU memory, as in the published runs
export TORCH_NCCL_AVOID_RECORD_STREAMS=1  # frees communication buffers earlier
export CUDA_DEVICE_MAX_CONNECTIONS=1  # kernels start in launch order, so that communication overlaps with compute
export TRANSFORMERS_OFFLINE=1  # never ask a model hub while measuring
export NVTE_FUSED_ATTN=1  # cuDNN's fused attention, the faster one on Hopper; dgxc-benchmarking set 0 for NeMo 1's Grok-1, Nemotron-4 340B (as these recipes do) and, to v25.01, GPT-3
export TOKENIZERS_PARALLELISM=False  # data-loader processes are forked after the tokenizer has run
export NVTE_FWD_LAYERNORM_SM_MARGIN=16  # leaves processors of the GPU free for communication
export NVTE_BWD_LAYERNORM_SM_MARGIN=16  # leaves processors of the GPU free for communication
export NVTE_FLASH_ATTN=1  # attention may be flash or cuDNN's: transformer-engine takes the faster
export TORCH_NCCL_TRACE_BUFFER_SIZE=2000  # PyTorch remembers the last collectives of each rank
export TORCH_NCCL_DUMP_ON_TIMEOUT=1  # writes them when a collective takes too long: benchrun explain reads them
export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=hangs/dump_  # where it writes them
export NCCL_DEBUG=INFO  # NCCL names its links: benchrun status reads them
export NCCL_DEBUG_SUBSYS=INIT,NET  # at the start alone, not in each step
export NCCL_DEBUG_FILE=nccl/%h.%p  # in files of its own, by host and process
rm -rf hangs && mkdir hangs  # of an earlier start of this job; torch makes no folder
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

once_per_node=(--nodes=16 --ntasks=16 --ntasks-per-node=1)
step "${once_per_node[@]}" bash probe.sh || echo "benchrun: the nodes could not be described; going on" >&2

# The framework's entry point, with every value stated.
command=(
  # every value is in train_nemo2.py, next to this script
  python3 -u train_nemo2.py
)

# During the training, on every node: clocks, power, temperature. Its failure does not affect the run.
mkdir -p telemetry || true
# --mem=0: the training has all memory allocated, and this step must not take any of it.
srun --export=ALL --overlap --mem=0 "${once_per_node[@]}" bash telemetry.sh </dev/null >telemetry/errors 2>&1 &
sampler=$!
disown "$sampler"  # its driver may hang: nothing waits for it

# The framework may not print all of this; the parser reads it.
echo 'benchrun launched: {"task":"pretrain","precision":"fp8","gpu":"H100","num_gpus":128,"seq_length":8192,"gbs":2048,"mbs":1,"steps":50,"layout":{"cp":2},"model":{"num_layers":32,"hidden_size":4096,"ffn_hidden_size":14336,"num_attention_heads":32,"num_query_groups":8,"kv_channels":128,"vocab_size":128256,"max_position_embeddings":131072,"rotary_base":500000}}'

# Each rank sets the variables that PyTorch expects, then runs the command.
# shellcheck disable=SC2016  # expanded by each rank, not here
rank='export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
node=$((SLURM_LOCALID / 4))  # the NUMA node of this rank'"'"'s GPU
exec numactl --cpunodebind=$node --membind=$node "$@"'

step --kill-on-bad-exit=1 --mpi=pmix \
  '--container-image=nvcr.io#nvidia/nemo:25.07.01' \
  --container-mounts="$PWD:$PWD" --container-workdir="$PWD" \
  --container-env=MASTER_ADDR,MASTER_PORT,RANK,LOCAL_RANK,WORLD_SIZE,SLURM_JOB_ID,SLURM_JOB_NAME,SLURM_JOB_NODELIST,SLURM_LOCALID,SLURM_NNODES,SLURM_NODEID,SLURM_NTASKS,SLURM_NTASKS_PER_NODE,SLURM_PROCID,SLURM_STEP_NODELIST,SLURM_STEP_NUM_NODES,CUDA_DEVICE_MAX_CONNECTIONS,NCCL_DEBUG,NCCL_DEBUG_FILE,NCCL_DEBUG_SUBSYS,NCCL_NVLS_ENABLE,NVTE_BWD_LAYERNORM_SM_MARGIN,NVTE_FLASH_ATTN,NVTE_FUSED_ATTN,NVTE_FWD_LAYERNORM_SM_MARGIN,TOKENIZERS_PARALLELISM,TORCH_NCCL_AVOID_RECORD_STREAMS,TORCH_NCCL_DEBUG_INFO_TEMP_FILE,TORCH_NCCL_DUMP_ON_TIMEOUT,TORCH_NCCL_TRACE_BUFFER_SIZE,TRANSFORMERS_OFFLINE \
  --no-container-mount-home \
  "${reaped[@]}" bash -c "$rank" rank \
  "${command[@]}"
