"""Slurm's own files, from the pools. Workers register by themselves (slurmd -Z) and fetch the rest from the controller, so pools grow
and shrink without a change here."""

import re

from gpuaas.providers.base import ClusterSpec, FlavorAmount, NodePool
from gpuaas.providers.openstack.flavors import ALIAS
from gpuaas.providers.openstack.pci import product_of

NODES_MOST = 500  # of one pool, as templates have it
CGROUP_CONF = "ConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n"


def gpu_type(flavor: FlavorAmount) -> str:
    """What jobs ask for, as in --gpus=h100:2: the alias of the cards, or else their product."""
    alias = str(flavor.selector.get(ALIAS) or "")
    name = alias or product_of(flavor.resource_name)[0].removeprefix("NVIDIA-")
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "gpu"


def slurm_conf(spec: ClusterSpec, head: str, address: str) -> str:
    lines = [
        f"ClusterName={spec.external_name}",
        f"SlurmctldHost={head}({address})",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        "SlurmUser=slurm",
        "StateSaveLocation=/var/spool/slurmctld",
        "SlurmdSpoolDir=/var/spool/slurmd",
        "SlurmctldParameters=enable_configless,cloud_reg_addrs",
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/affinity,task/cgroup",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "GresTypes=gpu",
        "ReturnToService=2",
        "SlurmdTimeout=120",
        "TreeWidth=65533",
        f"MaxNodeCount={NODES_MOST * max(1, len(spec.pools))}",
    ]
    for number, pool in enumerate(spec.pools):
        default = "YES" if number == 0 else "NO"
        lines.append(f"NodeSet={pool.name} Feature={pool.name}")
        lines.append(
            f"PartitionName={pool.name} Nodes={pool.name} Default={default} MaxTime=INFINITE State=UP"
        )
    return "\n".join(lines) + "\n"


def gres_conf(spec: ClusterSpec) -> str:
    """Which devices are whose: the cards of a passthrough machine are /dev/nvidia0 and on."""
    lines = ["AutoDetect=off"]
    for pool in spec.pools:
        if pool.flavor.gpus:
            nodes = f"{spec.external_name}-{pool.name}-[1-{NODES_MOST}]"
            kind, files = gpu_type(pool.flavor), _files(pool.flavor.gpus)
            lines.append(f"NodeName={nodes} Name=gpu Type={kind} File={files}")
    return "\n".join(lines) + "\n"


def slurmd_default(pool: NodePool, head: str) -> str:
    """For /etc/default/slurmd: a dynamic node that says what it has."""
    gres = f" Gres=gpu:{gpu_type(pool.flavor)}:{pool.flavor.gpus}" if pool.flavor.gpus else ""
    return f"SLURMD_OPTIONS='--conf-server {head} -Z --conf \"Feature={pool.name}{gres}\"'\n"


def _files(count: int) -> str:
    return "/dev/nvidia0" if count == 1 else f"/dev/nvidia[0-{count - 1}]"
