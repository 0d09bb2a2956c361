"""Prices: dated, without overlap, the past as it was."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, transaction

from billing import selectors
from billing.models import Rate
from billing.services import rate_card_ensure, rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Forbidden, Invalid, NotFound
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.billing.stage import interval_make, utc, version_make, workspace_make
from tests.factories.tenants import UserFactory

NOW = utc("2026-11-21 12:00:00")


@pytest.fixture(autouse=True)
def _noon() -> "object":
    with time_machine.travel(NOW, tick=False):
        yield


def test_a_new_price_ends_the_one_in_force(as_olga: Actor, h100: Flavor) -> None:
    old = rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40")
    new = rate_set(
        actor=as_olga, flavor=h100, meter="gpu_held", price="2.10", valid_from=NOW + timedelta(days=1)
    )
    old.refresh_from_db()
    assert (old.valid_from, old.valid_to, new.valid_to) == (NOW, NOW + timedelta(days=1), None)
    later = selectors.prices_at(at=NOW + timedelta(days=1)).get((h100.pk, Meter.GPU_HELD))
    assert later is not None
    assert (later.currency, later.per_hour) == ("EUR", Decimal("2.10"))
    assert [row.price for row in selectors.rates_for(actor=as_olga, at=NOW)] == [Decimal("2.40")]
    assert AuditEntry.objects.filter(action="rate.set").count() == 2


def test_a_price_set_before_an_announced_removal_leaves_that_as_it_is(as_olga: Actor, h100: Flavor) -> None:
    given: dict[str, Any] = {"actor": as_olga, "flavor": h100, "meter": Meter.GPU_HELD}
    old, gone = rate_set(**given, price="2"), NOW + timedelta(days=10)
    Rate.objects.filter(pk=old.pk).update(valid_to=gone)
    assert rate_set(**given, price="3", valid_from=NOW + timedelta(days=5)).valid_to == gone
    assert rate_set(**given, price="4", valid_from=gone).valid_to is None


def test_a_price_between_two_ends_where_the_next_begins(as_olga: Actor, h100: Flavor) -> None:
    for day, price in ((0, "1"), (10, "3"), (5, "2")):
        rate_set(
            actor=as_olga,
            flavor=h100,
            meter=Meter.GPU_HELD,
            price=price,
            valid_from=NOW + timedelta(days=day),
        )
    rows = Rate.objects.order_by("valid_from").values_list("price_micro", "valid_from", "valid_to")
    bounds = [NOW + timedelta(days=day) for day in (0, 5, 10)]
    assert list(rows) == [
        (1_000_000, bounds[0], bounds[1]),
        (2_000_000, bounds[1], bounds[2]),
        (3_000_000, bounds[2], None),
    ]


def test_twice_at_the_same_second_keeps_the_last(as_olga: Actor, h100: Flavor) -> None:
    for price in ("1", "2"):
        rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price=price)
    assert [row.price for row in Rate.objects.all()] == [Decimal("2.00")]


def test_what_was_rated_is_not_rated_again(
    as_olga: Actor, h100: Flavor, project: Project, alice: User
) -> None:
    start = NOW - timedelta(days=10)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2", valid_from=start)
    used = workspace_make(project, h100, alice)
    interval_make(used, h100, NOW - timedelta(days=5), NOW - timedelta(days=4))
    with pytest.raises(Invalid) as refused:
        rate_set(
            actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="3", valid_from=NOW - timedelta(days=6)
        )
    assert list(refused.value.fields) == ["valid_from"]
    after = rate_set(
        actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="3", valid_from=NOW - timedelta(days=3)
    )
    assert after.valid_from == NOW - timedelta(days=3)
    assert Rate.objects.count() == 2


@pytest.mark.parametrize(
    ("paid", "dear"),
    [("gpu_allocated", "gpu_held"), ("gpu_held", "gpu_allocated")],
    ids=["by use", "as held"],
)
def test_what_another_meter_has_paid_for_is_not_charged_afterwards(
    as_olga: Actor, h100: Flavor, project: Project, alice: User, paid: str, dear: str
) -> None:
    """The same devices are told by both; a price of the other would charge them twice, also of months that are closed."""
    price = {"actor": as_olga, "flavor": h100, "price": "2"}
    rate_set(**price, meter=paid, valid_from=utc("2026-10-01"))  # type: ignore[arg-type]
    row = workspace_make(project, h100, alice)
    for meter in (Meter.GPU_HELD, Meter.GPU_ALLOCATED):
        interval_make(row, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"), meter=meter)
    with pytest.raises(Invalid, match=r"already rated at 2\.00") as refused:
        rate_set(**price, meter=dear, valid_from=utc("2026-10-01"))  # type: ignore[arg-type]
    assert list(refused.value.fields) == ["valid_from"]
    rate_set(**price, meter=dear)  # type: ignore[arg-type]
    assert selectors.statement(actor=as_olga, month=utc("2026-10-01").date()).total == Decimal("2.00")


def test_the_database_itself_refuses_an_overlap(h100: Flavor, l40s: Flavor) -> None:
    card = rate_card_ensure()

    def make(flavor: Flavor | None, meter: Meter, start: int, end: int | None) -> None:
        with transaction.atomic():
            Rate.objects.create(
                card=card,
                version=version_make(card, NOW + timedelta(days=start)),
                flavor=flavor,
                meter=meter,
                price_micro=1,
                created_by="olga",
                valid_from=NOW + timedelta(days=start),
                valid_to=None if end is None else NOW + timedelta(days=end),
            )

    make(h100, Meter.GPU_HELD, 0, 5)
    make(h100, Meter.GPU_HELD, 5, None)
    make(l40s, Meter.GPU_HELD, 0, None)
    make(h100, Meter.GPU_ALLOCATED, 0, None)
    make(None, Meter.STORAGE_HELD, 0, None)
    for flavor, meter, start in ((h100, Meter.GPU_HELD, 4), (None, Meter.STORAGE_HELD, 9)):
        with pytest.raises(IntegrityError, match="rate_no_overlap"):
            make(flavor, meter, start, None)
    with pytest.raises(IntegrityError, match="rate_is_of_one_thing"):
        make(None, Meter.GPU_HELD, 0, None)


@pytest.mark.parametrize("price", ["-1", "NaN", "Infinity", "1e9", "0.0000001", "two", "", "1000000.01"])
def test_a_bad_price_is_refused_beside_its_field(price: str, as_olga: Actor, h100: Flavor) -> None:
    with pytest.raises(Invalid) as refused:
        rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price=price)
    assert list(refused.value.fields) == ["price"]
    assert not Rate.objects.exists()


def test_flavors_belong_to_gpu_meters(as_olga: Actor, h100: Flavor) -> None:
    for flavor, meter, field in (
        (None, Meter.GPU_HELD, "flavor"),
        (h100, Meter.STORAGE_HELD, "flavor"),
        (h100, "watts", "meter"),
    ):
        with pytest.raises(Invalid) as refused:
            rate_set(actor=as_olga, flavor=flavor, meter=meter, price="1")
        assert list(refused.value.fields) == [field]


def test_only_operators_set_prices(as_alice: Actor, h100: Flavor) -> None:
    auditor = actor_for(user=UserFactory.create(platform_role="auditor"))
    with pytest.raises(NotFound):
        rate_set(actor=as_alice, flavor=h100, meter=Meter.GPU_HELD, price="0")
    with pytest.raises(Forbidden):
        rate_set(actor=auditor, flavor=h100, meter=Meter.GPU_HELD, price="0")
    assert selectors.rates_for(actor=auditor) == []
