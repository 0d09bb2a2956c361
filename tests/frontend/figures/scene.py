"""One moment at which every careless figure is another one: asleep, pending and leaving workspaces, one that uses
less than it holds, one that
is charged by use, discounts, a change of prices to come, clusters, one that waits in a warm pool, a reserved pool, two organizations in
two currencies."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from billing.models import BillingAccount, Discount, RateCard
from billing.services import rate_card_ensure
from billing.services.budgets import BudgetTerms, budget_create
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.clusters.models import Cluster, ClusterTemplate, TemplateVersion, WarmPool
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from quotas.models import CapacityStretch, CapacityWatch, PoolReservation, SiteCapacity
from quotas.services import reservation_reserve
from tenants.models import Project, User
from tenants.selectors import actor_for
from tests.billing.stage import cluster_make, interval_make, rate_make, utc, workspace_make
from tests.clusters.stage import DOCUMENT
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.quotas import limits_give
from tests.factories.tenants import ProjectFactory

NOW = utc("2026-11-16 11:00:00")  # noon in Berlin
BEGAN = NOW - timedelta(hours=30)
LEASE = utc("2026-11-24 17:00:00")
CHANGE = utc("2026-11-20 23:00:00")
JANUARY = utc("2026-01-01")
H100 = "gpu:h100-sxm-80gb"


@dataclass(frozen=True)
class Scene:
    project: Project
    other: Project  # of another organization, in dollars
    h100: Flavor
    rooms: dict[str, Workspace]
    cluster: Cluster
    pool: WarmPool
    budget: Any
    organization_budget: Any


def scene_make(project: Project, other: Project, h100: Flavor, l40s: Flavor, alice: User) -> Scene:
    _prices(project, other, h100, l40s)
    second = ProjectFactory.create(organization=project.organization, slug="ocean")
    for each in (project, second, other):
        limits_give(each)
    rooms = {
        name: _room(project, h100, alice, name, state, held=held, wanted=wanted)
        for name, state, held, wanted in (
            ("train", "ready", 2, 2),
            ("asleep", "suspended", 0, 4),
            ("pending", "provisioning", 0, 1),
            ("leaving", "deleting", 1, 1),
        )
    }
    interval_make(rooms["train"], h100, BEGAN, None, meter=Meter.GPU_ALLOCATED)
    rooms["infer"] = _room(project, l40s, alice, "infer", "ready", held=2, wanted=2)
    interval_make(rooms["infer"], l40s, BEGAN, None, meter=Meter.GPU_ALLOCATED)
    _room(second, h100, alice, "small", "ready", held=1, wanted=1)
    _room(other, h100, alice, "fold", "ready", held=1, wanted=1)
    template = _template(h100)
    cluster = _cluster(project, h100, alice, "sim", workers=2)
    pool = _warm(project, h100, alice, template)
    _reserve_pool(project, h100)
    GpuPool.objects.filter(pk=h100.pool_id).update(allocated=2)
    budgets = [
        budget_create(actor=actor_for(user=alice), terms=_terms(name), **scope)
        for name, scope in (
            ("autumn", {"project": project}),
            ("whole", {"organization": project.organization}),
        )
    ]
    return Scene(project, other, h100, rooms, cluster, pool, *budgets)


def _template(h100: Flavor) -> ClusterTemplate:
    made = ClusterTemplate.objects.create(
        slug="counted", name="Counted", kind="kubernetes", site=h100.pool.site, driver="sandbox"
    )
    TemplateVersion.objects.create(template=made, number=1, document=DOCUMENT, created_by="olga")
    return made


def _warm(project: Project, h100: Flavor, alice: User, template: ClusterTemplate) -> WarmPool:
    """One of its clusters waits."""
    pool = WarmPool.objects.create(
        template=template,
        project=project,
        name="spare",
        document={},
        wanted=1,
        making_most=1,
        created_by=alice,
        created_at=BEGAN,
    )
    waiting = _cluster(project, h100, alice, "warm", workers=1)
    Cluster.objects.filter(pk=waiting.pk).update(warm_pool=pool, lease_ends_at=NOW + timedelta(days=300))
    return pool


def _terms(name: str) -> BudgetTerms:
    return BudgetTerms(
        name=name, measure="money", amount="100000", period="month", thresholds=[(100, "notify")]
    )


def _prices(project: Project, other: Project, h100: Flavor, l40s: Flavor) -> None:
    card = rate_card_ensure()
    rate_make(card, h100, 2_455_000, JANUARY, CHANGE)
    rate_make(card, h100, 3_000_000, CHANGE)
    rate_make(card, l40s, 855_000, JANUARY, meter=Meter.GPU_ALLOCATED)
    rate_make(card, None, 137, JANUARY, meter=Meter.STORAGE_HELD)
    rate_make(card, None, 10_000, JANUARY, meter=Meter.VCPU_HELD)
    Discount.objects.create(
        organization=project.organization, basis_points=1250, valid_from=JANUARY, created_by="olga"
    )
    BillingAccount.objects.create(organization=other.organization, currency="USD")
    dollars = RateCard.objects.create(slug="dollars", name="Dollars", currency="USD")
    rate_make(dollars, h100, 3_333_000, JANUARY)


def _room(
    project: Project, flavor: Flavor, alice: User, name: str, state: str, *, held: int, wanted: int
) -> Workspace:
    row = workspace_make(project, flavor, alice, name=name)
    ready = None if state == "provisioning" else BEGAN
    Workspace.objects.filter(pk=row.pk).update(
        state=state, lease_ends_at=LEASE, created_at=BEGAN, ready_at=ready, storage_gib=100
    )
    WorkspaceFlavor.objects.create(
        workspace=row, flavor=flavor, count=wanted, confirmed=0 if ready is None else wanted
    )
    row.refresh_from_db()
    gpus = 0 if state == "suspended" else wanted
    _hold("workspace", row, {f"gpu:{flavor.pool.gpu_type.slug}": gpus, "storage": 100})
    if ready:
        interval_make(row, None, BEGAN, None, quantity=100, meter=Meter.STORAGE_HELD, resource="")
    if held:
        interval_make(row, flavor, BEGAN, None, quantity=held)
        interval_make(row, None, BEGAN, None, quantity=16 * held, meter=Meter.VCPU_HELD, resource="")
    return row


def _cluster(project: Project, flavor: Flavor, alice: User, name: str, *, workers: int) -> Cluster:
    row = cluster_make(project, flavor, alice, name=name)
    Cluster.objects.filter(pk=row.pk).update(
        state="ready", lease_ends_at=LEASE, created_at=BEGAN, ready_at=BEGAN
    )
    row.refresh_from_db()
    row.pools.create(name="gpu", flavor=flavor, count=workers, confirmed=workers, release=row.release)
    _hold("cluster", row, {H100: workers})
    interval_make(row, flavor, BEGAN, None, quantity=workers)
    interval_make(row, None, BEGAN, None, quantity=4, meter=Meter.VCPU_HELD, resource="")
    return row


def _hold(kind: str, row: Workspace | Cluster, amounts: dict[str, int]) -> None:
    reservation_reserve(
        holder_kind=kind, holder_id=row.pk, project=row.project, site=row.site, amounts=amounts
    )


def _reserve_pool(project: Project, h100: Flavor) -> None:
    """Four more at a site of their own, idle, kept for the organization until the 22nd."""
    site = SiteFactory.create(slug="fra-1")
    pool = GpuPoolFactory.create(
        site=site, gpu_type=h100.pool.gpu_type, capacity=4, healthy=4, largest_block=4
    )
    own = FlavorFactory.create(pool=pool, slug="h100.own", name="Own H100", price_class="reserved")
    SiteCapacity.objects.create(site=site, resource=H100, healthy=4, hard=4)
    CapacityStretch.objects.create(
        site=site, gpu_type=pool.gpu_type, devices=4, starts_at=NOW - timedelta(hours=6)
    )
    CapacityWatch.objects.create(site=site, seen_at=NOW)
    PoolReservation.objects.create(
        pool=pool,
        flavor=own,
        project=project,
        valid_from=NOW - timedelta(hours=4),
        valid_to=NOW + timedelta(days=6),
        created_by="olga",
    )
    rate_make(rate_card_ensure(), own, 1_111_100, JANUARY, meter=Meter.GPU_IDLE)
    rate_make(rate_card_ensure(), own, 2_000_000, JANUARY)
