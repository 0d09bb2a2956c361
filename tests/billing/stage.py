"""Workspaces, holdings and intervals for tests of money, made directly: no site is needed to count."""

import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from billing.booking import Booking, bookings_write
from billing.models import (
    Budget,
    Discount,
    Invoice,
    LedgerEntry,
    Rate,
    RateCard,
    RateCardVersion,
    RateDraft,
    UsageWriteOff,
)
from billing.services.payments import grant_give, payment_record, payout_record
from billing.states import Account, EntryKind
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterTemplate, TemplateVersion
from gpuaas.core import clock
from gpuaas.core.ids import uuid7
from gpuaas.metering.models import EndedBy, Meter, UsageImport, UsageInterval
from gpuaas.workspaces.models import Workspace
from quotas.models import PoolReservation
from tenants.actors import SYSTEM
from tenants.models import Organization, Project, User


def utc(text: str) -> datetime:
    """`2026-11-01 10:00:00`, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def workspace_make(project: Project, flavor: Flavor, user: User, *, name: str = "train") -> Workspace:
    return Workspace.objects.create(
        project=project,
        site=flavor.pool.site,
        name=name,
        lease_ends_at=utc("2030-01-01"),
        created_by=user,
        created_at=utc("2026-01-01"),
    )


def cluster_make(project: Project, flavor: Flavor, user: User, *, name: str = "sim") -> Cluster:
    """Of a template without a document: nothing is built of it."""
    site = flavor.pool.site
    template, _ = ClusterTemplate.objects.get_or_create(
        slug="counted", defaults={"name": "Counted", "kind": "kubernetes", "site": site, "driver": "sandbox"}
    )
    version, _ = TemplateVersion.objects.get_or_create(
        template=template, number=1, defaults={"document": {}, "created_by": "olga"}
    )
    return Cluster.objects.create(
        project=project,
        site=site,
        template_version=version,
        name=name,
        release="1.35.6",
        control_count=1,
        lease_ends_at=utc("2030-01-01"),
        created_by=user,
        created_at=utc("2026-01-01"),
    )


def interval_make(
    holder: Workspace | Cluster,
    flavor: Flavor | None,
    start: datetime,
    end: datetime | None,
    *,
    quantity: int = 1,
    meter: Meter = Meter.GPU_HELD,
    resource: str = "nvidia.com/gpu",
) -> UsageInterval:
    return UsageInterval.objects.create(
        site=holder.site,
        project=holder.project,
        workspace=holder if isinstance(holder, Workspace) else None,
        cluster=holder if isinstance(holder, Cluster) else None,
        flavor=flavor,
        consumer_uid=str(uuid7()),
        consumer_name="pod",
        meter=meter,
        resource_name=resource,
        quantity=quantity,
        started_at=start,
        ended_at=end,
        last_seen_at=end or start,
        ended_by=EndedBy.OBSERVED if end else "",
    )


def version_make(card: RateCard, start: datetime) -> RateCardVersion:
    """The version of the card that begins then."""
    number = card.versions.count() + 1
    made, _ = RateCardVersion.objects.get_or_create(
        card=card, valid_from=start, defaults={"number": number, "published_by": "olga"}
    )
    return made


def rate_make(
    card: RateCard,
    flavor: Flavor | None,
    price_micro: int,
    start: datetime,
    end: datetime | None = None,
    *,
    meter: Meter = Meter.GPU_HELD,
    tiers: Sequence[tuple[int, int]] = (),
    **terms: Any,
) -> Rate:
    """A price as it is after publication. tiers: (from unit-hours, millionths)."""
    rate = Rate.objects.create(
        card=card,
        version=version_make(card, start),
        flavor=flavor,
        meter=meter,
        price_class=flavor.price_class if flavor else "on_demand",
        price_micro=price_micro,
        valid_from=start,
        valid_to=end,
        created_by="olga",
        **terms,
    )
    for hours, micro in tiers:
        rate.tiers.create(from_unit_hours=hours, price_micro=micro)
    return rate


def budget_stage(project: Project, *, name: str = "stage") -> Budget:
    """Of the project, far from spent."""
    row = Budget.objects.create(
        organization=project.organization,
        project=project,
        name=name,
        measure="gpu_hours",
        amount=3_600_000,
        period="month",
        level="project",
        created_by="alice",
    )
    row.thresholds.create(percent=100, action="block")
    return row


def card_stage(project: Project, flavor: Flavor) -> dict[str, object]:
    """The standard card with a version, a price and an open draft of one line, and a discount to come: path parameters."""
    card, _ = RateCard.objects.get_or_create(
        organization=None, currency="EUR", defaults={"slug": "standard", "name": "Standard"}
    )
    rate = rate_make(card, flavor, 100_000, utc("2026-01-01"), meter=Meter.GPU_STOPPED)
    draft, _ = RateDraft.objects.get_or_create(card=card, published=None, defaults={"created_by": "olga"})
    line = draft.lines.create(flavor=flavor, meter="gpu_stopped", price_class="on_demand", price_micro=90_000)
    discount = Discount.objects.create(
        organization=project.organization, basis_points=500, valid_from=utc("2030-01-01"), created_by="olga"
    )
    return {
        "card": card.slug,
        "version": rate.version.number,
        "draft": draft.pk,
        "line": line.pk,
        "discount": discount.pk,
    }


def pool_stage(project: Project, flavor: Flavor, *, days: int = 0) -> PoolReservation:
    """A reservation of the flavor's pool to come, from 2031 and so many days on, by a flavor of the class reserved."""
    own, _ = Flavor.objects.get_or_create(
        slug="h100.own",
        defaults={"name": "own", "pool": flavor.pool, "vcpus": 1, "memory_gib": 1, "price_class": "reserved"},
    )
    start = utc("2031-01-01") + timedelta(days=days)
    return PoolReservation.objects.create(
        pool=flavor.pool,
        flavor=own,
        project=project,
        valid_from=start,
        valid_to=start + timedelta(days=1),
        created_by="olga",
    )


