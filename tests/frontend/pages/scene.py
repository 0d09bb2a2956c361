"""A workspace in the thick of it: pods that run, wait and are too many, drift, credentials, a service account."""

from datetime import datetime, timedelta
from typing import Any

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterGrant
from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import AccessGrant, Eviction, Robot, Workspace
from quotas.allowances import WITHIN_QUOTA
from tenants.models import User
from tests.frontend.operator.trouble import drift_of, eviction_of

GPU = "nvidia.com/gpu"
WAITS = "No node has 4 GPUs free at once; the most on one node is 2. It starts when some are given back."


def busy(workspace: Workspace) -> Workspace:
    """Ready, with two GPUs in use of two, and a third that slipped past."""
    now = clock.now()
    resource = workspace.flavors.get().flavor.pool.resource_name
    eviction_of(workspace, resource)
    eviction_of(workspace, resource, uid="u-4", removed=False)
    drift_of(workspace)
    drift_of(workspace, state="repaired", differences=[_label()])
    workspace.state = "ready"
    workspace.ready_at = now - timedelta(hours=2)
    workspace.placement = "node"
    workspace.conditions = _troubled(now)
    workspace.observed = {
        "at": now.isoformat(),
        "hard": {resource: 2, "cpu": 48, "memory": 480, "storage": 500},
        "used": {resource: 2, "cpu": 20, "memory": 128, "storage": 120},
        "consumers": [
            _pod("finetune-0", now, resource, uid="u-1", node="h100-01", owner="Job/finetune"),
            _pod("jupyter-bob", now, resource, uid="u-2", node="h100-02"),
            _pod("eval-7c9f4", now, resource, uid="u-3", phase="Pending", count=4, waiting_for=WAITS),
            _pod("sweep-18", now, resource, uid="u-4", node="h100-02", owner="ReplicaSet/sweep"),
        ],
    }
    workspace.save()
    Flavor.objects.filter(pk=workspace.flavors.get().flavor_id).update(
        exclusive_cpus=True, hugepages_size="1Gi", hugepages_gib=16, sysctls=["net.core.somaxconn"]
    )
    return workspace


def _troubled(now: datetime) -> dict[str, Any]:
    found = condition_set(
        {},
        type="AllPodsPlaced",
        status=Status.FALSE,
        reason="Waiting",
        message="1 pod waits for free GPUs.",
        remedy="Wait, or ask for fewer GPUs in one pod.",
        now=now,
    )
    said = "It holds 3 and may hold 2."
    return condition_set(
        found, type=WITHIN_QUOTA, status=Status.FALSE, reason="Surplus", message=said, now=now
    )


def put_away(machine: Machine, *, removed: bool = True) -> Eviction:
    """As the warden did it: the machine is shelved; or is about to do it."""
    workspace = machine.workspace
    resource = workspace.flavors.get().flavor.pool.resource_name
    row = eviction_of(workspace, resource, uid=f"{machine.uid}:launched", removed=removed)
    Eviction.objects.filter(pk=row.pk).update(
        consumer_name=machine.name, removed_at=clock.now() if removed else None
    )
    if removed:
        Machine.objects.filter(pk=machine.pk).update(state="shelved")
    return row


def _pod(name: str, now: datetime, resource: str, *, count: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "phase": "Running",
        "node": "",
        "gpus": {resource: count},
        "created_at": (now - timedelta(minutes=41)).isoformat(),
        "waiting_for": "",
        "owner": "",
        **more,
    }


def _label() -> dict[str, str]:
    return {
        "object": "Namespace",
        "path": "metadata.labels[gpuaas.io/workspace]",
        "wanted": "01a1ffb2",
        "found": "",
        "changed_by": "helm",
    }


def grant_to(workspace: Workspace, holder: User | Robot, *, hours: int = 8) -> AccessGrant:
    now = clock.now()
    who = {"robot": holder} if isinstance(holder, Robot) else {"user": holder}
    return AccessGrant.objects.create(
        workspace=workspace,
        issued_by="alice",
        issued_at=now - timedelta(hours=1),
        expires_at=now + timedelta(hours=hours - 1),
        **who,
    )


def grant_of_cluster(cluster: Cluster, holder: User, *, hours: int = 8) -> ClusterGrant:
    now = clock.now()
    until = now + timedelta(hours=hours)
    return ClusterGrant.objects.create(cluster=cluster, user=holder, issued_at=now, expires_at=until)


def robot_of(workspace: Workspace, name: str = "ci") -> Robot:
    values = {"role": "edit", "created_by": "alice", "created_at": clock.now()}
    return Robot.objects.get_or_create(workspace=workspace, name=name, defaults=values)[0]
