"""Idle GPUs of a reserved pool: charged to the owner, to the second and the cent, and to nobody where nobody looked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pytest
from django.db import IntegrityError, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Invoice
from billing.months import month_of, month_span
from billing.rating import Cell, LineStatus
from billing.selectors import cost_by_day, cost_by_holder, statement
from billing.services import rate_card_ensure, rate_set
from billing.services.closing import month_close_run
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Invalid, NotFound
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from quotas.models import CapacityStretch, CapacityWatch, PoolReservation
from quotas.pools import pool_reservation_end, pool_reserve
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.billing.closed import month_close
from tests.billing.focus import exported
from tests.billing.oracle import Priced, cents, price_at
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.factories.catalog import FlavorFactory
from tests.lasting import lasting

OCTOBER = date(2026, 10, 1)
NOW = utc("2026-12-24 00:00:00")
NOON = utc("2026-10-05 12:00:00")


@pytest.fixture
@lasting
def reserved(h100: Flavor) -> Flavor:
    return FlavorFactory.create(pool=h100.pool, slug="h100.own", name="H100 reserved", price_class="reserved")


@pytest.fixture
@lasting
def workspace(project: Project, reserved: Flavor, alice: User) -> Workspace:
    return workspace_make(project, reserved, alice)


def had(flavor: Flavor, devices: int, start: datetime, end: datetime | None, *, known: bool = True) -> None:
    pool = flavor.pool
    CapacityStretch.objects.create(
        site=pool.site, gpu_type=pool.gpu_type, devices=devices, known=known, starts_at=start, ends_at=end
    )
    CapacityWatch.objects.get_or_create(site=pool.site, defaults={"seen_at": NOW})


def reserve(flavor: Flavor, project: Project, start: datetime, end: datetime | None) -> PoolReservation:
    """As it is long after it was made."""
    return PoolReservation.objects.create(
        pool=flavor.pool, flavor=flavor, project=project, valid_from=start, valid_to=end, created_by="olga"
    )


def idle_lines(actor: Actor, project: Project, *, now: datetime = NOW) -> list[Cell]:
    sheet = statement(actor=actor, project=project, month=OCTOBER, now=now)
    return [line for line in sheet.lines if line.meter is Meter.GPU_IDLE]


def test_the_numbers_of_rating_md(
    workspace: Workspace, reserved: Flavor, project: Project, as_alice: Actor
) -> None:
    """4 GPUs for an hour, 3 of them held for 40 minutes, at 1.00: idle 2.00."""
    rate_make(rate_card_ensure(), reserved, 1_000_000, utc("2026-01-01"), meter=Meter.GPU_IDLE)
    had(reserved, 4, NOON - timedelta(days=1), None)
    reserve(reserved, project, NOON, NOON + timedelta(hours=1))
    interval_make(workspace, reserved, NOON, NOON + timedelta(minutes=40), quantity=3)
    (line,) = idle_lines(as_alice, project)
    assert (line.unit_seconds, line.unit_price, line.amount) == (7200, Decimal("1.00"), Decimal("2.00"))
    assert (line.price_class, line.flavor, line.status) == ("reserved", "h100.own", LineStatus.BILLED)
    assert (line.project, line.resource, line.estimated, line.surplus) == ("weather-lm", "", False, False)
    total = statement(actor=as_alice, project=project, month=OCTOBER, now=NOW).total
    days = cost_by_day(actor=as_alice, project=project, month=OCTOBER, now=NOW)
    spent = cost_by_holder(actor=as_alice, project=project, month=OCTOBER, now=NOW)
    assert sum(row.amount for row in days) == sum(row.amount for row in spent) == total
    assert [(row.holder, row.amount) for row in spent if row.holder_id is None] == [
        ("idle in a reserved pool", Decimal("2.00"))
    ]


def test_whoever_takes_a_gpu_of_the_pool_it_is_not_idle(
    workspace: Workspace,
    reserved: Flavor,
    h100: Flavor,
    project: Project,
    other_project: Project,
    as_alice: Actor,
    charlie: User,
) -> None:
    rate_make(rate_card_ensure(), reserved, 1_000_000, utc("2026-01-01"), meter=Meter.GPU_IDLE)
    had(reserved, 4, NOON, None)
    reserve(reserved, project, NOON, NOON + timedelta(hours=1))
    guest = workspace_make(other_project, h100, charlie)
    interval_make(guest, h100, NOON, NOON + timedelta(hours=1), quantity=1)
    interval_make(guest, h100, NOON, NOON + timedelta(hours=1), quantity=6, meter=Meter.GPU_ALLOCATED)
    assert idle_lines(as_alice, project) == []  # and never less than nothing


def test_without_a_price_it_is_quarantined_and_where_nobody_looked_it_is_nothing(
    reserved: Flavor, project: Project, as_alice: Actor
) -> None:
    had(reserved, 4, NOON, NOON + timedelta(minutes=10))
    had(reserved, 4, NOON + timedelta(minutes=10), NOON + timedelta(minutes=50), known=False)
    had(reserved, 2, NOON + timedelta(minutes=50), None)
    reserve(reserved, project, NOON, NOON + timedelta(hours=1))
    (line,) = idle_lines(as_alice, project)
    assert (line.status, line.amount) == (LineStatus.QUARANTINED, None)
    assert line.unit_seconds == 4 * 600 + 2 * 600


def test_a_running_month_counts_up_to_now(reserved: Flavor, project: Project, as_alice: Actor) -> None:
    had(reserved, 2, NOON, None)
    reserve(reserved, project, NOON, None)
    (line,) = idle_lines(as_alice, project, now=NOON + timedelta(seconds=30))
    assert line.unit_seconds == 60


# Midnight in Berlin inside the window
BOUND = month_span(date(2026, 11, 1)).starts_at
WINDOW = 300
pieces = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(0, 5), st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[0],
)
takings = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(1, 200), st.integers(1, 3), st.booleans()), max_size=5
)
prices = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(0, 99_999_999)), max_size=3, unique_by=lambda row: row[0]
)
owned = st.tuples(st.integers(0, WINDOW), st.one_of(st.none(), st.integers(1, WINDOW)))


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@given(found=pieces, took=takings, priced=prices, of=owned)
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_biller_second_by_second_agrees(
    found: list[tuple[int, int, bool]],
    took: list[tuple[int, int, int, bool]],
    priced: list[tuple[int, int]],
    of: tuple[int, int | None],
    workspace: Workspace,
    reserved: Flavor,
    project: Project,
    as_alice: Actor,
) -> None:
    origin = BOUND - timedelta(seconds=WINDOW // 2)
    at = [origin + timedelta(seconds=second) for second in range(2 * WINDOW + 2)]
    ordered = sorted(found)
    first, last = of[0], 2 * WINDOW if of[1] is None else of[0] + of[1]
    with undone():
        for number, (start, devices, known) in enumerate(ordered):
            end = ordered[number + 1][0] if number + 1 < len(ordered) else 2 * WINDOW
            had(reserved, devices, at[start], at[end], known=known)
        for start, lasts, quantity, held in took:
            meter = Meter.GPU_HELD if held else Meter.GPU_ALLOCATED
            interval_make(workspace, reserved, at[start], at[start + lasts], quantity=quantity, meter=meter)
        rates = prices_make(reserved, [(at[start], micro) for start, micro in sorted(priced)])
        reserve(reserved, project, at[first], None if of[1] is None else at[last])
        for month in (OCTOBER, date(2026, 11, 1)):
            seconds: dict[int | None, int] = {}
            for second in range(first, min(last, 2 * WINDOW)):
                idle = idle_at(second, ordered, took) if month_of(at[second]) == month else 0
                price = price_at(rates, at[second])
                seconds[price] = seconds.get(price, 0) + idle
            assert charged(as_alice, project, month) == {
                price: (units, None if price is None else Decimal(cents(units, price)) / 100)
                for price, units in seconds.items()
                if units
            }


def charged(actor: Actor, project: Project, month: date) -> dict[int | None, tuple[int, Decimal | None]]:
    """By the price in millionths, idle unit-seconds and their amount."""
    return {
        None if line.unit_price is None else int(line.unit_price * 1_000_000): (
            line.unit_seconds,
            line.amount,
        )
        for line in statement(actor=actor, project=project, month=month, now=NOW).lines
        if line.meter is Meter.GPU_IDLE
    }


def prices_make(flavor: Flavor, priced: list[tuple[datetime, int]]) -> list[Priced]:
    ends = [start for start, _ in priced[1:]]
    rates = [Priced(start, end, micro) for (start, micro), end in zip_longest(priced, ends)]
    for rate in rates:
        rate_make(rate_card_ensure(), flavor, rate.micro, rate.start, rate.end, meter=Meter.GPU_IDLE)
    return rates


def idle_at(second: int, found: list[tuple[int, int, bool]], took: list[tuple[int, int, int, bool]]) -> int:
    before = [piece for piece in found if piece[0] <= second]
    if not before or not before[-1][2]:
        return 0
    now = [row for row in took if row[0] <= second < row[0] + row[1]]
    taken = max(sum(row[2] for row in now if row[3]), sum(row[2] for row in now if not row[3]))
    return max(before[-1][1] - taken, 0)


def test_it_is_a_line_of_the_invoice_and_of_focus_and_closing_again_posts_nothing(
    reserved: Flavor, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    """A project that has used nothing: its pool was idle for an hour on two days."""
    rate_make(rate_card_ensure(), reserved, 2_400_000, utc("2026-01-01"), meter=Meter.GPU_IDLE)
    midnight = utc("2026-10-04 22:00:00")  # in Berlin
    had(reserved, 3, midnight - timedelta(minutes=30), midnight + timedelta(minutes=30))
    had(reserved, 0, midnight + timedelta(minutes=30), None)
    reserve(reserved, project, utc("2026-10-01 00:00:00"), None)
    assert month_close(as_olga, OCTOBER).invoices == 1
    invoice = Invoice.objects.get()
    line = invoice.lines.get()
    assert (line.meter, line.price_class, line.flavor_slug, line.gpu_type) == (
        "gpu_idle",
        "reserved",
        "h100.own",
        "h100-sxm-80gb",
    )
    assert (line.unit_seconds, line.amount_minor, invoice.subtotal_minor) == (10_800, 720, 720)
    shares = [
        (share.day, share.workspace_id, share.unit_seconds, share.amount_minor) for share in line.shares.all()
    ]
    assert shares == [(date(2026, 10, 4), None, 5400, 360), (date(2026, 10, 5), None, 5400, 360)]
    rows = exported(as_alice, OCTOBER, project.organization)
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("7.20")
    assert {(row["SkuMeter"], row["RegionId"], row["ResourceId"]) for row in rows} == {
        ("GPU idle in a reserved pool", "ber-1", "")
    }
    assert month_close(as_olga, date(2026, 11, 1)).invoices == 0
    assert month_close_run(month=OCTOBER).invoices == 1
    assert Invoice.objects.count() == 1


def test_who_held_something_after_all_gets_back_what_was_charged_as_idle(
    workspace: Workspace, reserved: Flavor, project: Project, as_olga: Actor
) -> None:
    rate_make(rate_card_ensure(), reserved, 1_000_000, utc("2026-01-01"), meter=Meter.GPU_IDLE)
    rate_make(rate_card_ensure(), reserved, 3_000_000, utc("2026-01-01"))
    had(reserved, 2, NOON, NOON + timedelta(hours=1))
    reserve(reserved, project, utc("2026-10-01"), None)
    month_close(as_olga, OCTOBER)
    interval_make(workspace, reserved, NOON, NOON + timedelta(hours=1))
    month_close(as_olga, date(2026, 11, 1))
    late = Invoice.objects.get(month=date(2026, 11, 1))
    posted = {(line.meter, line.unit_seconds, line.amount_minor) for line in late.lines.all()}
    assert posted == {("gpu_held", 3600, 300), ("gpu_idle", -3600, -100)}


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> datetime:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    return NOON


def test_a_pool_is_reserved_and_given_back(
    today: datetime, reserved: Flavor, project: Project, as_olga: Actor
) -> None:
    made = pool_reserve(actor=as_olga, flavor=reserved, project=project, note=" for the autumn ")
    assert (made.pool, made.valid_from, made.valid_to, made.note) == (
        reserved.pool,
        NOON,
        None,
        "for the autumn",
    )
    later = NOON + timedelta(days=3)
    ended = pool_reservation_end(actor=as_olga, reservation=made, at=later)
    assert ended is not None
    assert ended.valid_to == later
    following = pool_reserve(actor=as_olga, flavor=reserved, project=project, valid_from=later)
    assert pool_reservation_end(actor=as_olga, reservation=following) is None
    with pytest.raises(Conflict, match="already ended"):
        pool_reservation_end(actor=as_olga, reservation=following)
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "pool.reserve",
        "pool.reservation.end",
        "pool.reserve",
        "pool.reservation.end",
    ]


def test_what_cannot_be_reserved_is_refused_beside_its_field(
    today: datetime,
    reserved: Flavor,
    h100: Flavor,
    project: Project,
    other_project: Project,
    as_olga: Actor,
    as_alice: Actor,
) -> None:
    pool_reserve(actor=as_olga, flavor=reserved, project=project, valid_from=NOON + timedelta(days=1))
    wrong: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("flavor", {"flavor": h100}, "class reserved"),
        ("valid_from", {"valid_from": NOON - timedelta(seconds=1)}, "now or later"),
        ("valid_from", {"valid_from": NOON + timedelta(days=9)}, "reserved for Climate Physics"),
        ("valid_to", {}, "reserved for Climate Physics"),
        ("valid_to", {"valid_to": NOON}, "after it starts"),
    )
    for field, terms, said in wrong:
        with pytest.raises(Invalid) as refused:
            pool_reserve(**{"actor": as_olga, "flavor": reserved, "project": other_project, **terms})
        assert said in refused.value.fields[field][0]
    pool_reserve(actor=as_olga, flavor=reserved, project=other_project, valid_to=NOON + timedelta(days=1))
    with pytest.raises((Forbidden, NotFound)):
        pool_reserve(actor=as_alice, flavor=reserved, project=project)


def test_the_price_of_time_that_was_idle_stays(
    today: datetime, reserved: Flavor, project: Project, as_olga: Actor
) -> None:
    rate_make(rate_card_ensure(), reserved, 1_000_000, utc("2026-01-01"), meter=Meter.GPU_IDLE)
    rate_set(
        actor=as_olga, flavor=reserved, meter=Meter.GPU_IDLE, price="2", valid_from=NOON - timedelta(days=2)
    )
    reserve(reserved, project, NOON - timedelta(days=1), None)
    with pytest.raises(Invalid, match="already rated"):
        rate_set(
            actor=as_olga,
            flavor=reserved,
            meter=Meter.GPU_IDLE,
            price="3",
            valid_from=NOON - timedelta(hours=1),
        )


@pytest.mark.django_db(transaction=True)
def test_one_of_two_that_reserve_a_pool_at_once_is_refused(
    reserved: Flavor, project: Project, other_project: Project, as_olga: Actor
) -> None:
    ready, told = threading.Barrier(2), []

    def ask(whose: Project) -> None:
        try:
            ready.wait(30)
            pool_reserve(actor=as_olga, flavor=reserved, project=whose)
            told.append("made")
        except (GpuaasError, IntegrityError) as error:
            told.append(type(error).__name__)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask, args=(whose,)) for whose in (project, other_project)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(told) == ["Invalid", "made"]
    assert PoolReservation.objects.count() == 1
