"""Slurm's configuration files, from the pools. Workers register themselves (slurmd -Z) and fetch the rest from the controller, so
pools grow and shrink without a change here. slurmdbd on the head stores the jobs' accounting."""

import re

from gpuaas.providers.base import ClusterSpec, FlavorAmount, NodePool, usable_mib
from gpuaas.providers.openstack.flavors import ALIAS
from gpuaas.providers.openstack.pci import product_of

NODES_MOST = 500  # of one pool, as templates have it
HEALTH = "/usr/local/sbin/gpuaas-health"  # on every worker
CGROUP_CONF = "ConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n"
# no password: the database authenticates slurmdbd by the user at its socket
SLURMDBD_CONF = """\
AuthType=auth/munge
DbdHost=localhost
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm_acct_db
StorageUser=slurm
"""
# Debian's unit starts slurmd only if there is a slurm.conf, which a worker that fetches it from the head lacks; and it gives up for
# good if it does not reach the head, as after an outage of both
SLURMD_UNIT = (
    "[Unit]\nConditionPathExists=\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=5\n"
    # slurmd ends where a device file of a GPU is missing, and after a reboot some drivers make them when they are first asked
    "ExecStartPre=-/usr/bin/timeout 30 nvidia-smi --list-gpus\n"
)

# members work on the head, too: their sessions together leave room for what the cluster needs there, and that comes up again
SESSIONS_SLICE = "[Slice]\nMemoryMax=60%\nTasksMax=60%\n"
HEAD_UNIT = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=5\n"


def gpu_type(flavor: FlavorAmount) -> str:
    """The type that jobs request, as in --gpus=h100:2: the alias of the cards, or else their product."""
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
        "JobAcctGatherType=jobacct_gather/linux",
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={address}",
        "AccountingStorageEnforce=associations,limits,safe",
        "AccountingStoreFlags=job_comment",  # by which the portal's jobs are known
        f"AccountingStorageTRES={','.join(_counted(spec))}",
        "ReturnToService=2",
        f"HealthCheckProgram={HEALTH}",
        "HealthCheckInterval=60",
        "SlurmdTimeout=120",
        "TreeWidth=65533",
        f"MaxNodeCount={NODES_MOST * max(1, len(_partitions(spec)))}",
    ]
    for pool in _partitions(spec):  # closed at the start: guest/queue.sh opens them
        default = "YES" if pool in spec.pools[:1] else "NO"  # never at another site, where data may not go
        lines.append(f"NodeSet={pool.name} Feature={pool.name}")
        lines.append(
            f"PartitionName={pool.name} Nodes={pool.name} Default={default} MaxTime=INFINITE State=DOWN "
            + _memory(pool.flavor)
        )
    return "\n".join(lines) + "\n"


def _partitions(spec: ClusterSpec) -> tuple[NodePool, ...]:
    return *spec.pools, *spec.elsewhere


def _counted(spec: ClusterSpec) -> list[str]:
    """All GPUs together, and those of each type."""
    kinds = sorted({gpu_type(pool.flavor) for pool in _partitions(spec) if pool.flavor.gpus})
    return ["gres/gpu", *(f"gres/gpu:{kind}" for kind in kinds)]


def _memory(flavor: FlavorAmount) -> str:
    """Default memory of jobs: their GPUs' share, or their cores'; otherwise a job would take all of the machine's."""
    usable = usable_mib(flavor.memory_gib)
    shares = [f"DefMemPerCPU={max(1, usable // flavor.vcpus)}"]
    if flavor.gpus:
        shares.append(f"DefMemPerGPU={max(1, usable // flavor.gpus)}")
    return " ".join(shares)


def gres_conf(spec: ClusterSpec) -> str:
    """The device files of each pool's GPUs: /dev/nvidia0 and following."""
    lines = ["AutoDetect=off"]
    for pool in _partitions(spec):
        if pool.flavor.gpus:
            nodes = f"{spec.external_name}-{pool.name}-[1-{NODES_MOST}]"
            kind, files = gpu_type(pool.flavor), _files(pool.flavor.gpus)
            lines.append(f"NodeName={nodes} Name=gpu Type={kind} File={files}")
    return "\n".join(lines) + "\n"


def slurmd_default(pool: NodePool, head: str, number: int) -> str:
    """For /etc/default/slurmd: a dynamic node that declares its own resources. Jobs start on the lowest numbers, since pools shrink
    from the highest."""
    gres = f" Gres=gpu:{gpu_type(pool.flavor)}:{pool.flavor.gpus}" if pool.flavor.gpus else ""
    return f"SLURMD_OPTIONS='--conf-server {head} -Z --conf \"Feature={pool.name} Weight={number}{gres}\"'\n"


def _files(count: int) -> str:
    return "/dev/nvidia0" if count == 1 else f"/dev/nvidia[0-{count - 1}]"
