"""The MPI launcher of a job: task 0 runs its command, the other tasks run the SSH server of the image as the job's user.

All that both need is one Secret of the attempt, which is made with its Job and belongs to it. The programs that look for hosts
find it by variables. START is what each container runs in place of the command, with the command as its arguments.
"""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import FILES_AT, JobSpec
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import inside

PORT = 2222
SSH = f"ssh -F {FILES_AT}/ssh_config"
HOSTFILE, HYDRA_HOSTFILE = f"{FILES_AT}/hostfile", f"{FILES_AT}/hydra_hostfile"
# The name of a pod alone means nothing to another one, and Hydra would give it to the other tasks: it gives the address instead.
# A pod's interface is called so by every runtime.
INTERFACE = "eth0"

# {at}: where the Secret is. An SSH session has nothing of the container's variables, so those are kept for `enter`.
START = """\
at={at} state=/dev/shm/gpuaas
say() {{ echo "launcher: $*" >&2; }}
sshd=$(PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin"; command -v sshd) && command -v ssh > /dev/null || {{
  say "the image has no SSH: install the server and the client of OpenSSH in it"; exit 127
}}
id -un > /dev/null 2>&1 || {{ say "the image has no account of the number $(id -u): make one, with a shell"; exit 1; }}
(umask 077; mkdir -p "$state"; export -p > "$state/variables")
{{ "$sshd" -D -e -f "$at/sshd_config"; say "the SSH server has ended"; : > "$state/broken"; }} &

if [ "$JOB_COMPLETION_INDEX" != 0 ]; then
  left=-1
  trap 'left=10' TERM INT
  while [ ! -e "$state/ended" ]; do
    [ ! -e "$state/broken" ] || exit 1
    [ "$left" != 0 ] || exit 143
    left=$((left - 1))
    sleep 1
  done
  exit 0
fi

reach() {{
  tries=0
  while :; do
    error=$(ssh -F "$at/ssh_config" "$@" < /dev/null 2>&1) && return 0
    how=$?
    case "$how:$error" in
      255:*ermission\\ denied* | 255:*verification\\ failed*) ;;
      255:*) tries=$((tries + 1)); [ "$tries" = "$most" ] || {{
        [ $((tries % 60)) != 5 ] || say "waits for $1: $error"
        sleep 1
        continue
      }} ;;
    esac
    say "$1 cannot be entered: $error"
    return 1
  done
}}
others=$(cat "$at/others") most=-1
trap 'exit 143' TERM INT
for host in $others; do reach "$host" true || exit 1; done
"$@" &
program=$!
trap 'kill -TERM "$program" 2> /dev/null' TERM INT
while :; do
  wait "$program"
  code=$?
  kill -0 "$program" 2> /dev/null || break
done
[ "$code" = 0 ] && most=30 || most=1
for host in $others; do reach "$host" ": > $state/ended" || [ "$code" != 0 ] || code=1; done
exit "$code"
"""
ENTER = """\
. /dev/shm/gpuaas/variables
cd "$PWD" 2> /dev/null
exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""
SERVER = """\
Port {port}
HostKey {at}/key
PidFile none
AuthorizedKeysFile {at}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
# the Secret belongs to root
StrictModes no
DisableForwarding yes
MaxStartups 1000
MaxSessions 1000
UseDNS no
LogLevel ERROR
ForceCommand /bin/sh {at}/enter
"""
CLIENT = """\
Host {name}-* !*.*
  HostName %h.{name}
Host *
  Port {port}
  IdentityFile {at}/key
  IdentitiesOnly yes
  UserKnownHostsFile {at}/known_hosts
  HostKeyAlias job
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ConnectTimeout 10
  ServerAliveInterval 30
  LogLevel ERROR
"""
# the mode lets the account of the job read them, whose files they are not: SSH refuses keys that others of its own may read
MODE = 0o440


def variables_of() -> dict[str, str]:
    """Of OpenMPI before and since 5, of MPICH and what stands on it, and of Intel MPI."""
    return {
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_plm_rsh_agent": SSH,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        "PRTE_MCA_plm_ssh_agent": SSH,
        "HYDRA_HOST_FILE": HYDRA_HOSTFILE,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXTRA_ARGS": SSH.removeprefix("ssh "),
        "HYDRA_IFACE": INTERFACE,
        "I_MPI_HYDRA_HOST_FILE": HYDRA_HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": SSH.removeprefix("ssh "),
        "I_MPI_HYDRA_IFACE": INTERFACE,
    }


def wrap(spec: JobSpec, pod: Object) -> Object:
    """The pod, whose container starts by START; an image's own entry point is not known."""
    (container,) = pod["containers"]
    mounts = [*container["volumeMounts"], {"name": "launcher", "mountPath": FILES_AT, "readOnly": True}]
    secret = {"name": "launcher", "secret": {"secretName": secret_name(spec), "defaultMode": MODE}}
    own = {**container, "command": ["/bin/sh", f"{FILES_AT}/start"], "volumeMounts": mounts}
    own["args"] = [*spec.command, *spec.arguments]
    return {**pod, "containers": [own], "volumes": [*pod["volumes"], secret]}


def secret_name(spec: JobSpec) -> str:
    """Each attempt has its own, so that the end of the one before takes nothing from it."""
    return f"{spec.name}-launcher-{spec.attempt}"


def secret_ensure(api: Api, spec: JobSpec, job: Object) -> None:
    """Once it is there for this Job, its key stays. Raises Permanent where a member has made one of its name."""
    collection = inside.path(spec.workspace, "secrets")
    found = api.find(f"{collection}/{secret_name(spec)}")
    if found is not None and (found["metadata"].get("labels") or {}).get(names.JOB) != str(spec.id):
        raise Permanent(f"the namespace has another Secret of the name {secret_name(spec)}: remove it there")
    owners = (found or {"metadata": {}})["metadata"].get("ownerReferences") or []
    if [job["metadata"]["uid"]] != [each["uid"] for each in owners]:
        inside.apply(api, collection, secret_of(spec, job, files_of(spec)))


def secret_delete(api: Api, spec: JobSpec) -> None:
    """The site removes it after its Job as well, which it belongs to."""
    api.delete(f"{inside.path(spec.workspace, 'secrets')}/{secret_name(spec)}")


def secret_of(spec: JobSpec, job: Object, files: dict[str, str]) -> Object:
    made = inside.secret_of(spec, job, files)
    made["metadata"]["name"] = secret_name(spec)
    return made


def files_of(spec: JobSpec) -> dict[str, str]:
    """With a key of their own: the one that all tasks show and accept, both ways."""
    secret, public = _key()
    hosts, slots = [f"{spec.name}-{each}" for each in range(spec.tasks)], max(spec.gpus, 1)
    place: dict[str, Any] = {"at": FILES_AT, "port": PORT, "name": spec.name}
    return {
        "key": secret,
        "authorized_keys": f"{public}\n",
        "known_hosts": f"job {public}\n",
        "sshd_config": SERVER.format(**place),
        "ssh_config": CLIENT.format(**place),
        "hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
        "hydra_hostfile": "".join(f"{host}:{slots}\n" for host in hosts),
        "others": "".join(f"{host}\n" for host in hosts[1:]),
        "start": START.format(at=FILES_AT),
        "enter": ENTER,
    }


def _key() -> tuple[str, str]:
    made = Ed25519PrivateKey.generate()
    secret = made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return secret.decode(), made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
