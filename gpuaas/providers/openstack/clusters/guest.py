"""The user data of a machine: files, secrets of its own role only, and one script that reports every stage.

Kubernetes is k3s: one binary with containerd and etcd, so the head only needs an address to fetch it from, and it accepts
existing CAs at its first start (docs/decisions/0036).
"""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import ClusterKind, ClusterSpec, NodePool, queue_token
from gpuaas.providers.openstack.clusters import addons, slurm, tunnel
from gpuaas.providers.openstack.clusters.keys import (
    ADMINS,
    AGENTS,
    CLIENT_CA,
    SERVER_CA,
    SERVERS,
    Keys,
)
from gpuaas.providers.openstack.clusters.settings import JOBS_OF_REMOVED, K3S_URL

MOST = 65535  # Nova's, of what is encoded
HERE = Path(__file__).parent / "guest"
ETC, BIN = "/etc/gpuaas", "/usr/local/sbin"
LIB, ROOT = "/usr/local/lib/gpuaas", Path(__file__).parents[4]
QUEUE = (  # what the first head of a k3s cluster runs to report its pods
    "gpuaas/providers/kubeapi/quantities.py",
    "gpuaas/providers/kubeapi/demand.py",
    "gpuaas/providers/openstack/clusters/k3s_queue.py",
)
SSHD, NO_KEYS = "/etc/ssh/sshd_config.d/50-gpuaas.conf", "AuthorizedKeysFile none\n"
MANIFESTS, TLS = "/var/lib/rancher/k3s/server/manifests", "/var/lib/rancher/k3s/server/tls"
UNIT = """\
[Unit]
After=network-online.target
Wants=network-online.target
[Service]
Type=notify
KillMode=process
Delegate=yes
LimitNOFILE=1048576
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s {role}
[Install]
WantedBy=multi-user.target
"""
WIREGUARD = "ExecStartPre=/sbin/modprobe wireguard\n"
REGION = "topology.kubernetes.io/region"
BINDING: Mapping[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "gpuaas-admins"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": ADMINS}],
}
File = dict[str, str]


@dataclass(frozen=True)
class Guest:
    """One machine. pool None = of the control plane; heads: the control plane's addresses within its site; entrance: the address for
    people; outside: the machine's own address for other sites ("" if the cluster has none); site: where the machine is."""

    spec: ClusterSpec
    name: str
    release: str
    boot: str
    token: str
    heads: tuple[str, ...]
    entrance: str
    network: str
    pool: NodePool | None = None
    address: str = ""
    outside: str = ""
    site: str = ""

    @property
    def keys(self) -> Keys:
        return Keys(self.spec.boots)

    @property
    def is_slurm(self) -> bool:
        return self.spec.kind is ClusterKind.SLURM

    @property
    def role(self) -> str:
        return "agent" if self.pool else "server"

    @property
    def reports_queue(self) -> bool:
        """One head only: a report is sent by who carries out the answer to the one before."""
        return self.pool is None and self.address == self.heads[0]

    @property
    def queue_token(self) -> str:
        return queue_token(self.spec.boots.seed, cluster=self.spec.id)

    @property
    def tunnel(self) -> str:
        """Its address in the tunnel between the head and workers at other sites; "" where it has no part in it."""
        if not tunnel.is_tunneled(self.spec):
            return ""
        if self.pool is None:
            return tunnel.head_address()
        return tunnel.worker_address(self.spec, self.pool, self.number) if self.spec.is_burst else ""

    @property
    def number(self) -> int:
        """Of its pool."""
        return int(self.name.rpartition("-")[2])

    @property
    def _tunnel_secrets(self) -> dict[str, str]:
        """A worker's own key, or what all keys follow from."""
        if not self.tunnel:
            return {}
        secret = tunnel.secret_of(self.spec)
        return {"tunnel": tunnel.key_text(secret, self.name) if self.pool else secret.hex()}

    @property
    def secrets(self) -> dict[str, str]:
        """The machine's secrets, which no report may repeat. A worker's do not admit servers."""
        queue = {"queue": self.queue_token} if self.reports_queue else {}
        if self.is_slurm:
            return {"munge": self.keys.munge_key, **self._tunnel_secrets, **queue}
        join = self.spec.join
        agents = {"agents": join.token if join else self.keys.word(AGENTS)}
        return agents if self.pool else {**agents, "servers": self.keys.word(SERVERS), **queue}


