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

# lines that hold a secret are told to nobody
last_lines() { tail -n 20 "$log" | grep --invert-match --fixed-strings --file="$etc/secrets" || true; }
failed() {
  trap - ERR
  set +e
  gpuaas-report failed "$(printf '%s\n' "at the stage $doing:"; last_lines)"
  exit 1
}
reached() { gpuaas-report "$1" || echo "the portal was not told of $1"; }
until_true() { # SECONDS COMMAND...
  local seconds=$1 end
  shift
  end=$((SECONDS + seconds))
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "given up after $seconds s: $*"
      return 1
    fi
    sleep 3
  done
}

doing=booted
trap failed ERR
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
