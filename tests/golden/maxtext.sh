#!/bin/bash
# llama2-70b: pretrain, fp8, maxtext, 2048 x H100
# tp 1, pp 1, cp 1, vp 1, ep 1, fsdp 128, dp 2048; global batch 4096 = micro-batch 2 x dp 2048 x 1 micro-batches
# Rendered by benchrun VERSION. By hand: cd into this directory, then sbatch job.sh
#SBATCH --job-name=llama2-70b
#SBATCH --nodes=256
#SBATCH --ntasks=2048
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
      from=$((at[$file] > 15 && at[$file] < size ? at[$file] - 15 : 0))  # a word may have been cut
      new=$(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | LC_ALL=C grep -acF -e 'completed step: ')
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
export XLA_FLAGS='--xla_gpu_enable_triton_gemm=false --xla_gpu_graph_level=0 --xla_gpu_enable_highest_priority_async_stream=true --xla_gpu_enable_pipelined_all_gather=true --xla_gpu_enable_pipelined_reduce_scatter=true --xla_gpu_enable_pipelined_all_reduce=true --xla_gpu_enable_while_loop_double_buffering=true --xla_gpu_enable_triton_softmax_fusion=false --xla_gpu_enable_all_gather_combine_by_dim=false --xla_gpu_enable_reduce_scatter_combine_by_dim=false --xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_all_reduce_combine_threshold_bytes=1073741824 --xla_gpu_all_gather_combine_threshold_bytes=536870912 --xla_disable_hlo_passes=rematerialization --xla_gpu_reduce_scatter_combine_threshold_bytes=4194304'  # how XLA orders and combines communication, as in the published runs
export XLA_PYTHON_CLIENT_MEM_FRACTION=0.94  # how much of the GPU's memory JAX takes at once
export CUDA_DEVICE_MAX_CONNECTIONS=1  # kernels start in launch order, so that communication overlaps with compute
export NCCL_DEBUG=INFO  # NCCL names its links: benchrun status reads them
export NCCL_DEBUG_SUBSYS=INIT,NET  # at the start alone, not in each step
export NCCL_DEBUG_FILE=nccl/%h.%p  # in files of its own, by host and process
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

once_per_node=(--nodes=256 --ntasks=256 --ntasks-per-node=1)
step "${once_per_node[@]}" bash probe.sh || echo "benchrun: the nodes could not be described; going on" >&2

# The framework's entry point, with every value stated.
command=(
  python3 -u /opt/maxtext/MaxText/train.py /opt/maxtext/MaxText/configs/base.yml
  run_name=benchrun base_output_directory=maxtext-log model_name=default hardware=gpu_multiprocess
  # model
  decoder_block=llama2 num_experts=1
  base_num_decoder_layers=80 base_emb_dim=8192 base_mlp_dim=28672
  base_num_query_heads=64 base_num_kv_heads=8 head_dim=128
  vocab_size=32000 max_target_length=4096 rope_max_timescale=10000
  normalization_layer_epsilon=1e-05 logits_via_embedding=false logits_dot_in_fp32=false use_iota_embed=true
  attention=cudnn_flash_te enable_dropout=false dropout_rate=0.0 scan_layers=true
  # layout: gradients are averaged over data, weights and optimizer sharded over fsdp; ici within a node, dcn between nodes
  ici_fsdp_parallelism=8 ici_data_parallelism=1 ici_tensor_parallelism=1 ici_sequence_parallelism=1
  dcn_fsdp_parallelism=16 dcn_data_parallelism=16 dcn_tensor_parallelism=1 dcn_sequence_parallelism=1
  # activations kept for the backward pass
  remat_policy=save_dot_except_mlp
  # precision: FP8 with delayed scaling, E4M3 forward and E5M2 backward
  dtype=bfloat16 weight_dtype=float32 quantization=fp8
  # training
  per_device_batch_size=2 gradient_accumulation_steps=1 steps=50
  opt_type=adamw learning_rate=3e-06 cosine_learning_rate_final_fraction=0.1
  warmup_steps_fraction=0.0 learning_rate_schedule_steps=50
  adam_b1=0.9 adam_b2=0.95 adam_weight_decay=0.1 gradient_clipping_threshold=1.0
  init_weights_seed=1234
  # data: generated by MaxText; no tokenizer
  dataset_type=synthetic dataset_path=local reuse_example_batch=0
  # no other work in the measured time
  enable_checkpointing=false async_checkpointing=false eval_interval=-1 profiler= gcs_metrics=false save_config_to_gcs=false
  monitor_goodput=false enable_goodput_recording=false log_period=51
)

# During the training, on every node: clocks, power, temperature. Its failure does not affect the run.
mkdir -p telemetry || true
# --mem=0: the training has all memory allocated, and this step must not take any of it.
srun --export=ALL --overlap --mem=0 "${once_per_node[@]}" bash telemetry.sh </dev/null >telemetry/errors 2>&1 &
sampler=$!
disown "$sampler"  # its driver may hang: nothing waits for it

# The framework may not print all of this; the parser reads it.
echo 'benchrun launched: {"task":"pretrain","precision":"fp8","gpu":"H100","num_gpus":2048,"seq_length":4096,"gbs":4096,"mbs":2,"steps":50,"layout":{"fsdp":128},"model":{"num_layers":80,"hidden_size":8192,"ffn_hidden_size":28672,"num_attention_heads":64,"num_query_groups":8,"kv_channels":128,"vocab_size":32000,"max_position_embeddings":4096}}'

# Each rank sets the variables that PyTorch expects, then runs the command.
# shellcheck disable=SC2016  # expanded by each rank, not here
rank='export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
node=$((SLURM_LOCALID / 4))  # the NUMA node of this rank'"'"'s GPU
# Not numactl: this runs inside the image, and JAX images have none. Linux allocates memory near the CPU anyway.
exec taskset --cpu-list "$(cat /sys/devices/system/node/node$node/cpulist)" "$@"'

step --kill-on-bad-exit=1 --mpi=pmix \
  '--container-image=ghcr.io#nvidia/jax:maxtext-2024-12-09' \
  --container-mounts="$PWD:$PWD" --container-workdir="$PWD" \
  --container-env=MASTER_ADDR,MASTER_PORT,RANK,LOCAL_RANK,WORLD_SIZE,SLURM_JOB_ID,SLURM_JOB_NAME,SLURM_JOB_NODELIST,SLURM_LOCALID,SLURM_NNODES,SLURM_NODEID,SLURM_NTASKS,SLURM_NTASKS_PER_NODE,SLURM_PROCID,SLURM_STEP_NODELIST,SLURM_STEP_NUM_NODES,CUDA_DEVICE_MAX_CONNECTIONS,NCCL_DEBUG,NCCL_DEBUG_FILE,NCCL_DEBUG_SUBSYS,NVTE_FUSED_ATTN,XLA_FLAGS,XLA_PYTHON_CLIENT_MEM_FRACTION \
  --no-container-mount-home \
  "${reaped[@]}" bash -c "$rank" rank \
  "${command[@]}"
