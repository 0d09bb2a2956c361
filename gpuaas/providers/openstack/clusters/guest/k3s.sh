stage_packages() {
  # shellcheck disable=SC2086
  packages_install $GPUAAS_PACKAGES
  local base="$GPUAAS_K3S_URL/v$GPUAAS_RELEASE%2Bk3s1" suffix='' arch=amd64
  if [ "$(uname --machine)" = aarch64 ]; then suffix=-arm64 arch=arm64; fi
  local new=/usr/local/bin/k3s.new sums=/usr/local/bin/k3s.sums
  fetch "$base/k3s$suffix" "$new"
  fetch "$base/sha256sum-$arch.txt" "$sums"
  why="$base/k3s$suffix is not what $base/sha256sum-$arch.txt says"
  awk -v name="k3s$suffix" -v file="$new" '$2 == name { print $1 "  " file }' "$sums" | sha256sum --check
  chmod 0755 "$new"
  mv "$new" /usr/local/bin/k3s
}
stage_gpu_driver() {
  # without a driver in the image the GPU operator brings one, so the cards are enough
  if command -v nvidia-smi; then gpus_expect "$(gpus_by_driver)"; else gpus_expect "$(gpus_on_bus)"; fi
}
peer_find() { # the address of a head that answers, if any
  local head
  for head in $GPUAAS_HEADS; do
    if [ "$head" != "$GPUAAS_ADDRESS" ] && curl --silent --insecure --max-time 3 --output /dev/null "https://$head:6443/ping"; then
      echo "server: https://$head:6443" > /etc/rancher/k3s/config.yaml.d/peer.yaml
      return 0
    fi
  done
  return 1
}
stage_join() {
  mkdir -p /etc/rancher/k3s/config.yaml.d
  # several heads keep their data together: whoever finds another joins it, and only the first may begin alone
  if [ "$GPUAAS_ROLE" = server ] && [ "$GPUAAS_HEADS" != "$GPUAAS_ADDRESS" ] && [ ! -e /var/lib/rancher/k3s/server/db/etcd ]; then
    if [ "${GPUAAS_HEADS%% *}" = "$GPUAAS_ADDRESS" ]; then
      peer_find || echo 'cluster-init: true' > /etc/rancher/k3s/config.yaml.d/peer.yaml
    else
      until_true 900 'no other head has answered' peer_find
    fi
  fi
  systemctl daemon-reload
  service_start k3s 900 node_is_known
}
node_says() { # JSONPATH
  k3s kubectl --kubeconfig /var/lib/rancher/k3s/agent/kubelet.kubeconfig get node "$GPUAAS_NODE" --output "jsonpath=$1"
}
node_is_known() { says "^v$GPUAAS_RELEASE" node_says '{.status.nodeInfo.kubeletVersion}'; }
node_is_ready() { says '^True$' node_says '{.status.conditions[?(@.type=="Ready")].status}'; }
stage_ready() {
  if [ "$GPUAAS_ROLE" = server ]; then until_true 600 'the API server has not become ready' k3s kubectl get --raw /readyz; fi
  until_true 600 'Kubernetes has not reported the machine as ready' node_is_ready
  if [ -e /etc/gpuaas/queue.header ]; then systemctl enable --quiet --now gpuaas-queue.timer; fi
}
