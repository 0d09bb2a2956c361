packages_install() {
  export DEBIAN_FRONTEND=noninteractive
  [ "$#" -gt 0 ] || return 0
  until_true 300 apt-get update --quiet
  apt-get install --quiet --yes --no-install-recommends --option Dpkg::Options::=--force-confold "$@"
}
gpus_by_driver() { nvidia-smi --list-gpus | grep --count '^GPU'; }
gpus_on_bus() { cat /sys/bus/pci/devices/*/vendor | grep --count --ignore-case 0x10de; }
gpus_expect() { # NUMBER
  echo "$1 of $GPUAAS_GPUS GPUs are seen"
  [ "$1" -ge "$GPUAAS_GPUS" ]
}
