stage_packages() {
  local ours
  if [ "$GPUAAS_ROLE" = server ]; then
    ours="slurmctld=$GPUAAS_RELEASE* slurmdbd=$GPUAAS_RELEASE* mariadb-server nfs-kernel-server"
  else
    ours="slurmd=$GPUAAS_RELEASE* nfs-common"
  fi
  # shellcheck disable=SC2086
  packages_install $ours "slurm-client=$GPUAAS_RELEASE*" munge libnss-extrausers rclone openmpi-bin environment-modules \
    ${GPUAAS_TUNNEL:+wireguard-tools procps} $GPUAAS_PACKAGES
  logins_known
  pmix_found
  if [ -n "$GPUAAS_TUNNEL" ]; then mpi_beside_tunnel; fi
  install --owner munge --group munge --mode 0400 /etc/gpuaas/munge.key /etc/munge/munge.key
  service_start munge 30 munge_works
}
# the head keeps the logins of members beside the system's own accounts, and publishes them at /home, where workers look
logins_known() {
  sed --in-place --regexp-extended '/extrausers/! s/^(passwd|group|shadow):.*/& extrausers/' /etc/nsswitch.conf
  [ "$GPUAAS_ROLE" = agent ] || return 0
  local file
  mkdir --parents /var/lib/extrausers
  for file in passwd group; do ln --symbolic --force /home/.gpuaas/$file /var/lib/extrausers/$file; done
}
# Debian's Slurm loads PMIx by a name that only the package of its headers has
pmix_found() {
  local library
  for library in /usr/lib/*/pmix2/lib/libpmix.so.2; do
    [ ! -e "$library" ] || ln --symbolic --force libpmix.so.2 "${library%.2}"
  done
}
# machines at one site exchange MPI's data directly; by the tunnel all of it would pass through the head
mpi_beside_tunnel() {
  local parameters=/etc/openmpi/openmpi-mca-params.conf
  grep --quiet '^btl_tcp_if_exclude' $parameters || echo 'btl_tcp_if_exclude = 127.0.0.1/8,gpuaas' >> $parameters
}
# of a cluster with pools at other sites: the head, and each worker there
tunnel_start() {
  local file=/etc/wireguard/gpuaas.conf
  install --directory --mode 0700 /etc/wireguard
  if [ "$GPUAAS_ROLE" = server ]; then
    ( umask 077; gpuaas-tunnel /etc/gpuaas/tunnel.json > $file )
    service_start wg-quick@gpuaas 120 tunnel_listens
  else
    install --mode 0600 /etc/gpuaas/tunnel.conf $file
    service_start wg-quick@gpuaas 300 tunnel_works
  fi
}
tunnel_listens() { says '^[0-9]+$' wg show gpuaas listen-port; }
tunnel_works() { # the head has answered at least once
  if ! [[ $(wg show gpuaas latest-handshakes) =~ [[:space:]][1-9] ]]; then
    echo "the head does not answer at $(wg show gpuaas endpoints | cut --fields 2)"
    return 1
  fi
}
munge_works() { munge --no-input | unmunge; }
stage_gpu_driver() { gpus_expect "$(gpus_by_driver)"; }
stage_join() {
  if [ -n "$GPUAAS_TUNNEL" ]; then tunnel_start; fi
  if [ "$GPUAAS_ROLE" = server ]; then
    install --directory --owner slurm --group slurm --mode 0700 /var/spool/slurmctld
    install --mode 0644 /etc/gpuaas/slurm.conf /etc/gpuaas/gres.conf /etc/gpuaas/cgroup.conf /etc/slurm/
    mpi_default >> /etc/slurm/slurm.conf
    install --owner slurm --group slurm --mode 0600 /etc/gpuaas/slurmdbd.conf /etc/slurm/
    install --directory /etc/exports.d
    local network
    for network in "$GPUAAS_NETWORK" ${GPUAAS_TUNNEL:+"$GPUAAS_TUNNEL_NETWORK"}; do
      echo "/home $network(rw,no_subtree_check)"
    done > /etc/exports.d/gpuaas.exports
    exportfs -ra
    service_start nfs-server 60 home_is_shared
    accounting_start
    service_start slurmctld 120 controller_is_up
  else
    local head=${GPUAAS_HEADS%% *}
    local options=defaults,_netdev${GPUAAS_TUNNEL:+,x-systemd.after=wg-quick@gpuaas.service}
    grep --quiet "^$head:/home " /etc/fstab || echo "$head:/home /home nfs $options 0 0" >> /etc/fstab
    mountpoint --quiet /home || until_true 900 '/home of the head could not be mounted' mount /home
    install -D --mode 0644 /etc/gpuaas/slurmd.default /etc/default/slurmd
    service_start slurmd 600 worker_is_registered
  fi
}
# a default that this Slurm cannot load would let no job start
mpi_default() { if says '(^|[[:space:]])pmix([[:space:]]|$)' srun --mpi=list > /dev/null; then echo MpiDefault=pmix; fi; }
home_is_shared() { says '/home ' exportfs; }
# the account of jobs: slurmdbd comes in at the socket as the user that it is, so there is no password
accounting_start() {
  service_start mariadb 120 mariadb --execute 'SELECT 1'
  mariadb --execute 'CREATE DATABASE IF NOT EXISTS slurm_acct_db; CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
    GRANT ALL ON slurm_acct_db.* TO slurm@localhost'
  service_start slurmdbd 300 clusters_known
  local name
  name=$(sed --quiet 's/^ClusterName=//p' /etc/slurm/slurm.conf)
  clusters_known | grep "^$name|" || sacctmgr --immediate add cluster "$name"
}
clusters_known() { sacctmgr --noheader --parsable2 list cluster format=cluster,controlhost; }
controller_is_up() { says 'is UP' scontrol ping; }
accounting_is_up() { says '[|].' clusters_known; }
worker_is_registered() { says "Version=$GPUAAS_RELEASE" scontrol --oneliner show node "$GPUAAS_NODE"; }
# what was wrong with an earlier machine of this name is over, but what is to go stays drained; refused where nothing was wrong
replaced_resume() {
  local reason
  read -r reason <<< "$(timeout 10 sinfo --noheader --Node --nodes "$GPUAAS_NODE" --Format Reason:100)" || true
  [[ $reason == gpuaas* ]] || scontrol update nodename="$GPUAAS_NODE" state=resume > /dev/null 2>&1 || true
}
worker_is_idle() {
  says '^(idle|mixed|allocated|completing|planned|reserved)-?$' \
    sinfo --noheader --Node --nodes "$GPUAAS_NODE" --format %T
}
stage_ready() {
  if [ "$GPUAAS_ROLE" = server ]; then
    service_wait slurmctld 120 controller_is_up
    service_wait slurmdbd 120 accounting_is_up
    service_wait nfs-server 60 home_is_shared
    # members can come in from the start; a portal that is away holds up no boot
    until_true 60 'the logins of members are not there' gpuaas-queue || echo 'they follow with the reports of the queue'
    systemctl enable --quiet --now gpuaas-queue.timer
  else
    [ -e /etc/gpuaas/joined ] || replaced_resume
    until_true 600 'Slurm has not made the machine available to jobs' service_does slurmd worker_is_idle
    touch /etc/gpuaas/joined
  fi
}
