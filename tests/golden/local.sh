#!/bin/bash
# tiny-llama: pretrain, fp32, megatron-core, 4 x CPU
# tp 2, pp 1, cp 1, vp 1, ep 1, dp 2; global batch 8 = micro-batch 2 x dp 2 x 2 micro-batches
# Rendered by benchrun VERSION. By hand: cd into this directory, then bash job.sh
unset "${!SLURM_@}" RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT  # of a job that this one runs in
export BENCHRUN_RUN_DIR=${BENCHRUN_RUN_DIR:-$(pwd -P)}  # the mark of every process of this run
set -euo pipefail

# Write done.json however this job ends: without accounting it is the only record.
rm -f done.json  # of an earlier start of this job
started=$(date -u +%FT%TZ)
signal=null
finish() {
  local code=$? stalled_s
  [ -z "${watchdog:-}" ] || kill -KILL "$watchdog" 2>/dev/null || true
  read -r stalled_s 2>/dev/null <no_step_s || stalled_s=null  # why the watchdog ended it
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
      from=$((at[$file] > 27 && at[$file] < size ? at[$file] - 27 : 0))  # a word may have been cut
      new=$(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | LC_ALL=C grep -acF -e 'elapsed time per iteration (')
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

export OMP_NUM_THREADS=1  # one CPU thread a rank: ranks share the machine
export PYTHONPATH=worker${PYTHONPATH:+:$PYTHONPATH}

bash probe.sh || echo "benchrun: this machine could not be described; going on" >&2

# The framework's entry point, with every value stated.
command=(
  # every value is in spec.json, next to this script
  python3 -u -m benchrun.worker --spec spec.json
)

# torchrun starts the ranks and sets RANK, LOCAL_RANK and WORLD_SIZE.
python3 -m torch.distributed.run --standalone --nproc-per-node=4 --no-python "${command[@]}"
