#!/bin/bash
# Sets this machine up, or brings it to another release, and tells the portal of every stage. May be run again. What goes wrong is also
# written to the console, where the site can read it of a machine that does not reach the portal.
set -Eeuo pipefail
etc=${GPUAAS_ETC:-/etc/gpuaas}
log=${GPUAAS_LOG:-/run/gpuaas-boot.log} # in memory: a full disk still has words
exec 9> "$etc/lock"
flock --nonblock 9 || exit 0
. "$etc/node.env"
. "$etc/stages.sh"
. "$etc/clock.sh"
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
  local program full known last=${2##*$'\n'}
  program=$(program_of "$1")
  known=$(printf '%s\n' "$why" | readable)
  full=$(df --output=avail,target / /var /tmp | awk '$1 == "0" { print $2; exit }')
  if [ -n "$full" ]; then
    echo "the disk of $full is full${program:+, so $program failed}"
  elif [[ $2 == *'No space left on device'* ]]; then # apt takes back what it could not finish
    echo "the disk is full${program:+, so $program failed}"
  elif [ -n "$known" ]; then
    printf '%s\n' "$known"
  elif [ -n "$program" ]; then
    echo "$program failed${last:+: $last}"
  else
    echo "${last:-the setup stopped and gave no reason}"
  fi
}
console() { # SENTENCE; a console that takes nothing holds up no boot
  printf 'gpuaas: %s\n' "${1%%$'\n'*}" | timeout 5 tee "${GPUAAS_CONSOLE:-/dev/console}" > /dev/null || true
}
failed() { # COMMAND
  [ "$BASHPID" = "$$" ] || exit 1 # of a subshell its parent tells
  trap - ERR
  set +e
  local lines cause
  lines=$(tail --lines 300 "$log" | readable | tail --lines 20)
  cause="at the stage $doing: $(cause_of "$1" "$lines")"
  console "$cause"
  gpuaas-report failed "$(printf '%s\n' "$cause" "$lines")"
  exit 1
}
begin() { doing=$1 why=''; }
reached() {
  local said
  if ! said=$(gpuaas-report "$1" 2>&1); then
    said="the stage $1 could not be reported: ${said##*$'\n'}"
    echo "$said"
    console "$(readable <<< "$said")"
  fi
}
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
until_true "${GPUAAS_CLOCK_SECONDS:-120}" 'the clock has not come right' clock_is_right
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
