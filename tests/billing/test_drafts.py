"""Drafts become versions; discounts are dated; what is wrong is refused beside its field."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, transaction

from billing import selectors, services
from billing.models import BillingAccount, Discount, Rate, RateDraft
from billing.services import AccountTerms, LineTerms
from billing.services.budgets import BudgetTerms, budget_create, budget_end
from billing.services.payments import payment_record, payout_record
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, Project, User
from tenants.selectors import actor_for
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.tenants import UserFactory

NOW = utc("2026-11-21 12:00:00")
LATER = NOW + timedelta(days=1)


@pytest.fixture(autouse=True)
def _noon() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def draft(as_olga: Actor, h100: Flavor, l40s: Flavor) -> RateDraft:
    """A card with two prices since January, and a draft that changes one of them."""
    for flavor, price in ((h100, "2.40"), (l40s, "1")):
        services.rate_set(
            actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=utc("2026-01-01")
        )
    made = services.rate_draft_open(actor=as_olga)
    services.rate_draft_line_set(
        actor=as_olga,
        draft=made,
        flavor=h100,
        meter="gpu_held",
        terms=LineTerms("3", tier_mode="volume", tiers=[(10, "2")]),
    )
    return made


def test_a_draft_begins_with_the_prices_in_force_and_there_is_one(draft: RateDraft, as_olga: Actor) -> None:
    assert services.rate_draft_open(actor=as_olga) == draft
    assert {str(line.price) for line in draft.lines.all()} == {"3.00", "1.00"}


def test_publishing_ends_what_changes_and_leaves_the_rest(
    draft: RateDraft, as_olga: Actor, h100: Flavor, l40s: Flavor
) -> None:
    version = services.rate_draft_publish(actor=as_olga, draft=draft, valid_from=LATER, note="2027")
    old, new = Rate.objects.filter(flavor=h100).order_by("valid_from")
    assert (old.valid_to, new.valid_from, new.valid_to, new.version) == (LATER, LATER, None, version)
    assert [(tier.from_unit_hours, str(tier.price)) for tier in new.tiers.all()] == [(10, "2.00")]
    assert Rate.objects.get(flavor=l40s).valid_to is None
    assert AuditEntry.objects.filter(action="rate_card.publish").count() == 1
    for call in (
        lambda: services.rate_draft_publish(actor=as_olga, draft=draft, valid_from=LATER + timedelta(days=1)),
        lambda: services.rate_draft_discard(actor=as_olga, draft=draft),
    ):
        with pytest.raises(Conflict):
            call()


def test_a_price_that_is_removed_ends(draft: RateDraft, as_olga: Actor, l40s: Flavor) -> None:
    services.rate_draft_line_remove(actor=as_olga, draft=draft, line=draft.lines.get(flavor=l40s))
    services.rate_draft_publish(actor=as_olga, draft=draft, valid_from=LATER)
    assert Rate.objects.get(flavor=l40s).valid_to == LATER


@pytest.mark.parametrize("start", [NOW - timedelta(seconds=1), utc("2026-01-01")])
def test_backdated_publication_is_refused_beside_its_field(
    draft: RateDraft, as_olga: Actor, start: Any
) -> None:
    with pytest.raises(Invalid) as refused:
        services.rate_draft_publish(actor=as_olga, draft=draft, valid_from=start)
    assert list(refused.value.fields) == ["valid_from"]


def test_a_version_begins_after_the_newest(draft: RateDraft, as_olga: Actor) -> None:
    services.rate_draft_publish(actor=as_olga, draft=draft, valid_from=LATER)
    again = services.rate_draft_open(actor=as_olga)
    with pytest.raises(Invalid) as refused:
        services.rate_draft_publish(actor=as_olga, draft=again, valid_from=LATER)
    assert list(refused.value.fields) == ["valid_from"]
    assert (
        services.rate_draft_publish(actor=as_olga, draft=again, valid_from=LATER + timedelta(1)).number == 3
    )


def test_the_next_draft_keeps_what_is_announced(
    draft: RateDraft, as_olga: Actor, h100: Flavor, l40s: Flavor
) -> None:
    services.rate_draft_line_remove(actor=as_olga, draft=draft, line=draft.lines.get(flavor=l40s))
    services.rate_draft_publish(actor=as_olga, draft=draft, valid_from=LATER)
    following = services.rate_draft_open(actor=as_olga)
    services.rate_draft_line_set(
        actor=as_olga, draft=following, flavor=None, meter="vcpu_held", terms=LineTerms("0.01")
    )
    version = services.rate_draft_publish(
        actor=as_olga, draft=following, valid_from=LATER + timedelta(days=1)
    )
    assert [rate.meter for rate in version.rates.all()] == ["vcpu_held"]
    paid = selectors.prices_at(at=version.valid_from)
    assert {key: str(price.per_hour) for key, price in paid.items()} == {
        (h100.pk, Meter.GPU_HELD): "3.00",
        (None, Meter.VCPU_HELD): "0.01",
    }


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        (LineTerms("-1"), "price"),
        (LineTerms("0.0000001"), "price"),
        (LineTerms("1", increment_seconds=0), "increment_seconds"),
        (LineTerms("1", minimum_seconds=-1), "minimum_seconds"),
        (LineTerms("1", surplus_percent=-1), "surplus_percent"),
        (LineTerms("1", tier_mode="steps", tiers=[(1, "1")]), "tier_mode"),
        (LineTerms("1", tier_mode="volume"), "tiers"),
        (LineTerms("1", tiers=[(1, "1")]), "tiers"),
        (LineTerms("1", tier_mode="volume", tiers=[(5, "1"), (5, "2")]), "tiers"),
        (LineTerms("1", tier_mode="volume", tiers=[(5, "1"), (4, "2")]), "tiers"),
        (LineTerms("1", tier_mode="graduated", tiers=[(0, "1")]), "tiers"),
        (LineTerms("1", tier_mode="graduated", tiers=[(1, "-1")]), "tiers"),
    ],
)
def test_bad_terms_are_refused_beside_their_field(
    draft: RateDraft, as_olga: Actor, h100: Flavor, terms: LineTerms, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        services.rate_draft_line_set(actor=as_olga, draft=draft, flavor=h100, meter="gpu_held", terms=terms)
    assert list(refused.value.fields) == [field]
    assert str(draft.lines.get(flavor=h100).price) == "3.00"


def test_the_preview_is_last_month_by_both_lists(
    draft: RateDraft, as_olga: Actor, as_alice: Actor, h100: Flavor, project: Project, alice: User
) -> None:
    used = workspace_make(project, h100, alice)
    interval_make(used, h100, utc("2026-10-02 00:00:00"), utc("2026-10-02 09:00:00"))
    (row,) = selectors.draft_preview(actor=as_olga, draft=draft)
    assert (row.organization, row.currency, row.before, row.after) == (
        "climate",
        "EUR",
        Decimal("21.60"),
        Decimal(27),
    )
    interval_make(used, h100, utc("2026-10-03 00:00:00"), utc("2026-10-03 01:00:00"))
    (row,) = selectors.draft_preview(actor=as_olga, draft=draft)
    assert (row.before, row.after, row.difference) == (Decimal(24), Decimal(20), Decimal(-4))
    with pytest.raises(NotFound):
        selectors.draft_preview(actor=as_alice, draft=draft)


def test_an_own_card_has_only_what_differs(
    draft: RateDraft, as_olga: Actor, h100: Flavor, l40s: Flavor, organization: Organization
) -> None:
    card = services.rate_card_make(actor=as_olga, currency="EUR", organization=organization)
    assert services.rate_card_make(actor=as_olga, currency="EUR", organization=organization) == card
    own = services.rate_draft_open(actor=as_olga, card=card)
    services.rate_draft_line_set(
        actor=as_olga, draft=own, flavor=h100, meter="gpu_held", terms=LineTerms("2")
    )
    services.rate_draft_publish(actor=as_olga, draft=own)
    paid = selectors.prices_at(organization=organization)
    assert {key[0]: str(price.per_hour) for key, price in paid.items()} == {h100.pk: "2.00", l40s.pk: "1.00"}


@pytest.mark.parametrize("until", ["9999-12-31 23:59:59", "3000-01-01"])
def test_no_price_and_no_discount_lasts_until_a_time_that_no_page_can_show(
    as_olga: Actor, h100: Flavor, organization: Organization, draft: RateDraft, until: str
) -> None:
    at = utc(until)
    given: dict[str, Any] = {"actor": as_olga, "organization": organization, "percent": "5"}
    for field, refused_by in (
        ("valid_to", partial(services.discount_give, **given, valid_to=at)),
        ("valid_from", partial(services.discount_give, **given, valid_from=at)),
        (
            "valid_from",
            partial(
                services.rate_set, actor=as_olga, flavor=h100, meter="gpu_held", price="2", valid_from=at
            ),
        ),
        ("valid_from", partial(services.rate_draft_publish, actor=as_olga, draft=draft, valid_from=at)),
    ):
        with pytest.raises(Invalid, match="no later than 2999") as refused:
            refused_by()
        assert set(refused.value.fields) == {field}
    with pytest.raises(Invalid, match="no earlier than 2000"):
        services.rate_set(
            actor=as_olga, flavor=None, meter="vcpu_held", price="2", valid_from=utc("0001-01-01")
        )
    services.discount_give(**given, valid_to=utc("2999-12-31 23:59:59"))


def test_discounts_never_overlap(as_olga: Actor, h100: Flavor, organization: Organization) -> None:
    given: dict[str, Any] = {"actor": as_olga, "organization": organization}
    first = services.discount_give(
        **given, percent="7.5", valid_from=LATER, valid_to=LATER + timedelta(days=5)
    )
    services.discount_give(**given, percent="10", flavor=h100)
    services.discount_give(**given, percent="5", valid_to=LATER)
    for start, end in ((LATER, None), (NOW, None), (LATER + timedelta(days=4), LATER + timedelta(days=9))):
        with pytest.raises(Invalid) as refused:
            services.discount_give(**given, percent="1", valid_from=start, valid_to=end)
        assert list(refused.value.fields) == ["valid_from"]
    with pytest.raises(IntegrityError, match="discount_no_overlap"), transaction.atomic():
        Discount.objects.create(
            organization=organization, basis_points=1, valid_from=LATER, created_by="olga"
        )
    services.discount_end(actor=as_olga, discount=first)
    services.discount_end(actor=as_olga, discount=Discount.objects.get(basis_points=500))
    assert [row.basis_points for row in Discount.objects.all()] == [1000]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"percent": "0"}, "percent"),
        ({"percent": "100.01"}, "percent"),
        ({"percent": "1.001"}, "percent"),
        ({"percent": "NaN"}, "percent"),
        ({"percent": "a lot"}, "percent"),
        ({"percent": "1", "valid_from": NOW - timedelta(seconds=1)}, "valid_from"),
        ({"percent": "1", "valid_to": NOW}, "valid_to"),
    ],
)
def test_a_bad_discount_is_refused_beside_its_field(
    as_olga: Actor, organization: Organization, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        services.discount_give(actor=as_olga, organization=organization, **given)
    assert list(refused.value.fields) == [field]


def test_the_currency_stays_after_the_first_invoice(as_olga: Actor, organization: Organization) -> None:
    services.account_update(
        actor=as_olga, organization=organization, terms=AccountTerms("USD", tax_rate_bp=1900)
    )
    BillingAccount.objects.update(currency_fixed_at=NOW)
    for terms, field in (
        (AccountTerms("EUR"), "currency"),
        (AccountTerms("USD", tax_rate_bp=10_001), "tax_rate"),
    ):
        with pytest.raises(Invalid) as refused:
            services.account_update(actor=as_olga, organization=organization, terms=terms)
        assert list(refused.value.fields) == [field]


def test_the_currency_stays_while_there_is_money_or_a_budget_in_it(
    as_olga: Actor, organization: Organization
) -> None:
    change = partial(
        services.account_update, actor=as_olga, organization=organization, terms=AccountTerms("JPY")
    )
    payment_record(actor=as_olga, organization=organization, amount="100")
    with pytest.raises(Invalid, match="payments or grants in EUR") as refused:
        change()
    assert list(refused.value.fields) == ["currency"]
    payout_record(actor=as_olga, organization=organization, amount="100")
    terms = BudgetTerms("year", "money", "1500.00", "month", [(100, "suspend")])
    budget = budget_create(actor=as_olga, organization=organization, terms=terms)
    with pytest.raises(Invalid, match=r"budgets in EUR \(year\)") as refused:
        change()
    assert list(refused.value.fields) == ["currency"]
    budget_end(actor=as_olga, budget=budget)
    assert change().currency == "JPY"


def test_only_operators_change_prices(
    draft: RateDraft, as_alice: Actor, organization: Organization, h100: Flavor
) -> None:
    auditor = actor_for(user=UserFactory.create(platform_role="auditor"))
    calls: list[Callable[[Actor], object]] = [
        lambda actor: services.rate_draft_open(actor=actor),
        lambda actor: services.rate_draft_publish(actor=actor, draft=draft),
        lambda actor: services.rate_draft_line_remove(actor=actor, draft=draft, line=draft.lines.first()),  # type: ignore[arg-type]
        lambda actor: services.rate_draft_discard(actor=actor, draft=draft),
        lambda actor: services.rate_card_make(actor=actor, currency="USD"),
        lambda actor: services.discount_give(actor=actor, organization=organization, percent="1"),
        lambda actor: services.account_update(
            actor=actor, organization=organization, terms=AccountTerms("USD")
        ),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call(as_alice)
        with pytest.raises(Forbidden):
            call(auditor)
    assert draft.lines.count() == 2
