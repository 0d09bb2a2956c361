"""A provider in full swing: 3 organizations, 7 projects, 3 sites, 5 pools, limits, usage of two weeks. For the browser."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, GpuPool, Node, Site
from gpuaas.core import clock
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit, SiteCapacity
from quotas.resources import gpu_resource
from tenants.actors import SYSTEM
from tenants.models import Organization, Project, User
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, GpuTypeFactory, SiteFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.trouble import drift_of, eviction_of, trouble_at

H100, H200, MIG, L40S = "h100-sxm-80gb", "h200-sxm-141gb", "a100-40gb-mig-1g.5gb", "l40s-48gb"
TYPES = {
    H100: ("H100 SXM 80 GB", 80, "whole", "", "2.40"),
    H200: ("H200 SXM 141 GB", 141, "whole", "", "3.10"),
    MIG: ("A100 MIG 1g.5gb", 5, "mig", "1g.5gb", "0.16"),
    L40S: ("L40S 48 GB", 48, "whole", "", "0.95"),
}
# site, GPU type, nodes, GPUs of a node, GPUs in use, node that is out ("" = none), reserved
POOLS = (
    ("ber-1", H100, 16, 8, 69, "cordoned", 78),
    ("osl-1", H200, 6, 8, 22, "", 24),
    ("ber-2", MIG, 4, 28, 23, "silent", 56),
    ("fra-1", L40S, 12, 4, 24, "", 28),
    ("fra-1", H100, 4, 8, 18, "", 24),
)
SITES = {"ber-1": "1.34.1", "ber-2": "1.33.4", "fra-1": "1.34.1", "osl-1": "1.33.4"}
TENANTS = {
    "Climate Physics": {"weather-lm": {H100: (8, 6, 4), L40S: (4, 4, 4)}, "downscale": {H100: (8, 8, 8)}},
    "Biomedical Engineering": {
        "cryo-em": {H100: (24, 16, 13), MIG: (28, 21, 9)},
        "protein-fold": {H100: (32, 32, 32), H200: (16, 16, 14)},
        "mri-recon": {H200: (8, 8, 8), MIG: (28, 28, 11)},
    },
    "Halden Robotics": {
        "grasp-sim": {H100: (48, 40, 30), L40S: (24, 16, 12)},
        "fleet-vision": {L40S: (16, 8, 8), MIG: (7, 7, 3)},
    },
}


def stage(olga: User) -> None:
    now = clock.now()
    for slug, version in SITES.items():
        SiteFactory.create(
            slug=slug,
            name=slug,
            driver="kubernetes",
            server_version=version,
            answer_ms=12 + 7 * len(slug),
            probed_at=now,
            answered_at=now,
            conditions=_conditions(slug, now),
        )
    for slug, kind, count, size, used, out, reserved in POOLS:
        _pool(Site.objects.get(slug=slug), kind, count, size, used, out, reserved)
    for flavor in Flavor.objects.all():
        price = TYPES[flavor.pool.gpu_type.slug][4]
        start = now - timedelta(days=20)
        rate_set(actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=start)
    for name, projects in TENANTS.items():
        organization = Organization.objects.create(slug=name.lower().replace(" ", "-"), name=name)
        for slug, limits in projects.items():
            project = Project.objects.create(organization=organization, slug=slug, name=slug)
            for kind, (hard, held, running) in limits.items():
                Limit.objects.create(project=project, resource=gpu_resource(kind), hard=hard, used=held)
                _use(project, kind, held, running, olga, now)
        for kind in TYPES:
            used = sum(limits.get(kind, (0, 0, 0))[1] for limits in projects.values())
            Limit.objects.create(organization=organization, resource=gpu_resource(kind), hard=64, used=used)
    trouble(olga)


def trouble(olga: User) -> None:
    """At ber-1: a failed check, a sick GPU, drift found and repaired, a removed pod."""
    site = Site.objects.get(slug="ber-1")
    trouble_at(site)
    here = list(Workspace.objects.filter(site=site).order_by("name")[:2])
    drift_of(here[0])
    drift_of(here[1], state="repaired")
    eviction_of(here[0], GpuPool.objects.filter(site=site)[0].resource_name)
    plan_at(site, here[0].project, olga, blocked=True)


def _conditions(slug: str, now: datetime) -> Stored:
    known = condition_set(
        {}, type="Reachable", status=Status.TRUE, reason="Answered", message="The site answers.", now=now
    )
    if slug != "ber-2":
        return known
    return condition_set(
        known,
        type="Authorized",
        status=Status.FALSE,
        reason="Refused",
        message="The site does not accept the portal's credentials since 08:14.",
        remedy="Give the site new credentials; what runs there continues.",
        now=now,
    )


def _pool(site: Site, kind: str, count: int, size: int, used: int, out: str, reserved: int) -> None:
    name, memory, sharing, profile, _ = TYPES[kind]
    gpu_type = GpuTypeFactory.create(
        slug=kind, name=name, product=name, memory_gib=memory, sharing=sharing, mig_profile=profile
    )
    total = count * size
    healthy = total - (size if out else 0)
    pool = GpuPoolFactory.create(
        site=site,
        gpu_type=gpu_type,
        capacity=total,
        healthy=healthy,
        allocated=used,
        largest_block=size,
        card_share=round(Decimal(1) / 7, 12) if profile else 1,
    )
    for number, taken in enumerate(_spread(used, count, size), start=1):
        last = bool(out) and number == count
        Node.objects.create(
            site=site,
            pool=pool,
            name=f"{kind.partition('-')[0]}-{number:02}",
            cordoned=last and out == "cordoned",
            ready=not (last and out == "silent"),
            reason="the kubelet is silent since 08:14" if last and out == "silent" else "",
            capacity=size,
            allocated=taken,
            vcpus=128,
            memory_gib=2048,
            observed_at=clock.now(),
        )
    FlavorFactory.create(pool=pool, slug=f"{kind.partition('-')[0]}.{site.slug}.1", name=name)
    SiteCapacity.objects.update_or_create(
        site=site,
        resource=gpu_resource(kind),
        defaults={"healthy": healthy, "hard": healthy, "used": reserved},
    )


def _spread(used: int, count: int, size: int) -> Iterator[int]:
    for _ in range(count):
        here = min(used, size)
        used -= here
        yield here


def _use(project: Project, kind: str, held: int, running: int, user: User, now: datetime) -> None:
    pool = GpuPool.objects.filter(gpu_type__slug=kind).order_by("site__slug")[0]
    start = now - timedelta(days=len(project.slug), hours=held)
    made = Workspace.objects.create(
        project=project,
        site=pool.site,
        name=f"{project.slug[:12]}-{kind.partition('-')[0]}",
        state="ready",
        lease_ends_at=now + timedelta(days=20),
        created_by=user,
        created_at=start,
        ready_at=start,
    )
    flavor = pool.flavors.get()
    made.flavors.create(flavor=flavor, count=held, confirmed=held)
    for meter, quantity in ((Meter.GPU_HELD, held), (Meter.GPU_ALLOCATED, running)):
        UsageInterval.objects.create(
            site=pool.site,
            project=project,
            workspace=made,
            flavor=flavor,
            consumer_uid=f"{made.pk}-{meter}",
            consumer_name=made.name,
            meter=meter,
            resource_name=pool.resource_name,
            quantity=quantity,
            started_at=start,
            last_seen_at=now,
        )
