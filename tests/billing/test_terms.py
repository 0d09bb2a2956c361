"""The worked numbers of rating.md: sessions, tiers, discounts, own prices, currencies, surplus, gaps."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing import selectors
from billing.models import BillingAccount, Discount, RateCard
from billing.months import month_days, month_span
from billing.rating import Cell, LineStatus, Slots, rate_usage
from billing.selectors.breakdown import By, cost_breakdown
from billing.services import rate_card_ensure
from frontend.presenters.cost import cost_card
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter, MeterGap, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.lasting import lasting

LONG_AGO = utc("2026-01-01")
NOW = utc("2026-12-24 00:00:00")
NOVEMBER = date(2026, 11, 1)
Shown = list[tuple[str | None, int, str | None]]


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
def card(db: None) -> RateCard:
    return rate_card_ensure()


def lines(project: Project, month: date = NOVEMBER, **asked: Any) -> list[Cell]:
    span = month_span(month)
    return rate_usage(slots=Slots([month], [span]), now=NOW, projects=[project.pk], **asked)


def shown(cells: list[Cell]) -> Shown:
    return [
        (
            None if cell.unit_price is None else str(cell.unit_price),
            cell.unit_seconds,
            None if cell.amount is None else str(cell.amount),
        )
        for cell in cells
    ]


@pytest.mark.parametrize(
    ("lasts", "charged", "amount"), [(61, 300, "0.20"), (300, 300, "0.20"), (301, 360, "0.24")]
)
def test_a_session_is_charged_in_increments_and_for_a_minimum(
    card: RateCard,
    workspace: Workspace,
    h100: Flavor,
    project: Project,
    lasts: int,
    charged: int,
    amount: str,
) -> None:
    rate_make(card, h100, 2_400_000, LONG_AGO, increment_seconds=60, minimum_seconds=300)
    start = utc("2026-11-02 10:00:00")
    interval_make(workspace, h100, start, start + timedelta(seconds=lasts))
    assert shown(lines(project)) == [("2.40", charged, amount)]


def test_what_is_added_costs_what_its_own_time_costs(
    card: RateCard, workspace: Workspace, h100: Flavor, project: Project
) -> None:
    change = utc("2026-11-02 11:00:00")
    rate_make(card, h100, 2_400_000, LONG_AGO, change, increment_seconds=60)
    rate_make(card, h100, 3_600_000, change, minimum_seconds=9999)
    interval_make(workspace, h100, utc("2026-11-02 10:59:30"), utc("2026-11-02 11:00:31"))
    assert shown(lines(project)) == [("2.40", 30, "0.02"), ("3.60", 90, "0.09")]


def test_padding_reaches_into_the_next_month_and_open_sessions_are_padded_as_of_now(
    card: RateCard, workspace: Workspace, h100: Flavor, project: Project
) -> None:
    rate_make(card, h100, 2_400_000, LONG_AGO, minimum_seconds=60)
    bound = utc("2026-11-30 23:00:00")
    interval_make(workspace, h100, bound - timedelta(seconds=10), bound - timedelta(seconds=5))
    interval_make(workspace, h100, NOW - timedelta(seconds=1), None)
    interval_make(workspace, h100, NOW - timedelta(seconds=9), NOW - timedelta(seconds=9))
    assert [cell.unit_seconds for cell in lines(project)] == [10]
    assert [cell.unit_seconds for cell in lines(project, date(2026, 12, 1))] == [50 + 60]


@pytest.mark.parametrize(
    ("mode", "seconds", "expected"),
    [
        ("graduated", 432_000, [("1.50", 72_000, "30.00"), ("2.00", 360_000, "200.00")]),
        ("volume", 432_000, [("1.50", 432_000, "180.00")]),
        ("graduated", 359_640, [("2.00", 359_640, "199.80")]),
        ("volume", 359_640, [("2.00", 359_640, "199.80")]),
        ("volume", 360_000, [("1.50", 360_000, "150.00")]),
        ("graduated", 360_000, [("2.00", 360_000, "200.00")]),
    ],
)
def test_tiers(
    card: RateCard,
    workspace: Workspace,
    h100: Flavor,
    project: Project,
    mode: str,
    seconds: int,
    expected: Shown,
) -> None:
    rate_make(card, h100, 2_000_000, LONG_AGO, tier_mode=mode, tiers=[(100, 1_500_000)])
    start = utc("2026-11-02 10:00:00")
    interval_make(workspace, h100, start, start + timedelta(seconds=seconds))
    assert shown(lines(project)) == expected


def test_tiers_fill_in_the_order_of_time_and_days_and_workspaces_agree(
    card: RateCard, project: Project, h100: Flavor, alice: User
) -> None:
    """train has 60 h first, then lab 60 h: lab's last 20 h are cheaper, and they are on its last day."""
    rate_make(card, h100, 2_000_000, LONG_AGO, tier_mode="graduated", tiers=[(100, 1_500_000)])
    train, lab = (workspace_make(project, h100, alice, name=name) for name in ("train", "lab"))
    start = utc("2026-11-02 23:00:00")
    interval_make(lab, h100, start + timedelta(hours=60), start + timedelta(hours=120))
    interval_make(train, h100, start, start + timedelta(hours=60))
    found = {
        (cell.holder, str(cell.unit_price)): cell.unit_seconds // 3600
        for cell in lines(project, by_holder=True)
    }
    assert found == {("train", "2.00"): 60, ("lab", "2.00"): 40, ("lab", "1.50"): 20}
    days = month_days(NOVEMBER)
    by_day = rate_usage(
        slots=Slots([NOVEMBER] * len(days), days), now=NOW, projects=[project.pk], by_holder=True
    )
    cheap = [
        (cell.holder, cell.slot.day, cell.unit_seconds // 3600) for cell in by_day if cell.unit_price == 1.5
    ]
    assert cheap == [("lab", 7, 20)]
    assert sum(cell.amount or 0 for cell in by_day) == Decimal("230.00")


def test_tiers_begin_anew_with_the_month_and_with_the_rate(
    card: RateCard, workspace: Workspace, h100: Flavor, project: Project
) -> None:
    change = utc("2026-11-10 00:00:00")
    rate_make(card, h100, 2_000_000, LONG_AGO, change, tier_mode="graduated", tiers=[(1, 1_000_000)])
    rate_make(card, h100, 2_000_000, change, tier_mode="graduated", tiers=[(1, 1_000_000)])
    interval_make(workspace, h100, utc("2026-10-31 21:00:00"), utc("2026-11-01 01:00:00"))
    interval_make(workspace, h100, change, change + timedelta(hours=2))
    assert shown(lines(project, date(2026, 10, 1))) == [("1.00", 3600, "1.00"), ("2.00", 3600, "2.00")]
    assert shown(lines(project)) == [("1.00", 3600 + 3600, "2.00"), ("2.00", 3600 + 3600, "4.00")]


def test_a_discount_lowers_the_unit_price_and_that_of_the_flavor_goes_first(
    card: RateCard, workspace: Workspace, h100: Flavor, l40s: Flavor, project: Project
) -> None:
    rate_make(card, h100, 2_400_000, LONG_AGO)
    rate_make(card, l40s, 3, LONG_AGO)
    organization = project.organization
    rows: list[tuple[Flavor | None, int]] = [(None, 5000), (h100, 750)]
    for flavor, basis_points in rows:
        Discount.objects.create(
            organization=organization,
            flavor=flavor,
            basis_points=basis_points,
            valid_from=utc("2026-11-02 00:00:00"),
            valid_to=utc("2026-11-03 00:00:00"),
            created_by="olga",
        )
    interval_make(workspace, h100, utc("2026-11-01 23:00:00"), utc("2026-11-02 01:00:00"))
    interval_make(workspace, l40s, utc("2026-11-02 00:00:00"), utc("2026-11-02 01:00:00"))
    assert {(cell.flavor, str(cell.unit_price), cell.unit_seconds) for cell in lines(project)} == {
        ("h100.1", "2.40", 3600),
        ("h100.1", "2.22", 3600),
        ("l40s.1", "0.000002", 3600),
    }
    paid = selectors.prices_at(at=utc("2026-11-02 12:00:00"), organization=organization)
    assert str(paid[h100.pk, Meter.GPU_HELD].per_hour) == "2.22"
    assert str(selectors.prices_at(at=utc("2026-11-02 12:00:00"))[h100.pk, Meter.GPU_HELD].per_hour) == "2.40"


def test_an_own_price_goes_before_the_standard_one_and_only_while_it_lasts(
    card: RateCard,
    workspace: Workspace,
    h100: Flavor,
    l40s: Flavor,
    project: Project,
    other_project: Project,
    charlie: User,
) -> None:
    rate_make(card, h100, 2_400_000, LONG_AGO)
    rate_make(card, l40s, 1_000_000, LONG_AGO)
    own = RateCard.objects.create(organization=project.organization, slug="own", name="Own", currency="EUR")
    rate_make(own, h100, 2_000_000, utc("2026-11-02 00:00:00"), utc("2026-11-02 01:00:00"))
    start, end = utc("2026-11-01 23:00:00"), utc("2026-11-02 02:00:00")
    interval_make(workspace, h100, start, end)
    interval_make(workspace, l40s, start, end)
    theirs = workspace_make(other_project, h100, charlie)
    interval_make(theirs, h100, start, end)
    assert {(cell.flavor, str(cell.unit_price), cell.unit_seconds) for cell in lines(project)} == {
        ("h100.1", "2.40", 7200),
        ("h100.1", "2.00", 3600),
        ("l40s.1", "1.00", 10_800),
    }
    assert shown(lines(other_project)) == [("2.40", 10_800, "7.20")]


def test_an_organization_is_charged_in_its_currency_or_not_at_all(
    card: RateCard,
    workspace: Workspace,
    h100: Flavor,
    project: Project,
    as_alice: Actor,
    as_olga: Actor,
    other_project: Project,
    charlie: User,
) -> None:
    rate_make(card, h100, 2_400_000, LONG_AGO)
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 10:00:20"))
    interval_make(
        workspace_make(other_project, h100, charlie),
        h100,
        utc("2026-11-02 10:00:00"),
        utc("2026-11-02 11:00:00"),
    )
    BillingAccount.objects.create(organization=project.organization, currency="JPY")
    (line,) = lines(project)
    assert (line.status, line.amount, line.currency) == (LineStatus.QUARANTINED, None, "JPY")
    yen = RateCard.objects.create(slug="standard-jpy", name="Standard", currency="JPY")
    rate_make(yen, h100, 450_000_000, LONG_AGO)
    assert shown(lines(project)) == [("450.00", 20, "3")]
    found = selectors.statement(actor=as_alice, project=project, month=NOVEMBER, now=NOW)
    assert (found.currency, found.total) == ("JPY", Decimal(3))
    everything = selectors.statement(actor=as_olga, month=NOVEMBER, now=NOW)
    assert everything.totals == {"EUR": Decimal("2.40"), "JPY": Decimal(3)}
    assert everything.total == Decimal("2.40")


def test_a_surplus_is_a_line_of_its_own_at_its_part_of_the_price(
    card: RateCard, workspace: Workspace, h100: Flavor, project: Project
) -> None:
    rate_make(card, h100, 2_000_000, LONG_AGO, meter=Meter.GPU_ALLOCATED, surplus_percent=150)
    for surplus in (False, True):
        row = interval_make(
            workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00"), meter=Meter.GPU_ALLOCATED
        )
        UsageInterval.objects.filter(pk=row.pk).update(surplus=surplus)
    assert [(cell.surplus, str(cell.unit_price), str(cell.amount)) for cell in lines(project)] == [
        (False, "2.00", "2.00"),
        (True, "3.00", "3.00"),
    ]


def test_a_line_that_touches_a_gap_of_the_meter_is_estimated(
    card: RateCard, workspace: Workspace, h100: Flavor, l40s: Flavor, project: Project
) -> None:
    start, end = utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00")
    MeterGap.objects.create(site=workspace.site, starts_at=end, ends_at=end + timedelta(minutes=5))
    interval_make(workspace, h100, start, end, meter=Meter.GPU_ALLOCATED)
    interval_make(workspace, h100, start, end)
    interval_make(workspace, l40s, start, end - timedelta(seconds=1), meter=Meter.GPU_ALLOCATED)
    found = {(cell.flavor, cell.meter): cell.estimated for cell in lines(project)}
    assert found == {
        ("h100.1", Meter.GPU_ALLOCATED): True,
        ("h100.1", Meter.GPU_HELD): False,
        ("l40s.1", Meter.GPU_ALLOCATED): False,
    }


@pytest.mark.parametrize(
    "terms", [{"increment_seconds": 60}, {"minimum_seconds": 300}, {"tier_mode": "graduated"}]
)
def test_workspaces_are_listed_by_their_costs_whatever_the_terms(
    card: RateCard,
    workspace: Workspace,
    h100: Flavor,
    project: Project,
    as_alice: Actor,
    terms: dict[str, Any],
) -> None:
    """Not only where what is past is added up once."""
    rate_make(
        card, h100, 2_400_000, LONG_AGO, tiers=[(1, 1_200_000)] if "tier_mode" in terms else (), **terms
    )
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 12:00:00"))
    asked: dict[str, Any] = {"actor": as_alice, "project": project, "month": NOVEMBER, "now": NOW}
    total = selectors.statement(**asked).total
    rows, count = selectors.cost_by_holder_page(**asked, most=10)
    assert (count, [row.amount for row in rows]) == (1, [total])
    found = cost_breakdown(by=By.WORKSPACE, **asked)
    assert (found.total, [row.amount for row in found.rows]) == (total, [total])


def test_what_is_added_beyond_its_month_is_part_of_what_a_workspace_cost(
    card: RateCard, workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor
) -> None:
    """Deleted ten minutes before the end of October, and charged for an hour of which most is in November."""
    rate_make(card, h100, 2_400_000, LONG_AGO, increment_seconds=3600)
    end = utc("2026-10-31 23:00:00") - timedelta(minutes=10)
    interval_make(workspace, h100, end - timedelta(minutes=1), end)
    workspace.deleted_at = end
    workspace.save(update_fields=["deleted_at"])
    months = [
        selectors.statement(actor=as_alice, project=project, month=month, now=NOW).total
        for month in (date(2026, 10, 1), NOVEMBER)
    ]
    assert months == [Decimal("0.44"), Decimal("1.96")]
    assert selectors.holder_cost(actor=as_alice, holder=workspace, now=NOW) == sum(months)
    assert cost_card(workspace, now=NOW, zone_day="").so_far == sum(months)
