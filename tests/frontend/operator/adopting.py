"""A namespace that was at a site before the portal, and a plan for it."""

from datetime import timedelta
from typing import Any

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Adoption, AdoptionScan
from tenants.models import Project, User

OLD = "old-lab"
STEPS = (
    (
        "ResourceQuota/theirs",
        "remove",
        "its 4 GPUs are counted by the portal's own quota from then on",
        False,
    ),
    ("ResourceQuota/gpuaas", "create", "requests.nvidia.com/gpu 2, every other GPU 0", False),
    ("Namespace/old-lab", "change", "label gpuaas.io/workspace", False),
    ("Deployment/train", "keep", "2 pods go on", False),
)
BLOCKED = ("Pod/rogue", "keep", "sets nodeName: a pod that goes round the scheduler cannot be limited", True)


def scan_at(site: Site) -> AdoptionScan:
    now = clock.now()
    found = {
        "external_name": OLD,
        "created_at": (now - timedelta(days=400)).isoformat(),
        "gpus": {"nvidia.com/gpu": 2},
        "vcpus": 24,
        "memory_gib": 180,
        "storage_gib": 500,
        "consumers": 3,
        "placed": {},
        "hard": {"nvidia.com/gpu": 4},
    }
    values: dict[str, Any] = {"requested_by": "olga", "requested_at": now, "taken_at": now, "found": [found]}
    return AdoptionScan.objects.update_or_create(site=site, defaults=values)[0]


def plan_at(
    site: Site, project: Project, user: User, *, blocked: bool = False, state: str = "planned"
) -> Adoption:
    scan_at(site)
    now = clock.now()
    rows = (*STEPS, BLOCKED) if blocked else STEPS
    return Adoption.objects.create(
        site=site,
        project=project,
        external_name=OLD,
        name="train",
        items={"h100.1": 2},
        storage_gib=500,
        state=state,
        steps=[dict(zip(("object", "action", "detail", "blocking"), row, strict=True)) for row in rows],
        requested_by=user,
        requested_at=now,
        planned_at=now,
        expires_at=now + timedelta(hours=1),
    )
