#!/bin/bash
# Sets this machine up, or brings it to another release, and tells the portal of every stage. May be run again.
set -Eeuo pipefail
etc=${GPUAAS_ETC:-/etc/gpuaas}
log=${GPUAAS_LOG:-/var/log/gpuaas-boot.log}
exec 9> "$etc/lock"
flock --nonblock 9 || exit 0
. "$etc/node.env"
. "$etc/stages.sh"
( umask 077; : > "$log" )
exec >> "$log" 2>&1

why='' # the cause of a failure in one line, where a step knows it better than its last output
# what a person would read: no codes for terminals, of a line written over only its end, no progress, no secrets
readable() {
  export LC_ALL=C
  sed 's/\x1b\[[0-9;?]*[ -\/]*[@-~]//g; s/\x1b\][^\x07\x1b]*//g; s/\x1b[()][A-Z0-9]//g; s/\x1b[^[]//g; s/\r*$//; s/.*\r//' |
    tr --delete '\000-\010\013-\037\177' |
    grep --invert-match --extended-regexp --regexp='^ *$' --regexp='^(Get|Hit|Ign):[0-9]' --regexp='^\(Reading database' \
      --regexp='^Reading (package|state)' --regexp='^Building dep' --regexp='^Selecting prev' --regexp='^Progress:' \
      --regexp='[0-9]% *$' |
    grep --invert-match --fixed-strings --file="$etc/secrets"
}
failed() {
  [ "$BASHPID" = "$$" ] || exit 1 # of a subshell its parent tells
  trap - ERR
  set +e
  local lines cause
  lines=$(tail --lines 300 "$log" | readable | tail --lines 20)
  cause=$(printf '%s\n' "$why" | readable)
  lines=${lines:-a command failed and said nothing}
  gpuaas-report failed "$(printf '%s\n' "at the stage $doing: ${cause:-${lines##*$'\n'}}" "$lines")"
  exit 1
}
reached() { gpuaas-report "$1" || echo "the portal was not told of $1"; }
until_true() { # SECONDS COMMAND...; of its output only the last is kept
  local seconds=$1 end said
  shift
  end=$((SECONDS + seconds)) why=''
  until said=$("$@" 2>&1); do
    if [ "$SECONDS" -ge "$end" ]; then
      why="given up after $seconds s: $*${said:+: ${said##*$'\n'}}"
      printf '%s\n' "$said" "$why"
      return 1
    fi
    sleep 3
  done
  [ -z "$said" ] || printf '%s\n' "$said"
}

doing=booted
trap failed ERR
gpuaas-metadata
reached booted
doing=packages
stage_packages
reached packages
if [ "$GPUAAS_GPUS" -gt 0 ]; then
  doing=gpu-driver
  stage_gpu_driver
  reached gpu-driver
fi
doing=joined
stage_join
reached joined
doing=ready
stage_ready
reached ready