def user_data(guest: Guest) -> str:
    """Compressed, which cloud-init undoes, and encoded for Nova. Raises Permanent if it exceeds Nova's limit."""
    encoded = base64.b64encode(gzip.compress(cloud_config(guest).encode(), mtime=0)).decode()
    if len(encoded) > MOST:
        raise Permanent("the manifests of the template are too long: a machine's user data holds 48 KiB")
    return encoded


def cloud_config(guest: Guest) -> str:
    files = [*_common_files(guest), *(_slurm_files(guest) if guest.is_slurm else _k3s_files(guest))]
    document: dict[str, Any] = {
        "hostname": guest.name,
        "ssh_pwauth": False,
        "disable_root": True,
        "write_files": files,
        "runcmd": [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", "gpuaas-metadata.service"],
            ["systemctl", "enable", "--now", "gpuaas-upgrade.timer"],
            *([["systemctl", "restart", "ssh"]] if guest.is_slurm else []),
            [f"{BIN}/gpuaas-boot"],
        ],
    }
    if guest.is_slurm:
        document["users"] = []  # not even the image's own
    if guest.is_slurm and guest.role == "server":
        private, public = guest.keys.host_key
        document["ssh_keys"] = {"ed25519_private": private, "ed25519_public": public}
    text: str = yaml.safe_dump(document, sort_keys=False, width=1000)
    return f"#cloud-config\n{text}"


def _file(path: str, content: str, mode: str = "0600") -> File:
    return {"path": path, "permissions": mode, "content": content}


def _script(name: str) -> str:
    return (HERE / f"{name}.sh").read_text()


def _common_files(guest: Guest) -> list[File]:
    timer = "[Timer]\nOnBootSec=3min\nOnUnitActiveSec=1min\n[Install]\nWantedBy=timers.target\n"
    service = f"[Service]\nType=oneshot\nExecStart={BIN}/gpuaas-upgrade\n"
    metadata = (
        "[Unit]\nDefaultDependencies=no\nBefore=network-pre.target\nWants=network-pre.target\n"
        f"[Service]\nType=oneshot\nExecStart={BIN}/gpuaas-metadata\n[Install]\nWantedBy=sysinit.target\n"
    )
    stages = ["common", "slurm" if guest.is_slurm else "k3s", *(["mesh"] if guest.outside else [])]
    return [
        _file(f"{ETC}/node.env", _environment(guest)),
        _file(f"{ETC}/report.header", f"Authorization: Bearer {guest.token}\n"),
        _file(f"{ETC}/secrets", "\n".join(guest.secrets.values()) + "\n"),
        _file(f"{ETC}/clock.sh", _script("clock"), "0700"),
        _file(f"{ETC}/stages.sh", "".join(map(_script, stages)), "0700"),
        _file(f"{BIN}/gpuaas-report", _script("report"), "0700"),
        _file(f"{BIN}/gpuaas-boot", _script("boot"), "0700"),
        _file(f"{BIN}/gpuaas-upgrade", _script("upgrade"), "0700"),
        _file(f"{BIN}/gpuaas-metadata", _script("metadata"), "0700"),
        _file("/etc/systemd/system/gpuaas-metadata.service", metadata, "0644"),
        _file("/etc/systemd/system/gpuaas-upgrade.service", service, "0644"),
        _file("/etc/systemd/system/gpuaas-upgrade.timer", timer, "0644"),
    ]


