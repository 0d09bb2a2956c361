#!/bin/bash
# The user data holds keys of the cluster, and the metadata service gives it to every process of the machine. From here on only root's own
# processes reach it: what others ask, and what comes out of containers, is refused by the kernel's routing.
set -euo pipefail
shut() { # FAMILY ADDRESS
  # networkd removes the rules of others but the kernel's
  [ -n "$(ip "-$1" rule show priority 91)" ] || ip "-$1" rule add priority 91 to "$2" prohibit protocol kernel
  [ -n "$(ip "-$1" rule show priority 90)" ] || ip "-$1" rule add priority 90 iif lo to "$2" uidrange 0-0 lookup main protocol kernel
}
shut 4 169.254.169.254
if [ -e /proc/net/if_inet6 ]; then shut 6 fe80::a9fe:a9fe; fi
