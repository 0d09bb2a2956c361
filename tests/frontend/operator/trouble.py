"""What may be wrong at a site: failed checks, sick GPUs, drift, removed pods, a meter that differs. For the pages."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from gpuaas.catalog.models import GpuPool, Node, NodeCheck, Site
from gpuaas.core import clock
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.metering.models import CrossCheck, SiteMeter
from gpuaas.workspaces.models import Drift, Eviction, Workspace

READY = (
    ("ApiVersion", "The site serves Kubernetes 1.36; the portal needs 1.30 or newer."),
    ("Permissions", "The portal's credentials may do all 41 things that it needs."),
    ("QuotaController", "A canary quota was filled in after 60 ms."),
    ("ClockInStep", "The site's clock is 0.2 s from the portal's."),
)
CHAIN = ("NodeFeatures", "GpuDriver", "DevicePlugin", "GpuLabels", "GpuMetrics")
OUTPUT = """Sat Nov 21 20:04:11 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
+-----------------------------------------+------------------------+----------------------+"""


def trouble_at(site: Site) -> None:
    now = clock.now()
    Site.objects.filter(pk=site.pk).update(checks=site_checks(now), preflight_at=now, fit=False)
    well = site.nodes.filter(ready=True, cordoned=False).order_by("allocated", "name")
    name = well.values_list("name", flat=True)[0]
    Node.objects.filter(site=site).update(checks=node_checks(now), numa="single-numa-node", cpus="static")
    traits = {"rack": "r-07", "nvlink_domain": "nvl-2", "zone": "hall-b", "hugepages": {"1Gi": 64}}
    sick = node_checks(now, broken="GpuMetrics", message="GPU 6: XID 79, fallen off the bus, since 08:14.")
    Node.objects.filter(site=site, name=name).update(unhealthy=1, checks=sick, **traits)
    GpuPool.objects.filter(nodes__site=site, nodes__name=name).update(healthy=F("healthy") - 1)
    check_of(site, name, state="passed", output=OUTPUT, at=now - timedelta(minutes=4))
    SiteMeter.objects.update_or_create(
        site=site,
        defaults={
            "holder": "meter-1",
            "claim_until": now + timedelta(seconds=30),
            "last_event_at": now - timedelta(seconds=9),
            "last_proof_at": now - timedelta(seconds=2),
        },
    )
    CrossCheck.objects.create(site=site, checked_at=now - timedelta(days=1), compared=118, findings=[])
    finding = {
        "uid": "u-1",
        "name": "train-3",
        "workspace": "gpu-7f3a-era5",
        "what": "runs, not counted",
        "repaired": True,
    }
    CrossCheck.objects.create(site=site, checked_at=now, compared=121, findings=[finding])


def site_checks(now: datetime) -> Stored:
    known: Stored = {}
    for kind, text in READY:
        known = condition_set(known, type=kind, status=Status.TRUE, reason="Good", message=text, now=now)
    return condition_set(
        known,
        type="NetworkPolicyEnforced",
        status=Status.FALSE,
        reason="NotEnforced",
        message="A pod in another namespace was reached in spite of the policy that forbids it.",
        remedy="Use a network plugin that enforces NetworkPolicy, for example Calico or Cilium.",
        now=now,
    )


def node_checks(now: datetime, *, broken: str = "", message: str = "") -> Stored:
    known: Stored = {}
    for kind in CHAIN:
        bad = kind == broken
        known = condition_set(
            known,
            type=kind,
            status=Status.FALSE if bad else Status.TRUE,
            reason="Sick" if bad else "Present",
            message=message if bad else "Present and answering.",
            remedy="Reset the card or take it out." if bad else "",
            now=now,
        )
    return known


def check_of(site: Site, node: str, *, state: str, output: str, at: datetime) -> NodeCheck:
    over = at + timedelta(seconds=8) if state in {"passed", "failed"} else None
    return NodeCheck.objects.create(
        site=site,
        node=node,
        state=state,
        output=output,
        detail="8 GPUs answered." if over else "waiting for a free GPU on the node",
        requested_by="olga",
        requested_at=at,
        finished_at=over,
    )


def drift_of(workspace: Workspace, *, state: str = "open", **more: Any) -> Drift:
    now = clock.now()
    return Drift.objects.create(
        workspace=workspace,
        found_at=now - timedelta(minutes=12),
        digest="d",
        state=state,
        resolved_at=None if state == "open" else now,
        resolved_by="" if state == "open" else "portal",
        differences=more.get("differences")
        or [
            {
                "object": "ResourceQuota/gpuaas",
                "path": "spec.hard[requests.nvidia.com/gpu]",
                "wanted": "2",
                "found": "20",
                "changed_by": "kubectl-edit (admin@ber-1)",
            },
            {"object": "NetworkPolicy/gpuaas-default-deny", "path": "", "wanted": "present", "found": ""},
        ],
    )


def eviction_of(workspace: Workspace, resource: str, *, uid: str = "u-9", removed: bool = True) -> Eviction:
    now = clock.now()
    return Eviction.objects.create(
        workspace=workspace,
        consumer_uid=uid,
        consumer_name="sweep-17",
        resource_name=resource,
        quantity=1,
        limit=2,
        held=3,
        started_at=now - timedelta(seconds=61),
        seen_at=now - timedelta(seconds=60),
        removed_at=now - timedelta(seconds=59) if removed else None,
    )
