"""Storage is charged by its class: the class's own price, else that of plain storage; each line names the class."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import selectors
from billing.held import held_quote, what_if
from billing.models import Invoice, Rate, RateCard
from billing.months import month_span
from billing.quotes import QuoteItem, quote
from billing.selectors.sheets import price_sheet
from billing.services import (
    LineTerms,
    rate_card_ensure,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_set,
)
from billing.states import CloseState
from gpuaas.catalog.models import Flavor, Site, StorageClass
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace, WorkspaceStorage
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.oracle import Priced, cents, price_at
from tests.billing.stage import interval_make, utc, version_make, workspace_make
from tests.lasting import lasting

pytestmark = pytest.mark.django_db

FAST, PLAIN = "storage:fast-ber-1", "storage_held"
OCTOBER = date(2026, 10, 1)
BOUND = month_span(date(2026, 11, 1)).starts_at
WINDOW = 600
ORIGIN = BOUND - timedelta(seconds=WINDOW / 2)
NOW = utc("2026-12-24 00:00:00")
QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
RESOURCES = (PLAIN, FAST, "storage:slow-ber-1")
used = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(1, 300), st.integers(1, 900), st.sampled_from(RESOURCES)),
    min_size=1,
    max_size=6,
)
# start, length, price, whether on the organization's own card, of what
priced = st.lists(
    st.tuples(
        st.integers(0, WINDOW),
        st.integers(1, WINDOW),
        st.integers(0, 999_999),
        st.booleans(),
        st.sampled_from(RESOURCES),
    ),
    max_size=8,
)


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
def fast(site: Site) -> StorageClass:
    return StorageClass.objects.create(
        site=site, name="fast", slug="fast-ber-1", state="active", observed_at=clock.now()
    )


def at(second: int) -> datetime:
    return ORIGIN + timedelta(seconds=second)


def rates_stage(project: Project, prices: list[Any]) -> dict[tuple[bool, str], list[Priced]]:
    """By card and resource; what would overlap is left out."""
    Rate.objects.all().delete()
    own, _ = RateCard.objects.get_or_create(
        organization=project.organization, currency="EUR", defaults={"slug": "own", "name": "Own"}
    )
    found: dict[tuple[bool, str], list[Priced]] = {}
    for start, lasts, micro, is_own, resource in prices:
        rows = found.setdefault((is_own, resource), [])
        one = Priced(at(start), at(start + lasts), micro)
        if any(each.start < at(start + lasts) and at(start) < (each.end or NOW) for each in rows):
            continue
        rows.append(one)
        card = own if is_own else rate_card_ensure()
        Rate.objects.create(
            card=card,
            version=version_make(card, one.start),
            meter=Meter.STORAGE_HELD,
            resource_name="" if resource == PLAIN else resource,
            price_micro=micro,
            valid_from=one.start,
            valid_to=one.end,
            created_by="olga",
        )
    return found


def expected_price(
    rates: dict[tuple[bool, str], list[Priced]], resource: str, moment: datetime
) -> int | None:
    """Second by second: of the class on the own card, on the standard one, then of plain storage on each."""
    order = [(True, resource), (False, resource), (True, PLAIN), (False, PLAIN)]
    found = (price_at(rates.get(key, []), moment) for key in order)
    return next((micro for micro in found if micro is not None), None)


@given(usage=used, prices=priced)
@QUICK
def test_each_class_is_charged_by_its_price_or_by_that_of_plain_storage(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, usage: list[Any], prices: list[Any]
) -> None:
    workspace = Workspace.objects.first() or workspace_make(project, h100, alice)
    UsageInterval.objects.all().delete()
    for start, lasts, gib, resource in usage:
        end = at(start + lasts)
        interval_make(
            workspace, None, at(start), end, quantity=gib, meter=Meter.STORAGE_HELD, resource=resource
        )
    rates = rates_stage(project, prices)
    for month in (OCTOBER, date(2026, 11, 1)):
        span = month_span(month)
        counted: dict[tuple[str, int | None], int] = {}
        for start, lasts, gib, resource in usage:
            for second in range(start, start + lasts):
                if span.starts_at <= at(second) < span.ends_at:
                    key = resource, expected_price(rates, resource, at(second))
                    counted[key] = counted.get(key, 0) + gib
        expected = {
            (resource, micro): (units, 0 if micro is None else cents(units, micro))
            for (resource, micro), units in counted.items()
        }
        found = selectors.statement(actor=as_alice, project=project, month=month, now=NOW)
        assert {
            (line.resource, None if line.unit_price is None else int(line.unit_price * 1_000_000)): (
                line.unit_seconds,
                int((line.amount or 0) * 100),
            )
            for line in found.lines
        } == expected
        days = selectors.cost_by_day(actor=as_alice, project=project, month=month, now=NOW)
        assert sum(row.amount for row in days) == found.total


def test_a_quote_names_the_class_and_takes_its_price(
    project: Project, h100: Flavor, as_olga: Actor, fast: StorageClass
) -> None:
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.001")
    asked: dict[str, Any] = {
        "organization": project.organization,
        "items": [QuoteItem(h100, 1)],
        "storage_gib": 10,
        "classes": {"fast-ber-1": 20},
    }
    lines = {line.label: line.per_hour for line in quote(**asked).lines if "Storage" in line.label}
    assert lines == {"Storage (GiB)": Decimal("0.01"), "Storage fast-ber-1 (GiB)": Decimal("0.02")}
    rate_set(actor=as_olga, flavor=None, resource=FAST, meter=Meter.STORAGE_HELD, price="0.0075")
    lines = {line.label: line.per_hour for line in quote(**asked).lines if "Storage" in line.label}
    assert lines == {"Storage (GiB)": Decimal("0.01"), "Storage fast-ber-1 (GiB)": Decimal("0.15")}


@pytest.mark.parametrize("class_price", ["", "0.0075"])
def test_what_runs_and_what_would_name_the_class(
    workspace: Workspace, as_olga: Actor, fast: StorageClass, class_price: str
) -> None:
    begun = clock.whole_second(clock.now()) - timedelta(hours=1)
    for gib, resource in ((10, PLAIN), (20, FAST)):
        interval_make(workspace, None, begun, None, quantity=gib, meter=Meter.STORAGE_HELD, resource=resource)
    Workspace.objects.filter(pk=workspace.pk).update(storage_gib=10)
    WorkspaceStorage.objects.create(workspace=workspace, storage_class=fast, gib=20, confirmed=20)
    workspace.refresh_from_db()
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.001")
    if class_price:
        rate_set(actor=as_olga, flavor=None, resource=FAST, meter=Meter.STORAGE_HELD, price=class_price)
    each = Decimal(class_price or "0.001")
    now = held_quote(holder=workspace)
    assert {line.label: line.per_hour for line in now.lines} == {
        "Storage (GiB)": Decimal("0.01"),
        "Storage fast-ber-1 (GiB)": each * 20,
    }
    assert now.per_hour == Decimal("0.01") + each * 20
    more = what_if(workspace=workspace, items=[], classes={"fast-ber-1": 50})
    assert more.per_hour == each * 30
    assert what_if(workspace=workspace, items=[]).per_hour == 0


def test_the_invoice_has_a_line_for_each_class(
    workspace: Workspace, as_olga: Actor, fast: StorageClass
) -> None:
    for gib, resource in ((10, PLAIN), (20, FAST)):
        first, last = utc("2026-10-02 10:00:00"), utc("2026-10-02 20:00:00")
        interval_make(workspace, None, first, last, quantity=gib, meter=Meter.STORAGE_HELD, resource=resource)
    begin = utc("2026-09-30 22:00:00")
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.01", valid_from=begin)
    with pytest.raises(Invalid, match="already rated"):
        rate_set(
            actor=as_olga, flavor=None, resource=FAST, meter=Meter.STORAGE_HELD, price="1", valid_from=begin
        )
    assert month_close(as_olga, OCTOBER).state == CloseState.CLOSED
    lines = Invoice.objects.get().lines.values_list("resource", "amount_minor")
    assert sorted(lines) == [(FAST, 200), (PLAIN, 100)]


def test_a_draft_and_a_price_list_have_the_class(
    project: Project, as_olga: Actor, as_alice: Actor, fast: StorageClass
) -> None:
    draft = rate_draft_open(actor=as_olga)
    terms = LineTerms(price="0.02")
    rate_draft_line_set(
        actor=as_olga, draft=draft, flavor=None, resource=FAST, meter="storage_held", terms=terms
    )
    rate_draft_publish(actor=as_olga, draft=draft)
    rows = price_sheet(actor=as_alice, organization=project.organization).rows
    assert [(row.resource, row.meter, row.now.price) for row in rows if row.now] == [
        (FAST, Meter.STORAGE_HELD, Decimal("0.02"))
    ]


@pytest.mark.parametrize(
    ("resource", "meter", "field"),
    [
        ("storage:never", Meter.STORAGE_HELD, "resource"),
        ("storage:", Meter.STORAGE_HELD, "resource"),
        ("storage:a\x00b", Meter.STORAGE_HELD, "resource"),
        (FAST, Meter.GPU_HELD, "meter"),
        (FAST, Meter.VCPU_HELD, "meter"),
        ("fast-ber-1", Meter.STORAGE_HELD, "resource"),
    ],
)
def test_a_price_is_of_a_class_that_was_sold_and_of_storage(
    as_olga: Actor, fast: StorageClass, resource: str, meter: Meter, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        rate_set(actor=as_olga, flavor=None, resource=resource, meter=meter, price="1")
    assert list(refused.value.fields) == [field]
    assert not Rate.objects.exists()


def test_a_class_without_a_price_has_the_terms_of_plain_storage_too(
    workspace: Workspace, project: Project, as_olga: Actor, as_alice: Actor, fast: StorageClass
) -> None:
    """Ten minutes are charged as an hour while plain storage says so, and as they are once the class has a price."""
    for day in (2, 20):
        first = utc(f"2026-10-{day:02} 10:00:00")
        last = first + timedelta(minutes=10)
        interval_make(workspace, None, first, last, quantity=6, meter=Meter.STORAGE_HELD, resource=FAST)
    card, begin, later = rate_card_ensure(), utc("2026-09-01"), utc("2026-10-10")
    storage: dict[str, Any] = {"card": card, "meter": Meter.STORAGE_HELD, "created_by": "olga"}
    version = version_make(card, begin)
    Rate.objects.create(
        version=version, price_micro=1_000_000, minimum_seconds=3600, valid_from=begin, **storage
    )
    version = version_make(card, later)
    Rate.objects.create(version=version, resource_name=FAST, price_micro=500_000, valid_from=later, **storage)
    found = selectors.statement(actor=as_alice, project=project, month=OCTOBER, now=NOW)
    assert {(line.unit_price, line.unit_seconds, line.amount) for line in found.lines} == {
        (Decimal(1), 6 * 3600, Decimal(6)),
        (Decimal("0.5"), 6 * 600, Decimal("0.50")),
    }
