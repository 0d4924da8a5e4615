#!/bin/bash
# Ends a container with the shell that started it. podman and docker start the ranks outside the job step: when Slurm
# kills the step, SIGKILL reaches the client alone, and process 1 of a container ignores SIGTERM.
# Outside, this shell holds a named pipe open. Inside, as process 1, it exits when the pipe is closed, and with process 1
# the kernel kills every process of the container.
#
#   contained.sh outside podman run ... IMAGE bash contained.sh inside COMMAND...
set -u
side=$1
shift
if [ "$side" = outside ]; then
  BENCHRUN_PIPE=$PWD/.pipe.$(uname -n).$$
  export BENCHRUN_PIPE
  mkfifo "$BENCHRUN_PIPE" || exit
  exec 9<>"$BENCHRUN_PIPE"
  trap : TERM  # the client gets it too and passes it on: wait for the container's end
  "$@" 9>&-  # the client must not hold the pipe: podman's monitor inherits its files and outlives it
  code=$?
  rm -f "$BENCHRUN_PIPE"
  exit "$code"
fi
# shellcheck disable=SC2094
exec 8<>"$BENCHRUN_PIPE" 7<"$BENCHRUN_PIPE" 8>&-  # 8 first: opening for reading alone would wait for a writer
rm -f "$BENCHRUN_PIPE"
trap 'exit 143' TERM
# Processes of several containers have the same number.
[ -z "${NCCL_DEBUG_FILE-}" ] || export NCCL_DEBUG_FILE="${NCCL_DEBUG_FILE/\%p/${RANK:-%p}}"
"$@" 7<&- &
read -r _ <&7 &
wait -n
