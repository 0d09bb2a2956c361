"""A month below zero: late usage brings a paid month over a tier, so that all of it becomes cheaper."""

from datetime import date

from billing.models import Invoice, RateCard
from billing.models.rates import TierMode
from billing.services.payments import payment_record
from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, rate_make, utc, workspace_make

OCTOBER, NOVEMBER, DECEMBER, JANUARY = (
    date(2026, 10, 1),
    date(2026, 11, 1),
    date(2026, 12, 1),
    date(2027, 1, 1),
)


def tiered_make(project: Project, flavor: Flavor, user: User) -> Workspace:
    """2.00 an hour, from 100 h on 1.50 for all of the month."""
    card = RateCard.objects.create(currency="EUR", slug="standard", name="Standard")
    tiers = [(100, 1_500_000)]
    rate_make(card, flavor, 2_000_000, utc("2026-01-01"), tiers=tiers, tier_mode=TierMode.VOLUME)
    return workspace_make(project, flavor, user)


def november_credited(actor: Actor, workspace: Workspace, flavor: Flavor) -> Invoice:
    """99 h in October, closed and paid; 2 h more come late, and November is closed at -46.50."""
    interval_make(workspace, flavor, utc("2026-10-01 00:00:00"), utc("2026-10-05 03:00:00"))
    month_close(actor, OCTOBER)
    payment_record(actor=actor, organization=workspace.project.organization, amount="198.00")
    interval_make(workspace, flavor, utc("2026-10-10 00:00:00"), utc("2026-10-10 02:00:00"))
    month_close(actor, NOVEMBER)
    return Invoice.objects.get(month=NOVEMBER)


def december_used(actor: Actor, workspace: Workspace, flavor: Flavor) -> Invoice:
    """25 h in December, closed: 50.00."""
    interval_make(workspace, flavor, utc("2026-12-01 00:00:00"), utc("2026-12-02 01:00:00"))
    month_close(actor, DECEMBER)
    return Invoice.objects.get(month=DECEMBER)
