#!/bin/bash
# Slurm runs it once a minute on each worker, as its HealthCheckProgram: drains the worker while something is wrong with it, says what in
# the reason, which the head reports to the portal, and lets it work again after that. What others have drained stays drained.
set -euo pipefail
export PATH=${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
etc=${GPUAAS_ETC:-/etc/gpuaas}
. "$etc/node.env"
. "$etc/stages.sh"
. "$etc/clock.sh"
mark='unhealthy:' # queue.sh looks for it
gpus_seen() { # how many. A driver that hangs keeps its program even when that is killed, so nothing waits for it: it keeps the lock
  local seen program
  exec 8> "$etc/gpus.lock"
  flock --nonblock 8 || return 1
  seen=$(mktemp --tmpdir=/dev/shm)
  nvidia-smi --list-gpus > "$seen" 2> /dev/null &
  program=$!
  exec 8>&-
  for _ in {1..75}; do
    kill -0 $program 2> /dev/null || break
    sleep 0.2
  done
  grep --count '^GPU' "$seen" || true
  rm "$seen"
  ! kill -KILL $program 2> /dev/null
}
what_is_wrong() { # the first thing, in words; nothing where all is well. Slurm ends a check after a minute
  local seen clock
  if [ "$GPUAAS_GPUS" -gt 0 ]; then
    if ! seen=$(gpus_seen); then echo 'the driver of the GPUs does not answer'; return; fi
    [ "$seen" -ge "$GPUAAS_GPUS" ] || { echo "$seen of $GPUAAS_GPUS GPUs are seen"; return; }
  fi
  # after an outage of both the head may come up last
  findmnt --mountpoint /home > /dev/null || timeout --signal KILL 15 mount /home > /dev/null 2>&1 ||
    { echo '/home of the head is not mounted'; return; }
  timeout --signal KILL 10 stat /home/. > /dev/null 2>&1 || { echo '/home of the head does not answer'; return; }
  clock=$(clock_is_right) || echo "the clock is wrong: $clock"
}
wrong=$(what_is_wrong)
lines=$(timeout 10 sinfo --noheader --Node --nodes "$GPUAAS_NODE" --Format=StateLong:40,Reason:100)
read -r state reason <<< "$lines" # the first: a line for each partition
if [[ $state != drain* ]]; then
  [ -z "$wrong" ] || scontrol update nodename="$GPUAAS_NODE" state=drain reason="$mark $wrong"
elif [[ $reason == "$mark"* ]]; then
  if [ -z "$wrong" ]; then
    scontrol update nodename="$GPUAAS_NODE" state=resume
  elif [[ $reason != "$mark $wrong" ]]; then
    scontrol update nodename="$GPUAAS_NODE" state=drain reason="$mark $wrong"
  fi
fi