def usage_import_stage(project: Project) -> uuid.UUID:
    """A batch whose usage is archived, with a sum more than the batches before it have."""
    start, end, number = utc("2026-10-05 10:00:00"), utc("2026-10-05 12:00:00"), UsageImport.objects.count()
    batch = UsageImport.objects.create(
        name=f"old portal {number}",
        file="usage.csv",
        imported_at=end,
        imported_by="olga",
        rows=1,
        intervals=1,
        starts_at=start,
        ends_at=end,
    )
    for n in range(number + 1):
        batch.sums.create(
            month=date(2026 + n // 12, n % 12 + 1, 1),
            project=project,
            meter="gpu_held",
            intervals=1,
            unit_seconds=7200,
            besides_unit_seconds=3600,
        )
    return batch.pk


def payment_stage(organization: Organization) -> uuid.UUID:
    payment_record(actor=SYSTEM, organization=organization, amount="5")
    found: uuid.UUID = LedgerEntry.objects.filter(kind="prepaid").latest("pk").pk
    return found


def payout_stage(organization: Organization) -> uuid.UUID:
    payment_record(actor=SYSTEM, organization=organization, amount="5")
    payout_record(actor=SYSTEM, organization=organization, amount="5")
    found: uuid.UUID = LedgerEntry.objects.filter(kind="payout").latest("pk").pk
    return found


def grant_stage(organization: Organization) -> uuid.UUID:
    expires = utc("2030-01-01")
    return grant_give(actor=SYSTEM, organization=organization, amount="5", expires_at=expires).pk


def write_off_stage(invoice: Invoice) -> uuid.UUID:
    """5.00 of an invoice that `invoice_make` made: it has no entry of its own to be open by."""
    amounts = {Account.WRITE_OFF: 500, Account.RECEIVABLE: -500}
    kind = EntryKind.WRITE_OFF
    given = Booking(invoice.organization_id, kind, invoice.currency, invoice.number, amounts, invoice.pk)
    bookings_write([given], now=clock.now(), by="olga")
    found: uuid.UUID = LedgerEntry.objects.filter(kind=kind).latest("pk").pk
    return found


def usage_write_off_stage() -> UsageWriteOff:
    """Of nothing that ran: as where the usage was taken back since."""
    card, _ = RateCard.objects.get_or_create(
        organization=None, currency="EUR", defaults={"slug": "standard", "name": "Standard"}
    )
    made: UsageWriteOff = UsageWriteOff.objects.create(
        card=card,
        month=date(2026, 10, 1),
        resource_name="CUSTOM_PCI_10DE_25B7",
        meter="gpu_allocated",
        reason="lent for tests",
        created_by="olga",
    )
    return made
