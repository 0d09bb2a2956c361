"""No price changes what a closed month has charged, of whatever meter, and none begins in a final one."""

from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Invoice, InvoiceLine, Rate, RateCard, RateCardVersion
from billing.months import month_span
from billing.services import rate_set
from gpuaas.catalog.models import Flavor, StorageClass
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.imports import closes_share
from gpuaas.metering.models import FinalMonth, Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.billing.test_closing_at_once import at_once
from tests.lasting import lasting

pytestmark = pytest.mark.django_db

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
NOW = utc("2026-11-25 12:00:00")
USED = utc("2026-10-10 10:00:00")
OPEN = month_span(NOVEMBER).starts_at
INSTEAD = "; choose a start at 2026-10-31 23:00:00 UTC, the beginning of November 2026, or later"
FAST, UNSOLD = "storage:fast-ber-1", "CUSTOM_PCI_10DE_25B7"
# meter, and the resource of what has no flavor
FREE = [
    *((meter, "") for meter in (Meter.GPU_STOPPED, Meter.GPU_SHELVED)),
    *((meter, "") for meter in (Meter.VCPU_HELD, Meter.MEMORY_HELD, Meter.STORAGE_HELD)),
    (Meter.STORAGE_HELD, FAST),
    *((meter, "") for meter in (Meter.TOKENS_IN, Meter.TOKENS_OUT)),
]
WAITING = [(Meter.GPU_HELD, ""), (Meter.GPU_ALLOCATED, ""), (Meter.GPU_ALLOCATED, UNSOLD)]
wares = st.sampled_from([*FREE, *WAITING])
# what has a price from the beginning, what on the organization's own card, and which prices are set after the close of October
changes = st.lists(st.tuples(wares, st.integers(-20, 54), st.integers(1, 9)), min_size=1, max_size=6)
Ware = tuple[Meter, str]


@pytest.fixture(autouse=True)
def _late_november() -> Any:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    """It has used an hour of everything in October."""
    row = workspace_make(project, h100, alice)
    StorageClass.objects.create(
        site=row.site, name="fast", slug="fast-ber-1", state="active", observed_at=clock.now()
    )
    for meter, resource in (*FREE, *WAITING):
        flavor = h100 if of_flavor((meter, resource)) else None
        interval_make(row, flavor, USED, USED + timedelta(hours=1), meter=meter, resource=resource or meter)
    return row


def of_flavor(ware: Ware) -> bool:
    return ware[0].startswith("gpu_") and not ware[1]


def price(actor: Actor, flavor: Flavor, ware: Ware, since: datetime, amount: int = 1) -> Rate:
    meter, resource = ware
    given = flavor if of_flavor(ware) else None
    return rate_set(actor=actor, flavor=given, meter=meter, resource=resource, price=amount, valid_from=since)


def charged_late() -> set[Ware]:
    """What the invoice of November changes of October."""
    rows = InvoiceLine.objects.filter(invoice__month=NOVEMBER, charge_month=OCTOBER)
    return {ware_of(row) for row in rows}


def ware_of(row: InvoiceLine) -> Ware:
    return Meter(row.meter), row.resource if row.resource in (FAST, UNSOLD) else ""


@pytest.mark.parametrize("ware", FREE)
def test_what_was_free_in_a_closed_month_stays_free(
    workspace: Workspace, h100: Flavor, as_olga: Actor, ware: Ware
) -> None:
    month_close(as_olga, OCTOBER, accept="no prices yet")
    before = RateCardVersion.objects.count(), AuditEntry.objects.count()
    for since in (USED - timedelta(days=90), USED, OPEN - timedelta(seconds=1)):
        if since > USED:
            UsageInterval.objects.update(ended_at=NOW)
        with pytest.raises(Invalid) as refused:
            price(as_olga, h100, ware, since)
        words = "free" if ware[0].startswith("tokens") else "included"
        why = f"the invoices of months up to October 2026 have this as {words}"
        assert refused.value.fields == {"valid_from": [why + INSTEAD]}
    assert not Rate.objects.exists()
    assert (RateCardVersion.objects.count(), AuditEntry.objects.count()) == before
    assert price(as_olga, h100, ware, OPEN).valid_from == OPEN


def test_what_waits_for_a_price_in_a_closed_month_may_get_one(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    month_close(as_olga, OCTOBER, accept="no prices yet")
    price(as_olga, h100, (Meter.GPU_HELD, ""), USED)
    price(as_olga, h100, (Meter.GPU_ALLOCATED, UNSOLD), USED)
    month_close(as_olga, NOVEMBER, accept="no meter", now=utc("2026-12-04"))
    assert charged_late() == {(Meter.GPU_HELD, ""), (Meter.GPU_ALLOCATED, UNSOLD)}


@given(first=st.sets(wares), own=st.sets(st.sampled_from(WAITING[:2])), later=changes)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_is_priced_later_a_closed_month_charges_only_what_waited(
    workspace: Workspace, h100: Flavor, as_olga: Actor, first: set[Ware], own: set[Ware], later: list[Any]
) -> None:
    with transaction.atomic():
        for ware in sorted(first):
            with suppress(Invalid):
                price(as_olga, h100, ware, utc("2026-01-01"))
        card = RateCard.objects.create(
            organization=workspace.project.organization, currency="EUR", slug="own", name="Own"
        )
        for meter, _ in sorted(own):
            rate_make(card, h100, 5_000_000, utc("2026-01-01"), meter=meter)
        month_close(as_olga, OCTOBER, accept="random prices")
        waited = {ware_of(row) for row in InvoiceLine.objects.filter(status="quarantined")}
        if (Meter.GPU_HELD, "") in waited:  # its use is of the same devices
            waited.add((Meter.GPU_ALLOCATED, ""))
        for ware, day, amount in later:
            with suppress(Invalid), transaction.atomic():
                price(as_olga, h100, ware, month_span(OCTOBER).starts_at + timedelta(days=day), amount)
        month_close(as_olga, NOVEMBER, accept="random prices", now=utc("2026-12-04"))
        assert charged_late() <= waited
        assert all(
            line.amount_minor for line in Invoice.objects.get(month=OCTOBER).lines.filter(status="billed")
        )
        transaction.set_rollback(True)


@pytest.mark.parametrize("ware", [*FREE, *WAITING])
def test_no_price_begins_in_a_final_month(
    h100: Flavor, workspace: Workspace, as_olga: Actor, ware: Ware
) -> None:
    FinalMonth.objects.create(month=OCTOBER, ends_at=OPEN, marked_at=NOW, marked_by="olga")
    for since in (utc("2025-01-01"), USED, OPEN - timedelta(seconds=1)):
        with pytest.raises(Invalid) as refused:
            price(as_olga, h100, ware, since)
        why = "no price changes what months up to October 2026 cost, as they are final"
        assert refused.value.fields == {"valid_from": [why + INSTEAD]}
    assert not Rate.objects.exists()
    assert not RateCardVersion.objects.exists()
    assert price(as_olga, h100, ware, OPEN).valid_from == OPEN


@pytest.mark.django_db(transaction=True)
def test_a_price_of_the_past_waits_for_no_close_that_is_under_way(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    """The close may have rated already what it would change."""

    def back() -> str:
        with pytest.raises(Conflict) as refused:
            price(as_olga, h100, (Meter.GPU_HELD, ""), USED)
        price(as_olga, h100, (Meter.GPU_HELD, ""), NOW)
        return refused.value.message

    with transaction.atomic():
        closes_share()
        (said,) = at_once([back])
    assert said == "a month is being closed; set the price again once that is done"
