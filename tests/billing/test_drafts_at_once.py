"""Two operators and one draft, and deaths in the middle, on real connections: one version, wholly or not at all."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from billing.models import Rate, RateCardVersion, RateDraft, RateTier
from billing.services import (
    LineTerms,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_set,
)
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry
from tenants.selectors import actor_for
from tests.billing.stage import utc
from tests.billing.test_closing_at_once import at_once
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def draft(as_olga: Actor, h100: Flavor, l40s: Flavor) -> RateDraft:
    """Of a card with two prices: one changes and gets tiers, one goes on."""
    for flavor, price in ((h100, "2.40"), (l40s, "1")):
        rate_set(
            actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=utc("2026-01-01")
        )
    made = rate_draft_open(actor=as_olga)
    terms = LineTerms("3", tier_mode="volume", tiers=[(10, "2"), (20, "1")])
    rate_draft_line_set(actor=as_olga, draft=made, flavor=h100, meter="gpu_held", terms=terms)
    return made


def prices() -> list[tuple[Any, ...]]:
    rows = Rate.objects.order_by("flavor__slug", "valid_from")
    return list(rows.values_list("flavor__slug", "price_micro", "valid_from", "valid_to"))


def publisher(actor: Actor, draft: RateDraft, days: int) -> Callable[[], str]:
    start = clock.whole_second(clock.now()) + timedelta(days=days)

    def publish() -> str:
        try:
            return str(rate_draft_publish(actor=actor, draft=draft, valid_from=start).number)
        except Conflict as refused:
            return refused.message

    return publish


def test_two_operators_publish_the_same_draft_at_once(draft: RateDraft, as_olga: Actor) -> None:
    other = actor_for(user=UserFactory.create(username="otto", platform_role="operator"))
    told = at_once([publisher(as_olga, draft, 1), publisher(other, draft, 2)] * 2)
    won = [answer for answer in told if answer == "2"]
    lost = [answer for answer in told if "already published or discarded" in answer]
    assert (len(won), len(lost)) == (1, 3)
    assert RateCardVersion.objects.count() == 2
    assert [row[:2] for row in prices()] == [
        ("h100.1", 2_400_000),
        ("h100.1", 3_000_000),
        ("l40s.1", 1_000_000),
    ]
    assert AuditEntry.objects.filter(action="rate_card.publish").count() == 1


def test_two_operators_begin_one_draft(draft: RateDraft, as_olga: Actor) -> None:
    rate_draft_publish(actor=as_olga, draft=draft, valid_from=clock.now() + timedelta(days=1))
    made = at_once([lambda: rate_draft_open(actor=as_olga).pk] * 4)
    assert len(set(made)) == 1
    assert draft.pk not in made


def test_whoever_publishes_and_dies_between_any_two_statements_leaves_no_half_version(
    draft: RateDraft, as_olga: Actor
) -> None:
    """The connection is cut at each statement in turn; the try after it does all of it, once."""
    before, left, deaths = prices(), [0], 0
    publish, told = publisher(as_olga, draft, 1), ""

    def deadly(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            execute("SELECT pg_terminate_backend(pg_backend_pid())", None, False, context)
        return execute(sql, params, many, context)

    while True:
        left[0] = deaths + 1
        try:
            with connection.execute_wrapper(deadly):
                told = publish()
        except OperationalError:
            connection.close()
            deaths += 1
            assert prices() == before
            assert RateCardVersion.objects.count() == 1
            assert RateDraft.objects.get().published is None
            assert not RateTier.objects.exists()
        else:
            break
    assert (told, deaths > 10) == ("2", True)
    assert RateCardVersion.objects.count() == 2
    assert RateTier.objects.count() == 2
    assert len(prices()) == len(before) + 1
