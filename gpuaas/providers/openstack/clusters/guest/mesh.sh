# of a cluster with pools at several sites: a machine without the tunnel would be ready, and its pods alone
tunnel_is_up() { ip link show flannel-wg up | grep --quiet flannel-wg; }
stage_ready() {
  if [ "$GPUAAS_ROLE" = server ]; then until_true 600 k3s kubectl get --raw /readyz; fi
  until_true 600 node_is_ready
  until_true 300 tunnel_is_up
}
