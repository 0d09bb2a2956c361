packages_install() {
  export DEBIAN_FRONTEND=noninteractive TERM=dumb
  [ "$#" -gt 0 ] || return 0
  # without the mode a list that cannot be had is a warning only; some other list may be broken, so the packages decide
  until_true 120 'the lists of packages could not be fetched' apt-get update --quiet=2 --option APT::Update::Error-Mode=any ||
    echo 'not all lists of packages could be had: those that are there have to do'
  why=''
  apt-get install --quiet=2 --yes --no-install-recommends --option Dpkg::Options::=--force-confold --option Dpkg::Use-Pty=0 "$@"
}
fetch() { # URL FILE
  local said
  if ! said=$(curl --silent --show-error --fail --location --retry 5 --output "$2" "$1" 2>&1); then
    why="could not download $1: ${said##*$'\n'}"
    echo "$why"
    return 1
  fi
}
# restarts a unit and waits until what it is for is so: systemctl alone says yes to a unit that it skips, or that dies a moment later
service_start() { # UNIT SECONDS CHECK...
  local unit=$1 seconds=$2 waited=0
  shift 2
  systemctl enable --quiet "$unit"
  timeout "$seconds" systemctl restart "$unit" || true
  service_wait "$unit" "$seconds" "$@" || waited=$?
  if [ "$waited" != 0 ]; then
    journalctl --unit "$unit" --lines 10 --no-pager --output cat || true
    return 1
  fi
}
service_wait() { # UNIT SECONDS CHECK...
  local unit=$1 seconds=$2
  shift 2
  until_true "$seconds" "$unit has not come up" service_does "$unit" "$@"
}
service_does() { # UNIT CHECK...
  if ! systemctl is-active --quiet "$1"; then
    echo "systemd reports it as $(systemctl is-active "$1")"
    return 1
  fi
  shift
  "$@"
}
says() { # PATTERN COMMAND...: what it says is told, and has to be so
  local pattern=$1 said
  shift
  said=$("$@" 2>&1) || { echo "${said:-there is no answer}"; return 1; }
  echo "${said:-the answer is empty}"
  [[ $said =~ $pattern ]]
}
gpus_by_driver() { nvidia-smi --list-gpus | tee /dev/stderr | grep --count '^GPU' || true; }
gpus_on_bus() { # displays and 3D controllers: switches, bridges and sound have the same vendor
  local each count=0
  for each in "${GPUAAS_BUS:-/sys/bus/pci/devices}"/*; do
    [ -e "$each/class" ] || continue
    [[ $(< "$each/vendor") == 0x10de && $(< "$each/class") == 0x03* ]] && count=$((count + 1))
  done
  echo "$count"
}
gpus_expect() { # NUMBER
  why="$1 of $GPUAAS_GPUS GPUs are seen"
  echo "$why"
  [ "$1" -ge "$GPUAAS_GPUS" ]
}
