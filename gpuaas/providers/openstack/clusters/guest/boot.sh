#!/bin/bash
# Sets this machine up, or brings it to another release, and tells the portal of every stage. May be run again.
set -Eeuo pipefail
etc=${GPUAAS_ETC:-/etc/gpuaas}
log=${GPUAAS_LOG:-/run/gpuaas-boot.log} # in memory: a full disk still has words
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
program_of() { # COMMAND as it is written: the program that it starts, and what it is to do; nothing of the shell's own
  local name rest
  read -r name rest <<< "${1##*\$(}"
  name=${name%%[)\"]*}
  if ! [[ $name =~ ^[a-z0-9_./-]+$ ]] || declare -F "$name" > /dev/null || ! type -P "$name" > /dev/null; then return; fi
  if [[ $rest =~ ^([a-z]+)( |$) ]]; then name="$name ${BASH_REMATCH[1]}"; fi
  printf %s "${name##*/}"
}
cause_of() { # COMMAND LINES...: in one sentence
  local program full last=${2##*$'\n'}
  program=$(program_of "$1")
  full=$(df --output=avail,target / /var /tmp | awk '$1 == "0" { print $2; exit }')
  if [ -n "$full" ]; then
    echo "the disk of $full is full${program:+, so $program failed}"
  elif [ -n "$why" ]; then
    printf '%s\n' "$why" | readable
  elif [ -n "$program" ]; then
    echo "$program failed${last:+: $last}"
  else
    echo "${last:-the setup stopped and gave no reason}"
  fi
}
failed() { # COMMAND
  [ "$BASHPID" = "$$" ] || exit 1 # of a subshell its parent tells
  trap - ERR
  set +e
  local lines cause
  lines=$(tail --lines 300 "$log" | readable | tail --lines 20)
  cause=$(cause_of "$1" "$lines")
  gpuaas-report failed "$(printf '%s\n' "at the stage $doing: $cause" "$lines")"
  exit 1
}
begin() { doing=$1 why=''; }
reached() { gpuaas-report "$1" || echo "the portal was not told of $1"; }
until_true() { # SECONDS WHAT-HAS-NOT-COME-TRUE COMMAND...; of its output only the last is kept
  local seconds=$1 what=$2 end said
  shift 2
  end=$((SECONDS + seconds)) why=''
  until said=$("$@" 2>&1); do
    if [ "$SECONDS" -ge "$end" ]; then
      why="$what within $seconds s${said:+: ${said##*$'\n'}}"
      printf '%s\n' "$said" "$why"
      return 1
    fi
    sleep 3
  done
  [ -z "$said" ] || printf '%s\n' "$said"
}

begin booted
trap 'failed "$BASH_COMMAND"' ERR
gpuaas-metadata
reached booted
begin packages
stage_packages
reached packages
if [ "$GPUAAS_GPUS" -gt 0 ]; then
  begin gpu-driver
  stage_gpu_driver
  reached gpu-driver
fi
begin joined
stage_join
reached joined
begin ready
stage_ready
reached ready