def _environment(guest: Guest) -> str:
    """Values are our own or validated by pattern, so quoting is enough."""
    settings = guest.spec.settings
    values = {
        "REPORT_URL": guest.spec.boots.url,
        "NODE": guest.name,
        "ROLE": guest.role,
        "BOOT": guest.boot,
        "RELEASE": guest.release,
        "GPUS": str(guest.pool.flavor.gpus if guest.pool else 0),
        "HEADS": " ".join(guest.heads),
        "ADDRESS": guest.address,
        "NETWORK": guest.network,
        "TUNNEL": guest.tunnel,
        "TUNNEL_NETWORK": str(tunnel.NETWORK),
        "PACKAGES": " ".join(settings.get("packages") or ()),
        "QUEUE_URL": guest.spec.boots.queue_url,
        "ZONE": guest.spec.boots.zone,
        "K3S_URL": str(settings.get("k3s_url") or K3S_URL),
        "JOBS_OF_REMOVED": str(settings.get("jobs_of_removed") or JOBS_OF_REMOVED[0]),
    }
    return "".join(
        f"GPUAAS_{key}='{value}'\n" if " " in value else f"GPUAAS_{key}={value}\n"
        for key, value in values.items()
    )


def _k3s_files(guest: Guest) -> list[File]:
    unit = UNIT.replace("overlay\n", f"overlay\n{WIREGUARD}") if guest.outside else UNIT
    files = [
        _file("/etc/rancher/k3s/config.yaml", yaml.safe_dump(_k3s_config(guest), sort_keys=False)),
        _file("/etc/systemd/system/k3s.service", unit.format(role=guest.role), "0644"),
    ]
    if guest.role == "server":
        for purpose, name in ((CLIENT_CA, "client-ca"), (SERVER_CA, "server-ca")):
            certificate, key = guest.keys.authority(purpose)
            files += [_file(f"{TLS}/{name}.crt", certificate), _file(f"{TLS}/{name}.key", key)]
        files.append(_file(f"{MANIFESTS}/gpuaas-admins.yaml", yaml.safe_dump(dict(BINDING))))
        for name, text in addons.manifests(guest.spec).items():
            files.append(_file(f"{MANIFESTS}/gpuaas-{name}.yaml", text))
    if guest.reports_queue:
        files += _queue_files(guest, "queue-k3s")
        files += [_file(f"{LIB}/{path}", (ROOT / path).read_text(), "0644") for path in QUEUE]
    return files


def _queue_files(guest: Guest, script: str) -> list[File]:
    """The timer is enabled by the machine's last stage."""
    timer = "[Timer]\nOnBootSec=30s\nOnUnitActiveSec=30s\nAccuracySec=1s\n[Install]\nWantedBy=timers.target\n"
    service = f"[Service]\nType=oneshot\nExecStart={BIN}/gpuaas-queue\n"
    return [
        _file(f"{ETC}/queue.header", f"Authorization: Bearer {guest.queue_token}\n"),
        _file(f"{BIN}/gpuaas-queue", _script(script), "0700"),
        _file("/etc/systemd/system/gpuaas-queue.service", service, "0644"),
        _file("/etc/systemd/system/gpuaas-queue.timer", timer, "0644"),
    ]


def _k3s_config(guest: Guest) -> dict[str, Any]:
    """A head configures flannel for the whole cluster: WireGuard between the machines' external addresses if pools may be at
    other sites."""
    config: dict[str, Any] = {"node-name": guest.name}
    labels = [f"{REGION}={guest.site}"] if guest.outside else []
    mesh: dict[str, Any] = {"node-external-ip": guest.outside} if guest.outside else {}
    if guest.pool is not None:
        labels = [f"gpuaas.io/pool={guest.pool.name}", *labels]
        return {**config, **_way_in(guest), "node-label": labels, **mesh}
    if guest.outside:
        mesh |= {"flannel-backend": "wireguard-native", "flannel-external-ip": True, "node-label": labels}
    return {
        **config,
        "token": guest.secrets["servers"],
        "agent-token": guest.secrets["agents"],
        "node-ip": guest.address,
        "tls-san": [*dict.fromkeys(filter(None, [guest.entrance, guest.outside, *guest.heads]))],
        "node-taint": ["node-role.kubernetes.io/control-plane=true:NoSchedule"],
        "disable": ["traefik", "servicelb"],
        "write-kubeconfig-mode": "0600",
        **mesh,
    }


