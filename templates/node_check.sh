#!/bin/bash
# What a job finds on a node, for benchrun doctor: lines of a key, a tab and a value. Before each part the key "begun"
# names it, so that one that hangs is known.
#   node_check.sh PYTHON SETUP [path=PATH | program=NAME | image=NAME]...  (images after the program that has them)
say() { printf '%s\t%s\n' "$1" "$2"; }
say begun "a node"
say host "$(uname -n)"
[ -z "${BENCHRUN_DOCTOR:-}" ] || say environment yes
: >clock && say clock "$(($(date +%s) - $(stat -c %Y clock)))"  # this node's against that of the file system
python=$1 setup=$2
shift 2
for item; do
  name=${item#path=}
  [ "$name" != "$item" ] || continue
  say begun "$name"
  [ -e "$name" ] || continue
  say path "$name"
  if [ -f "$name" ] && ! [ -s "$name" ]; then say empty "$name"; fi
  if [ -d "$name" ] && [ -r "$name" ] && [ -z "$(ls -A "$name")" ]; then say empty "$name"; fi
done
if [ -n "$setup" ]; then
  say begun setup
  set +e
  exec 3>&1
  trap 'trap - EXIT; exit 143' TERM # whoever stops a check that hangs gets no answer
  trap 'code=$?; exec >&3; say left "$code"; say end yes' EXIT
  eval "$setup" >/dev/null 2>&1
  say setup "$?"
  trap - EXIT
fi
say begun python
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) && say python "$version"
for device in /sys/class/infiniband/*; do
  [ ! -e "$device" ] || say device "${device##*/}"
done
say begun nvidia-smi
nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | while read -r name; do say gpu "$name"; done
for item; do
  name=${item#program=}
  if [ "$name" != "$item" ] && command -v "$name" >/dev/null 2>&1; then
    say program "$name"
    case $name in
      docker | podman)
        say begun "$name"
        if answer=$("$name" info 2>&1); then engine=$name; else say silent "${answer##*$'\n'}"; fi
        ;;
    esac
  fi
  name=${item#image=}
  if [ "$name" != "$item" ] && [ -n "${engine:-}" ]; then
    say begun "$name"
    "$engine" image inspect "$name" >/dev/null 2>&1 || timeout 10 "$engine" manifest inspect "$name" >/dev/null 2>&1 ||
      say "no image" "$name"
  fi
done
say end yes
