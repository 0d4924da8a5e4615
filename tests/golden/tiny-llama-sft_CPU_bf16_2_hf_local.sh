#!/bin/bash
# tiny-llama-sft: sft, bf16, hf, 2 x CPU
# tp 1, pp 1, cp 1, vp 1, ep 1, dp 2; global batch 8 = micro-batch 2 x dp 2 x 2 micro-batches
# Rendered by benchrun VERSION. By hand: cd into this directory, then bash job.sh
set -euo pipefail

# Whatever happens, leave word of how this job ended: the only witness where there is no accounting.
rm -f done.json  # of an earlier life of this job
started=$(date -u +%FT%TZ)
signal=null
finish() {
  local code=$?
  printf '{"schema_version": 1, "exit_code": %d, "signal": %s, "started": "%s", "ended": "%s", "restarts": %d, "job_id": "%s", "host": "%s"}\n' \
    "$code" "$signal" "$started" "$(date -u +%FT%TZ)" "${SLURM_RESTART_COUNT:-0}" "${SLURM_JOB_ID:-$$}" "$(uname -n)" >done.json.tmp
  mv done.json.tmp done.json
}
trap finish EXIT
trap 'signal=\"TERM\"; exit 143' TERM

export OMP_NUM_THREADS=1  # one CPU thread a rank: ranks share the machine
export HF_HUB_OFFLINE=1  # never ask a model hub while measuring
export TOKENIZERS_PARALLELISM=false  # data-loader processes are forked after the tokenizer has run
export PYTHONPATH=worker${PYTHONPATH:+:$PYTHONPATH}

bash probe.sh || echo "benchrun: this machine could not be described; going on" >&2

# The framework's own entry point, every value stated.
command=(
  python3 -u -m benchrun.trainer.huggingface --spec spec.json
)

# torchrun starts the ranks and gives each its RANK, LOCAL_RANK and WORLD_SIZE.
python3 -m torch.distributed.run --standalone --nproc-per-node=2 --no-python "${command[@]}"
