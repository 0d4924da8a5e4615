#!/bin/bash
# llama3-8b: pretrain, fp8, nemo2, 8 x H100
# tp 1, pp 1, cp 1, vp 1, ep 1, dp 8; global batch 128 = micro-batch 1 x dp 8 x 16 micro-batches
# Rendered by benchrun VERSION. By hand: cd into this directory, then sbatch job.sh
#SBATCH --job-name=llama3-8b
#SBATCH --nodes=1
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8
#SBATCH --partition=batch
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=00:30:00
#SBATCH --output=stdout.log
#SBATCH --error=stderr.log
#SBATCH --open-mode=append
# A run that Slurm restarts is not one measurement.
#SBATCH --no-requeue
set -euo pipefail

# Whatever happens, leave word of how this job ended: the only witness where there is no accounting.
rm -f done.json  # of an earlier life of this job
started=$(date -u +%FT%TZ)
signal=null
finish() {
  local code=$? stalled_s
  [ -z "${watchdog:-}" ] || kill -KILL "$watchdog" 2>/dev/null || true
  read -r stalled_s 2>/dev/null <no_step_s || stalled_s=null  # what the watchdog ended it for
  # KILL and not TERM: srun must not wait here for a node that does not answer. Slurm ends its tasks with the job.
  if [ -n "${sampler:-}" ]; then kill -KILL "$sampler" 2>/dev/null || true; wait "$sampler" 2>/dev/null || true; fi
  printf '{"schema_version": 1, "exit_code": %d, "signal": %s, "started": "%s", "ended": "%s", "restarts": %d, "job_id": "%s", "host": "%s", "no_step_s": %s}\n' \
    "$code" "$signal" "$started" "$(date -u +%FT%TZ)" "${SLURM_RESTART_COUNT:-0}" "${SLURM_JOB_ID:-$$}" "$(uname -n)" "$stalled_s" >done.json.tmp
  mv done.json.tmp done.json
}
trap finish EXIT
trap 'signal=\"TERM\"; exit 143' TERM

# Beside the training, on this node: every 15 s, how long no line and no step has come, for who asks how it ended.
rm -f progress.json no_step_s  # of an earlier life of this job
watch() {
  set +eu +o pipefail  # nothing here may end the job
  local pause file size from new quiet=$SECONDS stepped=$SECONDS lines=0 step_file=null step_offset=0
  declare -A at
  exec {pause}<> <(:)  # what never has a line: to read it is to sleep, without a process that outlives this one
  for file in stdout.log stderr.log; do at[$file]=$(stat -c %s "$file" || echo 0); done
  while
    printf '{"schema_version": 1, "checked": "%s", "quiet_s": %d, "no_step_s": %d, "step_lines": %d, "step_file": %s, "step_offset": %d}\n' \
      "$(date -u +%FT%TZ)" $((SECONDS - quiet)) $((SECONDS - stepped)) "$lines" "$step_file" "$step_offset" >progress.json.tmp &&
      mv -f progress.json.tmp progress.json
    read -rt 15 -u "$pause"
    kill -0 $$
  do
    for file in stdout.log stderr.log; do
      size=$(stat -c %s "$file" || echo 0)
      [ "$size" -ne "${at[$file]}" ] || continue
      quiet=$SECONDS
      from=$((at[$file] > 23 && at[$file] < size ? at[$file] - 23 : 0))  # a word may have been cut
      new=$(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | LC_ALL=C grep -acF -e 'train_step_timing in s: ')
      at[$file]=$size
      if [ "${new:-0}" -gt 0 ]; then
        stepped=$SECONDS lines=$((lines + new)) step_file="\"$file\"" step_offset=$from
      fi
    done
  done
}
# Run by hand, what it prints may go elsewhere: then there is nothing to watch.
if [ /dev/fd/1 -ef stdout.log ]; then
  watch 3>&2 2>/dev/null </dev/null >/dev/null &
  watchdog=$!
  disown "$watchdog"
fi

export NCCL_NVLS_ENABLE=0  # no NVLink SHARP: saves GPU memory, as in the published runs
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # less fragmentation of GPU memory
export TORCH_NCCL_AVOID_RECORD_STREAMS=1  # frees communication buffers earlier
export TRANSFORMERS_OFFLINE=1  # never ask a model hub while measuring
export NVTE_FUSED_ATTN=1  # cuDNN's fused attention, the faster one on Hopper
export TOKENIZERS_PARALLELISM=False  # data-loader processes are forked after the tokenizer has run
export NVTE_FWD_LAYERNORM_SM_MARGIN=16  # leaves processors of the GPU free for communication
export NVTE_BWD_LAYERNORM_SM_MARGIN=16  # leaves processors of the GPU free for communication
export NVTE_FLASH_ATTN=1  # attention may be flash or cuDNN's: transformer-engine takes the faster
export TORCH_NCCL_HIGH_PRIORITY=1  # communication kernels go first

