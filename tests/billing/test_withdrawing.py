"""An announced version is taken back as if it had never been said; one that has begun stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from billing.models import Rate, RateCard, RateCardVersion, RateDraft, RateTier
from billing.services import (
    LineTerms,
    rate_draft_line_remove,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_set,
    rate_version_withdraw,
)
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, NotFound
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry
from tenants.selectors import actor_for
from tests.billing.stage import utc
from tests.billing.test_closing_at_once import at_once
from tests.factories.tenants import UserFactory

DAY = timedelta(days=1)


def prices() -> list[tuple[Any, ...]]:
    rows = Rate.objects.order_by("flavor__slug", "valid_from")
    return list(rows.values_list("flavor__slug", "price_micro", "valid_from", "valid_to"))


@pytest.fixture
def draft(as_olga: Actor, h100: Flavor, l40s: Flavor) -> RateDraft:
    """Of a card with two prices: one changes and gets tiers, the other ends."""
    for flavor, price in ((h100, "2.40"), (l40s, "1")):
        rate_set(
            actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=utc("2026-01-01")
        )
    made = rate_draft_open(actor=as_olga)
    terms = LineTerms("3", tier_mode="volume", tiers=[(10, "2")])
    rate_draft_line_set(actor=as_olga, draft=made, flavor=h100, meter="gpu_held", terms=terms)
    rate_draft_line_remove(actor=as_olga, draft=made, line=made.lines.get(flavor=l40s))
    return made


def announced(actor: Actor, draft: RateDraft, days: int = 1) -> RateCardVersion:
    return rate_draft_publish(actor=actor, draft=draft, valid_from=clock.now() + days * DAY)


@pytest.mark.django_db
def test_prices_go_on_as_before_and_the_draft_is_open_again(
    draft: RateDraft, as_olga: Actor, as_alice: Actor, h100: Flavor
) -> None:
    before = prices()
    version = announced(as_olga, draft)
    assert prices() != before
    auditor = actor_for(user=UserFactory.create(username="ada", platform_role="auditor"))
    for actor, error in ((as_alice, NotFound), (auditor, Forbidden)):
        with pytest.raises(error):
            rate_version_withdraw(actor=actor, version=version)
    assert rate_version_withdraw(actor=as_olga, version=version) == draft
    assert prices() == before
    assert not RateTier.objects.exists()
    assert AuditEntry.objects.filter(action="rate_card.withdraw").count() == 1
    with pytest.raises(Conflict, match="already withdrawn"):
        rate_version_withdraw(actor=as_olga, version=version)
    draft.refresh_from_db()
    assert draft.published is None
    assert draft.lines.get().price == 3
    again = announced(as_olga, draft, days=2)
    assert again.number == version.number + 1  # a number never means two lists
    assert Rate.objects.get(flavor=h100, version=again).valid_from == again.valid_from


@pytest.mark.django_db
def test_only_the_last_one_that_has_not_begun(
    draft: RateDraft, as_olga: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = announced(as_olga, draft)
    second = announced(as_olga, rate_draft_open(actor=as_olga), days=2)
    with pytest.raises(Conflict, match="withdraw that version first"):
        rate_version_withdraw(actor=as_olga, version=first)
    other = rate_draft_open(actor=as_olga)
    assert rate_version_withdraw(actor=as_olga, version=second) is None
    assert list(RateDraft.objects.filter(published=None)) == [other]
    monkeypatch.setattr(clock, "now", lambda: first.valid_from)
    with pytest.raises(Conflict, match="cannot be withdrawn"):
        rate_version_withdraw(actor=as_olga, version=first)
    assert RateCardVersion.objects.count() == 2


@pytest.mark.django_db
def test_a_price_that_was_set_for_later_is_a_version_too(
    draft: RateDraft, as_olga: Actor, h100: Flavor
) -> None:
    before = prices()
    rate = rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="9", valid_from=clock.now() + DAY)
    assert rate_version_withdraw(actor=as_olga, version=rate.version) is None
    assert prices() == before


@pytest.mark.django_db(transaction=True)
def test_two_operators_withdraw_and_two_publish_at_once(draft: RateDraft, as_olga: Actor) -> None:
    before, version = prices(), announced(as_olga, draft)
    other = actor_for(user=UserFactory.create(username="otto", platform_role="operator"))

    def withdraw(actor: Actor) -> str:
        try:
            rate_version_withdraw(actor=actor, version=version)
        except Conflict as error:
            return error.message
        return "withdrawn"

    told = at_once([lambda: withdraw(as_olga), lambda: withdraw(other)] * 2)
    assert told.count("withdrawn") == 1
    assert [text for text in told if text != "withdrawn"] == ["version 2 is already withdrawn"] * 3
    assert prices() == before
    assert RateCard.objects.get().numbers_gone == 2


@pytest.mark.django_db(transaction=True)
def test_whoever_withdraws_and_dies_between_any_two_statements_has_withdrawn_nothing(
    draft: RateDraft, as_olga: Actor
) -> None:
    before, version = prices(), announced(as_olga, draft)
    with_it, left, deaths = prices(), [0], 0

    def deadly(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            execute("SELECT pg_terminate_backend(pg_backend_pid())", None, False, context)
        return execute(sql, params, many, context)

    while True:
        left[0] = deaths + 1
        try:
            with connection.execute_wrapper(deadly):
                rate_version_withdraw(actor=as_olga, version=version)
        except OperationalError:
            connection.close()
            deaths += 1
            assert prices() == with_it
            assert RateDraft.objects.get().published == version
        else:
            break
    assert deaths > 8
    assert prices() == before
