"""Statements: the worked numbers of rating.md, and who may see them."""

from datetime import date
from decimal import Decimal

import pytest

from billing import exports, selectors
from billing.rating import LineStatus
from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import NotFound
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make
from tests.lasting import lasting

NOVEMBER = date(2026, 11, 1)


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
@lasting
def priced(as_olga: Actor, h100: Flavor) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))


def test_one_second_more_than_a_minute(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 10:01:01"))
    found = selectors.statement(
        actor=as_alice, project=project, month=NOVEMBER, now=utc("2026-12-24 00:00:00")
    )
    (line,) = found.lines
    assert (line.unit_seconds, line.unit_price, line.amount) == (61, Decimal("2.40"), Decimal("0.04"))
    assert (found.total, found.running, found.currency) == (Decimal("0.04"), False, "EUR")
    assert line.status is LineStatus.BILLED
    assert line.gpu_type == "h100-sxm-80gb"


def test_runs_are_rounded_once_per_line(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, priced: None
) -> None:
    for minute in range(10):
        interval_make(workspace, h100, utc(f"2026-11-02 1{minute}:00:00"), utc(f"2026-11-02 1{minute}:01:01"))
    found = selectors.statement(
        actor=as_alice, project=project, month=NOVEMBER, now=utc("2026-12-24 00:00:00")
    )
    assert found.total == Decimal("0.41")


def test_a_rate_that_changes_midway_splits_exactly(
    workspace: Workspace, l40s: Flavor, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    rate_set(actor=as_olga, flavor=l40s, meter=Meter.GPU_HELD, price="2", valid_from=utc("2026-01-01"))
    rate_set(
        actor=as_olga, flavor=l40s, meter=Meter.GPU_HELD, price="3", valid_from=utc("2026-11-02 11:00:00")
    )
    interval_make(workspace, l40s, utc("2026-11-02 10:00:00"), utc("2026-11-02 12:00:00"), quantity=2)
    found = selectors.statement(
        actor=as_alice, project=project, month=NOVEMBER, now=utc("2026-12-24 00:00:00")
    )
    assert [(line.unit_price, line.unit_seconds, line.amount) for line in found.lines] == [
        (Decimal("2.00"), 7200, Decimal("4.00")),
        (Decimal("3.00"), 7200, Decimal("6.00")),
    ]


@pytest.mark.parametrize(("month", "hours"), [(date(2026, 3, 1), 743), (date(2026, 10, 1), 745)])
def test_months_with_a_clock_change(
    month: date,
    hours: int,
    workspace: Workspace,
    h100: Flavor,
    project: Project,
    as_alice: Actor,
    as_olga: Actor,
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="1", valid_from=utc("2026-01-01"))
    interval_make(workspace, h100, utc("2026-01-01"), None)
    now = utc("2026-12-24 00:00:00")
    found = selectors.statement(actor=as_alice, project=project, month=month, now=now)
    assert found.total == Decimal(hours)
    days = selectors.cost_by_day(actor=as_alice, project=project, month=month, now=now)
    assert {row.gpu_seconds for row in days} >= {86_400, 82_800 if hours == 743 else 90_000}
    assert sum(row.amount for row in days) == found.total


def test_an_open_interval_counts_until_now(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-11-21 12:00:00"), None, quantity=2)
    now = utc("2026-11-21 12:30:00.900")
    found = selectors.statement(actor=as_alice, project=project, now=now)
    assert (found.total, found.running, found.gpu_seconds) == (Decimal("2.40"), True, 3600)
    assert selectors.statement(actor=as_alice, project=project, now=now).total == Decimal("2.40")
    assert selectors.burn_per_hour(actor=as_alice, project=project, now=now) == Decimal("4.80")
    assert selectors.burn_per_hour(actor=as_alice, holder=workspace, now=now) == Decimal("4.80")
    assert selectors.holder_cost(actor=as_alice, holder=workspace, now=now) == Decimal("2.40")


def test_an_unknown_gpu_type_is_shown_and_never_zero(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, as_olga: Actor, priced: None
) -> None:
    start, end = utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00")
    interval_make(workspace, None, start, end, meter=Meter.GPU_ALLOCATED, resource="nvidia.com/mig-9g")
    interval_make(workspace, h100, start, end, meter=Meter.GPU_ALLOCATED)
    now = utc("2026-12-24 00:00:00")
    found = selectors.statement(actor=as_alice, project=project, month=NOVEMBER, now=now)
    assert {(line.status, line.resource or line.flavor, line.amount) for line in found.lines} == {
        (LineStatus.QUARANTINED, "nvidia.com/mig-9g", None),
        (LineStatus.INCLUDED, "h100.1", Decimal("0.00")),
    }
    assert len(found.quarantined) == 1
    (row,) = selectors.revenue_by_project(actor=as_olga, month=NOVEMBER, now=now)
    assert (row.quarantined_seconds, row.amount) == (3600, Decimal("0.00"))


def test_a_flavor_without_a_price_is_in_quarantine_until_it_has_one(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00"))
    now = utc("2026-12-24 00:00:00")
    (before,) = selectors.statement(actor=as_alice, project=project, month=NOVEMBER, now=now).lines
    assert (before.status, before.amount) == (LineStatus.QUARANTINED, None)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.4", valid_from=utc("2026-11-01"))
    (after,) = selectors.statement(actor=as_alice, project=project, month=NOVEMBER, now=now).lines
    assert (after.status, after.amount) == (LineStatus.BILLED, Decimal("2.40"))


def test_held_is_included_where_only_allocated_has_a_price(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_ALLOCATED, price="3", valid_from=utc("2026-11-01"))
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00"))
    interval_make(
        workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 10:30:00"), meter=Meter.GPU_ALLOCATED
    )
    found = selectors.statement(
        actor=as_alice, project=project, month=NOVEMBER, now=utc("2026-12-24 00:00:00")
    )
    assert {(line.meter, line.status, line.amount) for line in found.lines} == {
        (Meter.GPU_HELD, LineStatus.INCLUDED, Decimal("0.00")),
        (Meter.GPU_ALLOCATED, LineStatus.BILLED, Decimal("1.50")),
    }


def test_finer_views_add_up_by_largest_remainder(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, as_olga: Actor
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="0.18", valid_from=utc("2026-01-01"))
    for day in (2, 3, 4):
        workspace = workspace_make(project, h100, alice, name=f"train-{day}")
        interval_make(workspace, h100, utc(f"2026-11-0{day} 10:00:00"), utc(f"2026-11-0{day} 10:01:40"))
    now = utc("2026-12-24 00:00:00")
    assert selectors.statement(actor=as_alice, project=project, month=NOVEMBER, now=now).total == Decimal(
        "0.02"
    )
    days = selectors.cost_by_day(actor=as_alice, project=project, month=NOVEMBER, now=now)
    assert [row.amount for row in days] == [Decimal("0.01"), Decimal("0.01"), Decimal("0.00")]
    rows = selectors.cost_by_holder(actor=as_alice, project=project, month=NOVEMBER, now=now)
    assert [row.amount for row in rows] == [Decimal("0.01"), Decimal("0.01"), Decimal("0.00")]


def test_an_outsider_finds_no_statement(
    workspace: Workspace, project: Project, as_charlie: Actor, as_bob: Actor, priced: None
) -> None:
    for call in (
        selectors.statement,
        selectors.cost_by_day,
        selectors.cost_by_holder,
        selectors.burn_per_hour,
    ):
        with pytest.raises(NotFound):
            call(actor=as_charlie, project=project)
        with pytest.raises(NotFound):
            call(actor=as_charlie, organization=project.organization)
    with pytest.raises(NotFound):
        selectors.holder_cost(actor=as_charlie, holder=workspace)
    with pytest.raises(NotFound):
        selectors.revenue_by_project(actor=as_bob)
    with pytest.raises(NotFound):
        selectors.rates_for(actor=as_bob)


def test_without_a_scope_everybody_sees_their_own(
    workspace: Workspace, h100: Flavor, as_alice: Actor, as_charlie: Actor, as_olga: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00"))
    now = utc("2026-12-24 00:00:00")
    totals = [
        selectors.statement(actor=actor, month=NOVEMBER, now=now).total
        for actor in (as_alice, as_charlie, as_olga)
    ]
    assert totals == [Decimal("2.40"), Decimal("0.00"), Decimal("2.40")]


def test_the_csv_adds_up_and_keeps_quarantine_empty(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00"))
    interval_make(workspace, None, utc("2026-11-02 10:00:00"), utc("2026-11-02 11:00:00"), resource="x/y")
    found = selectors.statement(
        actor=as_alice, project=project, month=NOVEMBER, now=utc("2026-12-24 00:00:00")
    )
    header, *rows = [row.rstrip("\r\n").split(",") for row in exports.statement_csv(statement=found)]
    amounts = [row[header.index("amount")] for row in rows]
    assert sorted(amounts) == ["", "2.40"]
    assert all(len(row) == len(header) for row in rows)


def test_a_site_whose_clock_is_ahead_earns_and_costs_nothing_yet(
    workspace: Workspace, h100: Flavor, project: Project, as_alice: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-11-02 10:00:05"), None)
    found = selectors.statement(
        actor=as_alice, project=project, month=NOVEMBER, now=utc("2026-11-02 10:00:00")
    )
    assert (found.lines, found.total) == ((), Decimal("0.00"))
