# shellcheck shell=bash
# Daemons that a script starts and later ends, and no others. Source it with $DIR set; it keeps $DIR/run and $DIR/log.

say() { echo "$(basename "$0" .sh): $*" >&2; }
die() {
  say "$*"
  exit 1
}

# A pid file holds pid and start time, so that a recycled pid is never ended.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() {
  local pid start
  [ -e "$DIR/run/$1.pid" ] && read -r pid start <"$DIR/run/$1.pid" && [ -n "$start" ] && [ "$(start_time "$pid")" = "$start" ]
}
spawn() { # NAME COMMAND...
  local name=$1
  shift
  setsid "$@" </dev/null >>"$DIR/log/$name.out" 2>&1 &
  echo "$! $(start_time $!)" >"$DIR/run/$name.pid"
}
end() { # NAME [SIGNAL]
  local pid
  alive "$1" || return 0
  read -r pid _ <"$DIR/run/$1.pid"
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  for _ in $(seq 100); do
    alive "$1" || return 0
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
}
wait_for() { # NAME COMMAND...: until it works; fails when the daemon has died or a minute is over
  local name=$1
  shift
  for _ in $(seq 300); do
    "$@" >/dev/null 2>&1 && return 0
    alive "$name" || die "$name died: $(tail -n 5 "$DIR/log/$name.out")"
    sleep 0.2
  done
  die "$name is not ready: $(tail -n 5 "$DIR/log/$name.out")"
}