# In the background, because bash runs no trap while it waits for a program: ranks that ignore TERM must not keep
# done.json from being written.
step() { srun "$@" & wait "$!"; }

# Before the command of a task: what that leaves behind on its node, in whichever session, ends with it.
# shellcheck disable=SC2016  # expanded on the nodes
reaped=(
  bash -c 'type -P python3 >/dev/null && exec python3 -I -S -c "$@"
[ "${SLURM_LOCALID:-0}" != 0 ] || echo "benchrun: no python3 on $(uname -n): what detaches itself from a rank may outlive it" >&2
shift
exec "$@"' reaped \
  '"""Runs a command, ends every process that it has left behind, in whichever session, and ends as the command did."""

import os
import signal
import sys
from pathlib import Path

SUBREAPER, DUMPABLE = 36, 4  # options of prctl(2)
PASSED_ON = "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU"
command, child = sys.argv[1:], 0


def pass_on(number, _):
    """Slurm may send a signal to this process alone."""
    if child:
        os.kill(child, number)


def killed(pid):
    """Whether the kernel knows it as a child of this process and has killed it."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        os.kill(pid, signal.SIGKILL)
    except (ChildProcessError, PermissionError):
        return False
    return True


for name in "PIPE", "XFSZ", "CHLD":  # Python ignores two of them, and who started it may ignore the third
    signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
# From now on whatever loses its parent below this process becomes its child: nothing leaves the tree.
try:
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    failed = prctl(SUBREAPER, 1, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    failed = True
if failed:
    sys.stderr.write("benchrun: no child subreaper here: what detaches itself from a rank may outlive it\n")
    os.execvp(command[0], command)
numbers = [getattr(signal, "SIG" + name) for name in PASSED_ON]
for number in numbers:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, pass_on)
child = os.spawnvp(os.P_NOWAIT, command[0], command)
while True:
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
    if ended == child:
        break
    os.waitpid(ended, 0)
for number in numbers:
    signal.signal(number, signal.SIG_IGN)
status = os.waitpid(child, 0)[1]
while True:
    mine = [pid for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")) if killed(pid)]
    if not mine:
        break
    for pid in mine:
        os.waitpid(pid, 0)
if os.WIFSIGNALED(status):
    number = os.WTERMSIG(status)
    prctl(DUMPABLE, 0, 0, 0, 0)  # one core file is enough
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    sys.exit(128 + number)  # process 1 of a container gets no signal of its own
sys.exit(os.WEXITSTATUS(status))
'
)

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)  # not head: it hangs up on a long list
MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))  # of this job alone, and below 32768: Linux gives those above to anybody
export MASTER_ADDR MASTER_PORT

step --nodes=1 --ntasks=1 --ntasks-per-node=1 bash probe.sh ||
  echo "benchrun: the nodes could not be described; going on" >&2

# The framework's own entry point, every value stated.
command=(
  # every value stands in train_nemo2.py, beside this script
  python3 -u train_nemo2.py
)

# What each rank does: give PyTorch the names it expects, then run the command.
# shellcheck disable=SC2016  # expanded by each rank, not here
rank='export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
node=$((SLURM_LOCALID / 4))  # the NUMA node beside this rank'"'"'s GPU
exec numactl --cpunodebind=$node --membind=$node "$@"'

# Beside the training, on every node: clocks, power, temperature. Without it the run is the same. The memory is the
# training's already, and this takes none of it away (--mem=0).
mkdir -p telemetry || true
srun --overlap --mem=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 bash telemetry.sh \
  </dev/null >telemetry/errors 2>&1 &
sampler=$!

step --kill-on-bad-exit=1 --mpi=pmix \
  '--container-image=nvcr.io#nvidia/nemo:25.07.01' \
  --container-mounts="$PWD:$PWD" --container-workdir="$PWD" \
  --container-env=MASTER_ADDR,MASTER_PORT,RANK,LOCAL_RANK,WORLD_SIZE,SLURM_JOB_ID,SLURM_JOB_NAME,SLURM_JOB_NODELIST,SLURM_LOCALID,SLURM_NNODES,SLURM_NODEID,SLURM_NTASKS,SLURM_NTASKS_PER_NODE,SLURM_PROCID,SLURM_STEP_NODELIST,SLURM_STEP_NUM_NODES,NCCL_NVLS_ENABLE,NVTE_BWD_LAYERNORM_SM_MARGIN,NVTE_FLASH_ATTN,NVTE_FUSED_ATTN,NVTE_FWD_LAYERNORM_SM_MARGIN,PYTORCH_CUDA_ALLOC_CONF,TOKENIZERS_PARALLELISM,TORCH_NCCL_AVOID_RECORD_STREAMS,TORCH_NCCL_HIGH_PRIORITY,TRANSFORMERS_OFFLINE \
  --no-container-mount-home \
  "${reaped[@]}" bash -c "$rank" rank \
  "${command[@]}"
