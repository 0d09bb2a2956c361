# of a cluster with pools at several sites: a machine without the tunnel would be ready, and its pods alone
tunnel_is_up() { ip link show flannel-wg up | grep --quiet flannel-wg; }
stage_ready() {
  if [ "$GPUAAS_ROLE" = server ]; then until_true 600 'the API server has not become ready' k3s kubectl get --raw /readyz; fi
  until_true 600 'Kubernetes has not reported the machine as ready' node_is_ready
  until_true 300 'the WireGuard tunnel has not come up' tunnel_is_up
}
