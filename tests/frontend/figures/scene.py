"""One moment at which every careless figure is another one: asleep, pending and leaving workspaces, one that uses less than it
holds, one that is charged by use, one that borrows, slices and time-shares of cards, one that is gone, discounts, a change of prices to
come, clusters, one with workers at another site, one that waits in a warm pool, a reserved pool, two organizations in two
currencies, an invoice of last month, a grant, money in advance, a budget that sent a mail.
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from billing.models import BillingAccount, Discount, RateCard
from billing.services import rate_card_ensure
from billing.services.budgets import BudgetTerms, budget_create
from billing.services.payments import grant_give, payment_record
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.clusters.models import Cluster, ClusterTemplate, TemplateVersion, WarmPool
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from quotas.models import CapacityStretch, CapacityWatch, PoolReservation, SiteCapacity
from quotas.services import reservation_reserve
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tenants.selectors import actor_for
from tests.billing.stage import cluster_make, interval_make, rate_make, utc, workspace_make
from tests.clusters.stage import DOCUMENT
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, GpuTypeFactory, SiteFactory
from tests.factories.quotas import limits_give
from tests.factories.tenants import ProjectFactory

NOW = utc("2026-11-16 11:00:00")  # noon in Berlin
BEGAN = NOW - timedelta(hours=30)
LEASE = utc("2026-11-24 17:00:00")
CHANGE = utc("2026-11-20 23:00:00")
JANUARY = utc("2026-01-01")
H100 = "gpu:h100-sxm-80gb"
SPOT = "spot:h100-sxm-80gb"
STORAGE = 1000  # GiB that the project may hold
SEVENTH = round(Decimal(1) / 7, 12)


@dataclass(frozen=True)
class Scene:
    project: Project
    other: Project  # of another organization, in dollars
    h100: Flavor
    rooms: dict[str, Workspace]
    cluster: Cluster
    pool: WarmPool
    gone: Workspace
    slice: Flavor
    budget: Any
    organization_budget: Any
    hours_budget: Any
    mailed_budget: Any


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
    cuts = _slices(h100), _shares(h100)
    for each in (project, second, other):
        limits_give(each, {f"gpu:{flavor.pool.gpu_type.slug}": 16 for flavor in cuts})
    rooms["tiny"] = _room(project, cuts[0], alice, "tiny", "ready", held=3, wanted=3)
    rooms["share"] = _room(project, cuts[1], alice, "share", "ready", held=2, wanted=2)
    limits_give(project, {"storage": STORAGE, SPOT: 6})
    rooms["borrows"] = _borrows(project, h100, alice)
    seen = {"used": {"cpu": 7, "memory": 40, "storage": 250}}
    Workspace.objects.filter(pk=rooms["train"].pk).update(observed=seen)
    gone = _gone(project, h100, alice)
    _room(second, h100, alice, "small", "ready", held=1, wanted=1)
    _room(other, h100, alice, "fold", "ready", held=1, wanted=1)
    template = _template(h100)
    cluster = _cluster(project, h100, alice, "sim", workers=2)
    _burst(cluster, h100)
    pool = _warm(project, h100, alice, template)
    _reserve_pool(project, h100)
    GpuPool.objects.filter(pk=h100.pool_id).update(allocated=2)
    _money(project, other, l40s)
    return Scene(project, other, h100, rooms, cluster, pool, gone, cuts[0], *_budgets(project, alice))


def _money(project: Project, other: Project, l40s: Flavor) -> None:
    """A grant for what is on no invoice yet, and dollars paid in advance."""
    grant_give(
        actor=SYSTEM,
        organization=project.organization,
        amount="75.50",
        expires_at=NOW + timedelta(days=3),
        gpu_types=[l40s.pool.gpu_type.slug],
    )
    payment_record(actor=SYSTEM, organization=other.organization, amount="40.05")


def _budgets(project: Project, alice: User) -> list[Any]:
    of_project: dict[str, Any] = {"project": project}
    return [
        budget_create(actor=actor_for(user=alice), terms=terms, **scope)
        for terms, scope in (
            (_terms("autumn"), of_project),
            (_terms("whole"), {"organization": project.organization}),
            (_terms("cards", measure="gpu_hours"), of_project),
            (_terms("spent", amount="1"), of_project),
        )
    ]


def _slices(h100: Flavor) -> Flavor:
    """Seven slices each of two cards, at ber-1."""
    gpu_type = GpuTypeFactory.create(
        slug="a100-40gb-mig-1g.5gb", name="A100 MIG 1g.5gb", memory_gib=5, sharing="mig", mig_profile="1g.5gb"
    )
    pool = GpuPoolFactory.create(
        site=h100.pool.site,
        gpu_type=gpu_type,
        resource_name="nvidia.com/mig-1g.5gb",
        capacity=14,
        healthy=14,
        largest_block=14,
        cards=2,
        card_share=SEVENTH,
    )
    return _sold(pool, "slice.1", 350_000)


def _shares(h100: Flavor) -> Flavor:
    """Four shares each of four cards, at ber-1."""
    gpu_type = GpuTypeFactory.create(
        slug="l40s-48gb-shared", name="L40S 48 GB shared", memory_gib=48, sharing="shared"
    )
    pool = GpuPoolFactory.create(
        site=h100.pool.site,
        gpu_type=gpu_type,
        resource_name="nvidia.com/gpu.shared",
        capacity=16,
        healthy=16,
        largest_block=16,
        cards=4,
        card_share="0.25",
    )
    return _sold(pool, "share.1", 250_000)


def _sold(pool: GpuPool, slug: str, price_micro: int) -> Flavor:
    flavor: Flavor = FlavorFactory.create(pool=pool, slug=slug, name=pool.gpu_type.name)
    SiteCapacity.objects.create(
        site=pool.site, resource=f"gpu:{pool.gpu_type.slug}", healthy=pool.healthy, hard=pool.healthy
    )
    rate_make(rate_card_ensure(), flavor, price_micro, JANUARY)
    return flavor


def _borrows(project: Project, h100: Flavor, alice: User) -> Workspace:
    """Four of what is sold and idle, of which two run; nothing that it holds is charged but its storage."""
    spot = FlavorFactory.create(
        pool=h100.pool, slug="h100.spot", name="H100, spot", price_class="spot", notice_seconds=120
    )
    SiteCapacity.objects.create(site=h100.pool.site, resource=SPOT, healthy=16, hard=16)
    rate_make(rate_card_ensure(), spot, 960_000, JANUARY, meter=Meter.GPU_ALLOCATED)
    row = workspace_make(project, spot, alice, name="borrows")
    Workspace.objects.filter(pk=row.pk).update(
        state="ready",
        lease_ends_at=LEASE,
        created_at=BEGAN,
        ready_at=BEGAN,
        storage_gib=100,
        notice_seconds=spot.notice_seconds,
    )
    WorkspaceFlavor.objects.create(workspace=row, flavor=spot, count=4, confirmed=4)
    row.refresh_from_db()
    _hold("workspace", row, {SPOT: 4, "storage": 100})
    interval_make(row, None, BEGAN, None, quantity=100, meter=Meter.STORAGE_HELD, resource="")
    interval_make(row, spot, BEGAN, None, quantity=2, meter=Meter.GPU_ALLOCATED)
    return row


def _burst(cluster: Cluster, h100: Flavor) -> None:
    """One more worker of the cluster, at another site."""
    site = SiteFactory.create(slug="osl-1")
    pool = GpuPoolFactory.create(
        site=site, gpu_type=h100.pool.gpu_type, capacity=4, healthy=4, largest_block=4, allocated=1
    )
    flavor = _sold(pool, "h100.osl", 2_000_000)
    cluster.pools.create(name="small", flavor=flavor, count=1, confirmed=1, release=cluster.release)
    reservation_reserve(
        holder_kind="cluster", holder_id=cluster.pk, project=cluster.project, site=site, amounts={H100: 1}
    )
    there = Cluster(pk=cluster.pk, site=site, project=cluster.project)
    interval_make(there, flavor, BEGAN, None)


def _gone(project: Project, h100: Flavor, alice: User) -> Workspace:
    """Deleted two hours ago; it was there in October too."""
    row = workspace_make(project, h100, alice, name="gone")
    ended = NOW - timedelta(hours=2)
    Workspace.objects.filter(pk=row.pk).update(
        state="deleted", deleted_at=ended, lease_ends_at=LEASE, ready_at=BEGAN
    )
    row.refresh_from_db()
    interval_make(row, h100, BEGAN, ended, quantity=2)
    interval_make(row, h100, utc("2026-10-02 08:00:00"), utc("2026-10-02 09:30:07"))
    return row


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


def _terms(name: str, *, measure: str = "money", amount: str = "100000") -> BudgetTerms:
    return BudgetTerms(
        name=name, measure=measure, amount=amount, period="month", thresholds=[(100, "notify")]
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
