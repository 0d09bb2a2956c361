#!/bin/bash
# Twice a minute, on the first head: tells the portal what pods use and wait for, and cordons the workers that are to go.
set -euo pipefail
etc=${GPUAAS_ETC:-/etc/gpuaas}
. "$etc/node.env"
export PYTHONPATH=${GPUAAS_LIB:-/usr/local/lib/gpuaas}
exec python3 -m gpuaas.providers.openstack.clusters.k3s_queue "$etc" "$GPUAAS_QUEUE_URL"
