stage_packages() {
  local ours
  if [ "$GPUAAS_ROLE" = server ]; then
    ours="slurmctld=$GPUAAS_RELEASE* slurm-client=$GPUAAS_RELEASE* munge nfs-kernel-server"
  else
    ours="slurmd=$GPUAAS_RELEASE* slurm-client=$GPUAAS_RELEASE* munge nfs-common"
  fi
  # shellcheck disable=SC2086
  packages_install $ours $GPUAAS_PACKAGES
  install --owner munge --group munge --mode 0400 /etc/gpuaas/munge.key /etc/munge/munge.key
  systemctl restart munge
}
stage_gpu_driver() { gpus_expect "$(gpus_by_driver)"; }
stage_join() {
  if [ "$GPUAAS_ROLE" = server ]; then
    install --directory --owner slurm --group slurm --mode 0700 /var/spool/slurmctld
    install --mode 0644 /etc/gpuaas/slurm.conf /etc/gpuaas/gres.conf /etc/gpuaas/cgroup.conf /etc/slurm/
    echo "/home $GPUAAS_NETWORK(rw,no_subtree_check)" > /etc/exports.d/gpuaas.exports
    exportfs -ra
    systemctl enable slurmctld
    systemctl restart slurmctld
  else
    local head=${GPUAAS_HEADS%% *}
    grep --quiet "^$head:/home " /etc/fstab || echo "$head:/home /home nfs defaults,_netdev 0 0" >> /etc/fstab
    mountpoint --quiet /home || until_true 900 mount /home
    cp /etc/gpuaas/slurmd.default /etc/default/slurmd
    systemctl enable slurmd
    systemctl restart slurmd
  fi
}
controller_is_up() { scontrol ping | grep --quiet 'is UP'; }
worker_is_idle() { sinfo --noheader --Node --nodes "$GPUAAS_NODE" --format %T | grep --quiet --extended-regexp '^(idle|mixed|allocated)'; }
stage_ready() {
  if [ "$GPUAAS_ROLE" = server ]; then until_true 300 controller_is_up; else until_true 600 worker_is_idle; fi
}
