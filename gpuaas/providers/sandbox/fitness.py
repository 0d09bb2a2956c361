"""Preflight, device health and node checks of a simulated site.

Results are set by `dials.fault_set`; a node check is a real pod of the simulation and waits for a free device.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound, Permanent
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import Check, Connection, NodeCheckOutcome, NodeHealth
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxNode, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.simulation import advance, event_add

HOSTNAME = "kubernetes.io/hostname"
RUN_SECONDS = 1
CHECKS = "gpuaas-checks-"
SLICES = 7  # of a partitioned card


@dataclass(frozen=True)
class Known:
    """A check with its messages for passed and failed."""

    type: str
    good: str
    bad: str
    remedy: str
    blocking: bool = False


SITE_CHECKS = (
    Known(
        "ApiVersion", "The simulated site is supported.", "The site is too old.", "Upgrade it.", blocking=True
    ),
    Known(
        "Credentials",
        "The portal's credentials do not expire.",
        "The portal's credentials expire soon.",
        "Give the site new credentials.",
    ),
    Known("Clock", "The clocks are in step.", "The clocks are 90 s apart.", "Let both follow a time server."),
    Known(
        "Permissions",
        "The portal has all rights.",
        "The portal lacks a right.",
        "Grant its account the right.",
        blocking=True,
    ),
    Known(
        "QuotaController",
        "Quotas are enforced.",
        "Quotas are not enforced: they admit everything.",
        "Restart the site's controllers.",
        blocking=True,
    ),
    Known(
        "Guards",
        "The site refuses what is forbidden.",
        "The site accepts a pod that is forbidden.",
        "Look at the site's admission policies.",
        blocking=True,
    ),
    Known(
        "NetworkPolicy",
        "Tenants cannot reach each other.",
        "Nothing enforces NetworkPolicies.",
        "Install a network that enforces them.",
    ),
    Known(
        "VisibleDevices",
        "Containers get only the GPUs that they request.",
        "A container can use GPUs that it did not request.",
        "Restrict the container toolkit.",
    ),
    Known(
        "DefaultStorageClass",
        "There is a default StorageClass.",
        "There is no default StorageClass.",
        "Mark one as the default.",
    ),
    Known(
        "Metrics",
        "Every node reports the health of its cards.",
        "No node reports it.",
        "Install the DCGM exporter.",
    ),
)
NODE_CHECKS = (
    Known(
        "NodeFeatures", "NFD sees an NVIDIA card.", "NFD sees no NVIDIA card.", "Look at NFD on this node."
    ),
    Known("GpuDriver", "Driver 580.95.05.", "The node has no driver.", "Install the driver."),
    Known(
        "DevicePlugin", "The node offers its GPUs.", "The node offers no GPUs.", "Look at the device plugin."
    ),
    Known("GpuLabels", "The product is known.", "The product is unknown.", "Look at GPU Feature Discovery."),
    Known("GpuMetrics", "The exporter is ready.", "The exporter is not ready.", "Look at the DCGM exporter."),
)


def preflight(connection: Connection) -> tuple[Check, ...]:
    with call(connection, "preflight"):
        dialed = SandboxSite.objects.get(pk=connection.site_id).faults.get("checks", {})
        return tuple(_check(known, dialed.get(known.type, Status.TRUE)) for known in SITE_CHECKS)


def node_checks(node: SandboxNode, faults: Mapping[str, Mapping[str, str]]) -> tuple[Check, ...]:
    """`faults`: node → type → status, as dialed."""
    if not node.kind:
        return ()
    dialed = faults.get(node.name, {})
    return tuple(_check(known, dialed.get(known.type, Status.TRUE)) for known in NODE_CHECKS)


def _check(known: Known, status: str) -> Check:
    if status == Status.TRUE:
        return Check(known.type, Status.TRUE, "Good", known.good, blocking=known.blocking)
    return Check(known.type, status, "Dialed", known.bad, known.remedy, blocking=known.blocking)


def device_health(connection: Connection) -> tuple[NodeHealth, ...]:
    with call(connection, "health"):
        sick = SandboxSite.objects.get(pk=connection.site_id).faults.get("sick", {})
        nodes = SandboxNode.objects.filter(site=connection.site_id, ready=True).exclude(kind={})
        return tuple(_health(node, sick.get(node.name, {})) for node in nodes)


def _health(node: SandboxNode, sick: Mapping[str, int]) -> NodeHealth:
    cards = -(-node.capacity // SLICES) if node.kind.get("mig_profile") else node.capacity
    check = Check("CardsHealthy", Status.TRUE, "Well", f"{cards} cards without errors.")
    if sick:
        found = f"{sum(sick.values())} with XID 79."
        check = Check("CardsHealthy", Status.FALSE, "Errors", found, "Drain the node and reset its GPUs.")
    return NodeHealth(node=node.name, cards=cards, sick=dict(sick), check=check)


# -- nvidia-smi on a node --------------------------------------------------------------------------------------------


def check_start(connection: Connection, node: str, check_id: uuid.UUID) -> None:
    with call(connection, "node-check"), site_write(connection.site_id) as site:
        row = one_or_none(SandboxNode.objects.filter(site=site, name=node))
        if row is None:
            raise NotFound(f"there is no node {node} at the site")
        if not row.kind:
            raise Permanent(f"the node {node} offers no GPU to check")
        if SandboxPod.objects.filter(site=site, pk=check_id).exists():
            return
        if row.labels.get(HOSTNAME) != node:
            row.labels = {**row.labels, HOSTNAME: node}
            row.save(update_fields=["labels"])
        # a namespace for each node, which pins pods to it; without an owner, so that it is not metered
        room, _ = SandboxNamespace.objects.update_or_create(
            site=site,
            name=f"{CHECKS}{node}"[:63],
            defaults={"selectors": {row.resource_name: {HOSTNAME: node}}},
        )
        now = clock.now()
        SandboxPod.objects.create(
            uid=check_id,
            site=site,
            namespace=room,
            name=f"check-{check_id}",
            resource_name=row.resource_name,
            gpus=1,
            run_seconds=RUN_SECONDS,
            created_at=now,
        )
        advance(site, now=now)


def check_result(connection: Connection, check_id: uuid.UUID) -> NodeCheckOutcome:
    with call(connection, "node-check"):
        with site_write(connection.site_id) as site:
            advance(site, now=clock.now())
        pod = one_or_none(SandboxPod.objects.filter(site=site, pk=check_id).select_related("node"))
        if pod is None:
            raise NotFound("the site has no such check of a node")
        if pod.finished_at is not None:
            return _outcome(pod.node, site.faults.get("sick", {}).get(pod.node_name, {}))
        running = pod.scheduled_at is not None
        waiting = f"waiting for a free GPU on the node: {pod.waiting_for}"
        return NodeCheckOutcome(done=False, running=running, detail="it is running" if running else waiting)


def _outcome(node: SandboxNode | None, sick: Mapping[str, int]) -> NodeCheckOutcome:
    product = str(node.kind.get("product", "GPU")).replace("-", " ") if node else "GPU"
    errors = sum(sick.values())
    output = (
        "index, name, uuid, driver_version, memory.total [MiB], ecc.errors.uncorrected.volatile.total\n"
        f"0, {product}, GPU-make-believe-0, 580.95.05, 81559 MiB, {errors}\n"
    )
    detail = "1 GPU seen, driver 580.95.05"
    if errors:
        detail += f", uncorrected memory errors: GPU-make-believe-0: {errors}"
    return NodeCheckOutcome(done=True, succeeded=not errors, detail=detail, output=output)


def check_end(connection: Connection, check_id: uuid.UUID) -> None:
    with call(connection, "node-check"), site_write(connection.site_id) as site:
        pod = one_or_none(SandboxPod.objects.filter(site=site, pk=check_id).select_related("namespace"))
        if pod is not None:
            event_add(site, pod, at=clock.now(), gone=True)
            pod.delete()
            advance(site, now=clock.now())