def _way_in(guest: Guest) -> dict[str, str]:
    """How a worker joins. Over the internet it must authenticate the head: there the token contains the digest of the CA."""
    join = guest.spec.join
    if join is None:
        return {"server": f"https://{guest.heads[0]}:6443", "token": guest.secrets["agents"]}
    digest = hashlib.sha256(join.authority.encode()).hexdigest()
    return {"server": join.endpoint, "token": f"K10{digest}::node:{join.token}"}


def _tunnel_files(guest: Guest) -> list[File]:
    if not guest.tunnel:
        return []
    if guest.pool is None:
        script = (HERE.parent / "slurm_tunnel.py").read_text()
        known = tunnel.head_knows(guest.spec)
        return [_file(f"{BIN}/gpuaas-tunnel", script, "0700"), _file(f"{ETC}/tunnel.json", known)]
    text = tunnel.worker_configuration(guest.spec, guest.pool, guest.name, guest.heads[0])
    return [_file(f"{ETC}/tunnel.conf", text)]


def _slurm_files(guest: Guest) -> list[File]:
    """Members have access to the head only, by certificates; they reach the workers through their jobs. A key that somebody puts into a
    home would open every machine, for as long as they like."""
    files = [_file(f"{ETC}/munge.key", guest.keys.munge_key), *_tunnel_files(guest)]
    if guest.pool is not None:
        options = slurm.slurmd_default(guest.pool, guest.heads[0], guest.number)
        return [
            *files,
            _file(SSHD, NO_KEYS, "0644"),
            _file(f"{ETC}/slurmd.default", options, "0644"),
            _file(slurm.HEALTH, _script("health"), "0700"),
            _file("/etc/systemd/system/slurmd.service.d/gpuaas.conf", slurm.SLURMD_UNIT, "0644"),
        ]
    trust = (
        f"{NO_KEYS}TrustedUserCAKeys /etc/ssh/gpuaas_ca.pub\n"
        "AuthorizedPrincipalsFile /etc/ssh/gpuaas_principals/%u\n"
    )
    return [
        *files,
        *_queue_files(guest, "queue"),
        _file(f"{ETC}/slurm.conf", slurm.slurm_conf(guest.spec, guest.name, guest.heads[0]), "0644"),
        _file(f"{ETC}/gres.conf", slurm.gres_conf(guest.spec), "0644"),
        _file(f"{ETC}/cgroup.conf", slurm.CGROUP_CONF, "0644"),
        _file(f"{ETC}/slurmdbd.conf", slurm.SLURMDBD_CONF),
        *(
            _file(f"/etc/systemd/system/{unit}.service.d/gpuaas.conf", slurm.HEAD_UNIT, "0644")
            for unit in ("slurmctld", "slurmdbd")
        ),
        _file("/etc/systemd/system/user.slice.d/gpuaas.conf", slurm.SESSIONS_SLICE, "0644"),
        _file("/etc/ssh/gpuaas_ca.pub", f"{guest.keys.ssh_authority}\n", "0644"),
        _file(f"{BIN}/gpuaas-logins", (HERE.parent / "slurm_logins.py").read_text(), "0700"),
        _file(f"{BIN}/gpuaas-jobs", (HERE.parent / "slurm_jobs.py").read_text(), "0700"),
        _file(f"{BIN}/gpuaas-usage", (HERE.parent / "slurm_usage.py").read_text(), "0700"),
        _file(SSHD, trust, "0644"),
    ]
