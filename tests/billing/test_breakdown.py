"""Costs by any dimension add up to the statement; filters lead down to the very intervals; nobody sees another's."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.holders import SORTS
from billing.months import month_span
from billing.rating import Slots, rate_usage
from billing.selectors import cost_by_day, month_costs, statement
from billing.selectors.breakdown import NO_KEY, By, CostFilters, cost_breakdown, cost_intervals
from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Forbidden, Invalid, NotFound
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.stage import cluster_make, interval_make, utc, workspace_make
from tests.factories.catalog import FlavorFactory
from tests.factories.tenants import ProjectFactory

OCTOBER = date(2026, 10, 1)
NOW = utc("2026-12-24")


@pytest.fixture
def spent(
    project: Project, h100: Flavor, l40s: Flavor, alice: User, bob: User, as_olga: Actor
) -> list[Workspace]:
    """alice: 2 h of H100 and 1 h of L40S; bob: 3 h of H100 on another day; and 5 GiB-hours; in two projects."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    rate_set(actor=as_olga, flavor=l40s, meter=Meter.GPU_HELD, price="0.90", valid_from=utc("2026-01-01"))
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.01", valid_from=utc("2026-01-01"))
    second = ProjectFactory.create(organization=project.organization, slug="second")
    rows = [
        workspace_make(project, h100, alice, name="train"),
        workspace_make(second, h100, bob, name="serve"),
    ]
    interval_make(rows[0], h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 12:00:00"))
    interval_make(rows[0], l40s, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    interval_make(rows[1], h100, utc("2026-10-05 10:00:00"), utc("2026-10-05 13:00:00"))
    interval_make(
        rows[1],
        None,
        utc("2026-10-05 10:00:00"),
        utc("2026-10-05 11:00:00"),
        quantity=5,
        meter=Meter.STORAGE_HELD,
        resource="storage_held",
    )
    return rows


def rows_by(
    actor: Actor, by: By, filters: CostFilters | None = None, **scope: object
) -> list[tuple[str, Decimal]]:
    found = cost_breakdown(actor=actor, by=by, month=OCTOBER, filters=filters, now=NOW, **scope)  # type: ignore[arg-type]
    assert found.total == sum((row.amount for row in found.rows), Decimal(0))
    return [(row.name, row.amount) for row in found.rows]


def test_every_view_adds_up_to_the_statement(
    spent: list[Workspace], organization: Organization, as_alice: Actor
) -> None:
    total = statement(actor=as_alice, organization=organization, month=OCTOBER, now=NOW).total
    assert total == Decimal("12.95")
    views = {by: rows_by(as_alice, by, organization=organization) for by in By}
    assert all(sum(amount for _, amount in rows) == total for rows in views.values())
    assert views == {
        By.PROJECT: [("second", Decimal("7.25")), ("weather-lm", Decimal("5.70"))],
        By.WORKSPACE: [("serve", Decimal("7.25")), ("train", Decimal("5.70"))],
        By.GPU_TYPE: [
            ("h100-sxm-80gb", Decimal("12.00")),
            ("l40s-48gb", Decimal("0.90")),
            ("vCPU, memory, storage, tokens", Decimal("0.05")),
        ],
        By.MEMBER: [("bob", Decimal("7.25")), ("alice", Decimal("5.70"))],
        By.DAY: [("Fri 2 Oct", Decimal("5.70")), ("Mon 5 Oct", Decimal("7.25"))],
    }


def test_a_line_without_a_price_is_one_line_of_its_project(
    spent: list[Workspace], project: Project, h100: Flavor, alice: User, as_alice: Actor
) -> None:
    """However many workspaces it has: whole lines are not asked in their parts."""
    own = FlavorFactory.create(pool=h100.pool, slug="h100.unpriced")
    for name in ("one", "two", "three"):
        row = workspace_make(project, own, alice, name=name)
        interval_make(row, own, utc("2026-10-02 10:00:00"), utc("2026-10-02 12:00:00"))
    given: dict[str, Any] = {"actor": as_alice, "project": project, "month": OCTOBER, "now": NOW}
    assert len(statement(**given).quarantined) == 1
    for by, parts in ((By.PROJECT, 1), (By.GPU_TYPE, 1), (By.WORKSPACE, 3)):
        assert sum(row.quarantined for row in cost_breakdown(by=by, **given).rows) == parts


def test_whole_holders_are_the_sums_of_their_parts(
    spent: list[Workspace], organization: Organization, h100: Flavor, alice: User, as_alice: Actor
) -> None:
    """They are added up by the database, and by Python where a filter may take a part of them."""
    own = FlavorFactory.create(pool=h100.pool, slug="h100.unpriced")
    for flavor in (h100, own):
        interval_make(spent[0], flavor, utc("2026-10-07 10:00:00"), utc("2026-10-07 10:00:01"))
        row = cluster_make(spent[1].project, flavor, alice, name=f"of-{flavor.slug}")
        interval_make(row, flavor, utc("2026-10-07 10:00:00"), utc("2026-10-07 10:00:05"))
    given: dict[str, Any] = {"actor": as_alice, "by": By.WORKSPACE, "month": OCTOBER, "now": NOW}
    whole = cost_breakdown(organization=organization, **given)
    parts = [
        cost_breakdown(organization=organization, filters=CostFilters(member=name), **given)
        for name in ("alice", "bob")
    ]
    assert [(row.name, row.quarantined, row.is_cluster) for row in whole.rows] == [
        ("serve", 0, False),
        ("train", 1, False),
        ("of-h100.1", 0, True),
        ("of-h100.unpriced", 1, True),
    ]
    assert sorted(whole.rows, key=str) == sorted((row for part in parts for row in part.rows), key=str)
    assert whole.total == sum(part.total for part in parts)
    assert whole.gpu_seconds == sum(part.gpu_seconds for part in parts)
    second = cost_breakdown(organization=organization, filters=CostFilters(project="second"), **given)
    assert list(second.rows) == [row for row in whole.rows if row.project == "second"]


def test_filters_hold_together_down_to_the_intervals(
    spent: list[Workspace], organization: Organization, as_alice: Actor
) -> None:
    only = CostFilters(member="alice", gpu_type="h100-sxm-80gb")
    assert rows_by(as_alice, By.WORKSPACE, only, organization=organization) == [("train", Decimal("4.80"))]
    day = CostFilters(day=date(2026, 10, 5), workspace=str(spent[1].pk), gpu_type="none")
    assert rows_by(as_alice, By.DAY, day, organization=organization) == [("Mon 5 Oct", Decimal("0.05"))]
    given = {"actor": as_alice, "organization": organization, "month": OCTOBER}
    assert [row.quantity for row in cost_intervals(filters=day, **given)] == [5]  # type: ignore[arg-type]
    (row,) = cost_intervals(filters=only, **given)  # type: ignore[arg-type]
    assert (row.holder.name, row.meter) == ("train", Meter.GPU_HELD)
    for nothing in (CostFilters(project="no"), CostFilters(workspace="no"), CostFilters(member="charlie")):
        assert rows_by(as_alice, By.DAY, nothing, organization=organization) == []
        assert not cost_intervals(filters=nothing, **given).exists()  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        cost_intervals(filters=CostFilters(day=date(2026, 11, 5)), **given)  # type: ignore[arg-type]


def test_a_member_sees_the_project_and_an_outsider_nothing(
    spent: list[Workspace], project: Project, organization: Organization, as_bob: Actor, as_charlie: Actor
) -> None:
    assert rows_by(as_bob, By.WORKSPACE, project=project) == [("train", Decimal("5.70"))]
    second = Project.objects.get(slug="second")
    for actor, scope in (
        (as_bob, {"project": second}),
        (as_charlie, {"project": project}),
        (as_charlie, {"organization": organization}),
    ):
        with pytest.raises(NotFound):
            rows_by(actor, By.DAY, **scope)
        with pytest.raises(NotFound):
            cost_intervals(actor=actor, month=OCTOBER, **scope)
    with pytest.raises((Forbidden, NotFound)):
        rows_by(as_bob, By.PROJECT, organization=organization)


@pytest.fixture
def halves(spent: list[Workspace], h100: Flavor, alice: User) -> list[Workspace]:
    """Five workspaces that cost fractions of a cent on each of three days, so that every sum has something to share out."""
    rows = [workspace_make(spent[0].project, h100, alice, name=f"half-{number}") for number in range(5)]
    for number, row in enumerate(rows):
        for day in (11, 12, 13):
            start = utc(f"2026-10-{day} 10:00:00")
            interval_make(row, h100, start, start + timedelta(seconds=7 + number))
    return rows


def test_a_day_is_the_same_by_any_dimension(
    halves: list[Workspace], organization: Organization, as_alice: Actor
) -> None:
    """And the one of the chart: a day's holders add up to it, however their cents fall."""
    given: dict[str, Any] = {"actor": as_alice, "organization": organization, "month": OCTOBER, "now": NOW}
    days: dict[date, Decimal] = {}
    for row in cost_by_day(**given):
        days[row.day] = days.get(row.day, Decimal(0)) + row.amount
    assert {row.key: row.amount for row in cost_breakdown(by=By.DAY, **given).rows} == {
        day.isoformat(): amount for day, amount in days.items()
    }
    for day, amount in days.items():
        for by in By:
            found = cost_breakdown(by=by, filters=CostFilters(day=day), **given)
            assert (by, found.total) == (by, amount)


def test_a_statement_and_its_days_are_rated_once(
    halves: list[Workspace], organization: Organization, as_alice: Actor
) -> None:
    given: dict[str, Any] = {"actor": as_alice, "organization": organization, "month": OCTOBER, "now": NOW}
    costs = month_costs(**given)
    assert costs.statement == statement(**given)
    assert costs.days == cost_by_day(**given)
    assert sum(row.amount for row in costs.days) == costs.statement.total


def test_pages_of_rows_are_cut_from_all(
    halves: list[Workspace], organization: Organization, as_alice: Actor
) -> None:
    """Whoever cuts them, the database or Python: what is said of all rows does not change."""
    given: dict[str, Any] = {"actor": as_alice, "organization": organization, "month": OCTOBER, "now": NOW}
    for by in By:
        whole = cost_breakdown(by=by, **given)
        assert (whole.count, whole.largest) == (len(whole.rows), max(row.amount for row in whole.rows))
        for skipped in range(0, whole.count + 3, 2):
            page = cost_breakdown(by=by, most=2, skipped=skipped, **given)
            assert page == replace(whole, rows=whole.rows[skipped : skipped + 2])


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("by", By)
def test_rows_come_in_the_order_that_is_asked_for(
    by: By, sort: str, halves: list[Workspace], organization: Organization, as_alice: Actor
) -> None:
    """Up and down, by the database and by Python; pages are cut of that order, and what is said of all stays."""
    given: dict[str, Any] = {"actor": as_alice, "organization": organization, "month": OCTOBER, "now": NOW}
    whole, found = cost_breakdown(by=by, **given), cost_breakdown(by=by, sort=sort, **given)
    assert replace(found, rows=whole.rows) == whole
    assert sorted(found.rows, key=str) == sorted(whole.rows, key=str)
    named = "key" if by is By.DAY else "name"
    of = {"amount": "amount", "hours": "gpu_seconds", "name": named}[sort.lstrip("-")]
    told = [getattr(row, of) for row in found.rows if row.key != NO_KEY or of != "name"]
    assert told == sorted(told, reverse=sort.startswith("-"))
    for skipped in range(0, whole.count + 2, 2):
        page = cost_breakdown(by=by, most=2, skipped=skipped, sort=sort, **given)
        assert page == replace(found, rows=found.rows[skipped : skipped + 2])


def test_what_one_workspace_cost_is_its_share_of_the_lines(
    halves: list[Workspace], h100: Flavor, as_alice: Actor
) -> None:
    slots = Slots([OCTOBER], [month_span(OCTOBER)])
    asked: dict[str, Any] = {"now": NOW, "projects": [halves[0].project_id], "by_holder": True}
    cells = rate_usage(slots=slots, **asked)
    for row in halves:
        mine = rate_usage(slots=slots, wanted=[row.pk], **asked)
        assert mine == [cell for cell in cells if cell.holder_id == row.pk]
        assert mine
