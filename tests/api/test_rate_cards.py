"""Rate cards, accounts and discounts by API: from a draft to the next version; what is wrong is refused beside its field."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.models import Rate, RateCard, RateDraft
from billing.months import month_of, month_span
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.metering.models import FinalMonth
from tenants.models import AuditEntry, Project, User
from tests.api.caller import Caller
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.django_db
CARD = "/platform/rate-cards/standard"
LATER = "2199-01-01T00:00:00Z"
H100: dict[str, Any] = {"flavor": "h100.1", "meter": "gpu_held", "price": "3"}


@pytest.fixture
def card(h100: Flavor, l40s: Flavor) -> RateCard:
    """H100 2.40 and L40S 1.00 since January."""
    made = RateCard.objects.create(slug="standard", name="Standard", currency="EUR")
    for flavor, micro in ((h100, 2_400_000), (l40s, 1_000_000)):
        rate_make(made, flavor, micro, utc("2026-01-01"))
    return made


@pytest.fixture
def olgas(olga: User) -> Caller:
    return Caller(olga)


def draft_of(caller: Caller) -> str:
    made = caller.post(f"{CARD}/drafts")
    assert made.status == 201, made.json
    return f"/platform/rate-drafts/{made.json['id']}"


def last_month_hour() -> datetime:
    """An hour in the middle of the last whole month."""
    return month_span(month_of(clock.now())).starts_at - timedelta(days=14, hours=12)


def assert_costs_more(caller: Caller, draft: str, start: datetime) -> None:
    """10 h at 2.40 would have been 10 h at 3.00."""
    preview = caller.get(f"{draft}/preview").json
    assert (preview["month"], preview["currency"]) == (f"{start:%Y-%m}", "EUR")
    assert {name: preview["total"][name] for name in ("before", "after", "difference")} == {
        "before": "24.00",
        "after": "30.00",
        "difference": "6.00",
    }
    (row,) = preview["organizations"]
    assert (row["organization"], row["cost"]) == ("climate", preview["total"])
    assert [(each["project"], each["cost"]["difference"]) for each in row["projects"]] == [
        ("weather-lm", "6.00")
    ]


def test_from_a_draft_with_its_preview_to_the_next_version(
    card: RateCard, olgas: Caller, h100: Flavor, l40s: Flavor, project: Project, alice: User
) -> None:
    start = last_month_hour()
    used = workspace_make(project, h100, alice)
    interval_make(used, h100, start, start + timedelta(hours=10))
    draft = draft_of(olgas)
    assert {row["change"] for row in olgas.get(draft).json["lines"]} == {"same"}
    tiers = [{"from_unit_hours": 100, "price": "2.50"}]
    changed = olgas.put(f"{draft}/lines", {**H100, "tier_mode": "volume", "tiers": tiers})
    assert changed.status == 200, changed.json
    rows = {row["terms"]["flavor"]: row for row in changed.json["lines"]}
    assert (rows["h100.1"]["change"], rows["h100.1"]["price_now"]) == ("changed", "2.40")
    assert rows["h100.1"]["terms"]["tiers"] == tiers
    assert olgas.delete(f"{draft}/lines/{rows['l40s.1']['id']}").status == 204
    taken = {row["terms"]["flavor"]: row for row in olgas.get(draft).json["lines"]}["l40s.1"]
    assert (taken["change"], taken["id"]) == ("removed", None)

    assert_costs_more(olgas, draft, start)
    published = olgas.post(f"{draft}/publish", {"valid_from": LATER, "note": "next"})
    assert published.status == 201, published.json
    assert (published.json["number"], published.json["changes"]) == (2, 1)
    newest, first = olgas.get(f"{CARD}/versions").json["results"]
    assert (newest["number"], first["valid_to"]) == (2, newest["valid_from"])
    now = olgas.get(f"{CARD}/versions/1/prices").json["results"]
    later = olgas.get(f"{CARD}/versions/2/prices").json["results"]
    assert {row["flavor"]: row["price"] for row in now} == {"h100.1": "2.40", "l40s.1": "1.00"}
    assert {row["flavor"]: row["price"] for row in later} == {"h100.1": "3.00"}
    told = AuditEntry.objects.filter(actor="olga").values_list("action", flat=True)
    assert {"rate_draft.open", "rate_draft.set", "rate_draft.remove", "rate_card.publish"} <= set(told)


def test_usage_that_would_have_no_price_is_no_saving(
    card: RateCard, olgas: Caller, h100: Flavor, project: Project, alice: User
) -> None:
    start = last_month_hour()
    interval_make(workspace_make(project, h100, alice), h100, start, start + timedelta(hours=1))
    draft = draft_of(olgas)
    line = RateDraft.objects.get().lines.get(flavor=h100)
    assert olgas.delete(f"{draft}/lines/{line.pk}").status == 204
    total = olgas.get(f"{draft}/preview").json["total"]
    assert (total["unpriced_seconds_before"], total["unpriced_seconds_after"]) == (0, 3600)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"price": "-1"}, "price"),
        ({"price": "1e9"}, "price"),
        ({"price": 3}, "price"),
        ({"flavor": "h999"}, "flavor"),
        ({"flavor": None}, "flavor"),
        ({"meter": "vcpu_held"}, "flavor"),
        ({"meter": "steam"}, "meter"),
        ({"increment_seconds": 0}, "increment_seconds"),
        ({"minimum_seconds": 86_401}, "minimum_seconds"),
        ({"surplus_percent": 1001}, "surplus_percent"),
        ({"tier_mode": "volume"}, "tiers"),
        ({"tiers": [{"from_unit_hours": 1, "price": "1"}]}, "tiers"),
        ({"tier_mode": "stairs", "tiers": [{"from_unit_hours": 1, "price": "1"}]}, "tier_mode"),
        (
            {"tier_mode": "volume", "tiers": [{"from_unit_hours": hours, "price": "1"} for hours in (5, 5)]},
            "tiers",
        ),
        (
            {"tier_mode": "volume", "tiers": [{"from_unit_hours": hours, "price": "1"} for hours in (5, 4)]},
            "tiers",
        ),
        (
            {
                "tier_mode": "graduated",
                "tiers": [{"from_unit_hours": hours, "price": "1"} for hours in range(1, 22)],
            },
            "tiers",
        ),
        ({"tier_mode": "graduated", "tiers": [{"from_unit_hours": 2, "price": "-1"}]}, "tiers"),
        ({"color": "red"}, "color"),
    ],
)
def test_bad_prices_are_refused_beside_their_field(
    card: RateCard, olgas: Caller, change: dict[str, Any], field: str
) -> None:
    draft = draft_of(olgas)
    before = olgas.get(draft).json
    refused = olgas.put(f"{draft}/lines", {**H100, **change})
    assert refused.status == 400
    assert list(refused.error["fields"]) == [field]
    assert olgas.get(draft).json == before


def test_an_announced_version_is_withdrawn_once_and_one_that_has_begun_is_not(
    card: RateCard, olgas: Caller
) -> None:
    draft = draft_of(olgas)
    number = olgas.post(f"{draft}/publish", {"valid_from": LATER}).json["number"]
    assert olgas.delete(f"{CARD}/versions/{number}").status == 204
    assert olgas.get(draft).json["published"] is None
    assert olgas.delete(f"{CARD}/versions/{number}").status == 404
    begun = olgas.get(f"{CARD}/versions").json["results"][0]["number"]
    refused = olgas.delete(f"{CARD}/versions/{begun}")
    assert (refused.status, "cannot be withdrawn" in refused.error["message"]) == (409, True)


def test_what_is_backdated_or_before_the_newest_version_is_refused(card: RateCard, olgas: Caller) -> None:
    draft = draft_of(olgas)
    for moment in ("2026-01-02T00:00:00Z", "2020-01-01T00:00:00Z"):
        refused = olgas.post(f"{draft}/publish", {"valid_from": moment})
        assert list(refused.error["fields"]) == ["valid_from"]
    assert olgas.post(f"{draft}/publish", {"valid_from": LATER}).status == 201
    again = draft_of(olgas)
    assert again != draft
    refused = olgas.post(f"{again}/publish", {"valid_from": LATER})
    assert list(refused.error["fields"]) == ["valid_from"]


def test_a_version_is_never_edited(card: RateCard, olgas: Caller) -> None:
    draft = draft_of(olgas)
    line = RateDraft.objects.get().lines.all()[0]
    assert olgas.post(f"{draft}/publish", {"valid_from": LATER}).status == 201
    for method, path, body in (
        ("PUT", f"{draft}/lines", H100),
        ("DELETE", f"{draft}/lines/{line.pk}", None),
        ("DELETE", draft, None),
        ("POST", f"{draft}/publish", {"valid_from": LATER}),
    ):
        refused = olgas.ask(method, path, body)
        assert (refused.status, refused.code) == (409, "conflict")
    assert olgas.get(draft).json["published"] == 2


def test_a_price_set_beside_a_draft_is_not_undone_by_it(card: RateCard, olgas: Caller, h100: Flavor) -> None:
    draft = draft_of(olgas)
    assert olgas.post("/platform/rates", {**H100, "price": "5"}).status == 201
    refused = olgas.post(f"{draft}/publish", {"valid_from": LATER})
    assert (refused.status, "olga has set the price of h100.1" in refused.error["message"]) == (409, True)
    assert olgas.delete(draft).status == 204
    assert olgas.get(draft).status == 404
    assert Rate.objects.get(flavor=h100, valid_to=None).price == Decimal(5)


def test_only_what_was_looked_at_is_published(card: RateCard, olgas: Caller) -> None:
    draft = draft_of(olgas)
    seen = olgas.get(draft).json["fingerprint"]
    changed = olgas.put(f"{draft}/lines", H100).json["fingerprint"]
    assert changed != seen
    refused = olgas.post(f"{draft}/publish", {"fingerprint": seen, "valid_from": LATER})
    assert (refused.status, refused.code) == (412, "precondition_failed")
    assert olgas.post(f"{draft}/publish", {"fingerprint": changed, "valid_from": LATER}).status == 201


def test_an_own_card_discounts_and_what_the_organization_then_pays(
    card: RateCard, olgas: Caller, alice: User, project: Project, h100: Flavor
) -> None:
    made = olgas.post("/platform/rate-cards", {"currency": "EUR", "organization": "climate"})
    assert (made.status, made.json["organization"], made.json["prices"]) == (201, "climate", 0)
    own = olgas.post(f"/platform/rate-cards/{made.json['slug']}/drafts").json
    assert own["lines"] == []
    path = f"/platform/rate-drafts/{own['id']}"
    assert olgas.put(f"{path}/lines", {**H100, "price": "2", "increment_seconds": 60}).status == 200
    assert olgas.post(f"{path}/publish").status == 201
    discounts = "/platform/organizations/climate/discounts"
    given = olgas.post(discounts, {"percent": "7.5", "valid_from": LATER})
    assert (given.status, given.json["percent"]) == (201, "7.50")
    overlap = olgas.post(discounts, {"percent": "5"})
    assert list(overlap.error["fields"]) == ["valid_from"]

    tenant = Caller(alice)
    sheet = tenant.get("/organizations/climate/prices").json
    rows = {row["flavor"]: row for row in sheet["prices"]}
    now, (later,) = rows["h100.1"]["now"], rows["h100.1"]["upcoming"]
    assert (now["price"], now["own"], now["increment_seconds"], now["discount"]) == ("2.00", True, 60, "0.00")
    assert (later["price"], later["discount"]) == ("1.85", "7.50")
    assert rows["l40s.1"]["now"]["own"] is False
    assert [row["percent"] for row in tenant.get("/organizations/climate/discounts").json["results"]] == [
        "7.50"
    ]
    assert olgas.delete(f"{discounts}/{given.json['id']}").status == 204
    assert olgas.delete(f"{discounts}/{given.json['id']}").status == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"percent": "0"}, "percent"),
        ({"percent": "-5"}, "percent"),
        ({"percent": "100.01"}, "percent"),
        ({"percent": 5}, "percent"),
        ({"flavor": "h999"}, "flavor"),
        ({"valid_from": "2020-01-01T00:00:00Z"}, "valid_from"),
        ({"valid_to": "2020-01-01T00:00:00Z"}, "valid_to"),
    ],
)
def test_bad_discounts_are_refused_beside_their_field(
    olgas: Caller, project: Project, change: dict[str, Any], field: str
) -> None:
    refused = olgas.post("/platform/organizations/climate/discounts", {"percent": "5", **change})
    assert refused.status == 400
    assert list(refused.error["fields"]) == [field]


ACCOUNT: dict[str, Any] = {
    "currency": "USD",
    "tax_rate": "19",
    "tax_label": "VAT",
    "address": "Climate Physics\nStreet 1",
    "invoice_reference": "PO 4711",
}


def test_an_account_is_set_and_read_by_its_organization(olgas: Caller, alice: User, project: Project) -> None:
    tenant, path = Caller(alice), "/organizations/climate/billing-account"
    assert tenant.get(path).json["currency"] == "EUR"
    center = "/platform/projects/weather-lm/cost-center"
    assert olgas.get(center).json == {"project": "weather-lm", "cost_center": ""}
    assert olgas.put(center, {"cost_center": "4711"}).status == 204
    assert olgas.get(center).json["cost_center"] == "4711"
    assert olgas.get("/platform/projects/none/cost-center").status == 404
    told = olgas.put(f"/platform{path}", ACCOUNT)
    assert told.status == 200, told.json
    assert told.json["cost_centers"] == [{"project": "weather-lm", "cost_center": "4711"}]
    assert tenant.get(path).json == olgas.get(f"/platform{path}").json == told.json
    assert {name: told.json[name] for name in ACCOUNT} == {**ACCOUNT, "tax_rate": "19.00"}
    assert tenant.put(f"/platform{path}", ACCOUNT).status == 404
    actions = AuditEntry.objects.filter(organization_id=project.organization_id).values_list(
        "action", flat=True
    )
    assert {"account.update", "project.cost_center"} <= set(actions)


def test_who_read_an_account_before_it_changed_does_not_overwrite_it(olgas: Caller, project: Project) -> None:
    path = "/platform/organizations/climate/billing-account"
    read = olgas.get(path).headers["ETag"]
    first = olgas.put(path, ACCOUNT, If_Match=read)
    assert (first.status, first.headers["ETag"]) == (200, '"2"')
    late = olgas.put(path, {**ACCOUNT, "address": "Street 2"}, If_Match=read)
    assert (late.status, late.error["code"]) == (412, "precondition_failed")
    assert olgas.get(path).json["address"] == ACCOUNT["address"]
    assert olgas.put(path, {**ACCOUNT, "address": "Street 2"}, If_Match=first.headers["ETag"]).status == 200
    assert olgas.put(path, ACCOUNT).status == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"currency": "ABC"}, "currency"),
        ({"currency": "eur"}, "currency"),
        ({"currency": "XAU"}, "currency"),
        ({"currency": "XXX"}, "currency"),
        ({"currency": "DEM"}, "currency"),
        ({"tax_rate": "-1"}, "tax_rate"),
        ({"tax_rate": "100.5"}, "tax_rate"),
        ({"tax_rate": "NaN"}, "tax_rate"),
        ({"tax_rate": 19}, "tax_rate"),
        ({"address": "x" * 1001}, "address"),
    ],
)
def test_bad_accounts_are_refused_beside_their_field(
    olgas: Caller, project: Project, change: dict[str, Any], field: str
) -> None:
    refused = olgas.put("/platform/organizations/climate/billing-account", {**ACCOUNT, **change})
    assert refused.status == 400
    assert list(refused.error["fields"]) == [field]


def test_a_card_needs_a_currency_that_there_is(olgas: Caller, project: Project) -> None:
    for currency in ("ABC", "XTS", "e"):
        refused = olgas.post("/platform/rate-cards", {"currency": currency})
        assert list(refused.error["fields"]) == ["currency"]
    refused = olgas.post("/platform/rate-cards", {"currency": "EUR", "organization": "no-such"})
    assert list(refused.error["fields"]) == ["organization"]
    assert olgas.post("/platform/rate-cards", {"currency": "JPY"}).json["slug"] == "standard-jpy"
    assert not RateCard.objects.exclude(currency="JPY").exists()


def test_the_preview_of_a_card_is_of_those_whom_it_charges(
    card: RateCard, olgas: Caller, h100: Flavor, project: Project, other_project: Project, alice: User
) -> None:
    start = last_month_hour()
    for each in (project, other_project):
        interval_make(workspace_make(each, h100, alice), h100, start, start + timedelta(hours=1))
    shown = olgas.get(f"{draft_of(olgas)}/preview").json["organizations"]
    assert [row["organization"] for row in shown] == ["biology", "climate"]
    olgas.put("/platform/organizations/biology/billing-account", {"currency": "USD"})
    (draft,) = RateDraft.objects.all()
    shown = olgas.get(f"/platform/rate-drafts/{draft.pk}/preview").json["organizations"]
    assert [row["organization"] for row in shown] == ["climate"]
    own = olgas.post("/platform/rate-cards", {"currency": "EUR", "organization": "climate"}).json["slug"]
    path = f"/platform/rate-drafts/{olgas.post(f'/platform/rate-cards/{own}/drafts').json['id']}"
    olgas.put(f"{path}/lines", {**H100, "price": "1"})
    shown = olgas.get(f"{path}/preview").json
    assert ([row["organization"] for row in shown["organizations"]], shown["total"]["after"]) == (
        ["climate"],
        "1.00",
    )


def test_an_auditor_may_not_change_what_is_not_there_either(card: RateCard, site: Site) -> None:
    auditor = Caller(UserFactory.create(platform_role="auditor"))
    assert auditor.post("/platform/rate-cards/no-such/drafts").status == 403
    assert auditor.get("/platform/rate-cards/no-such").status == 404


def test_tokens_are_priced_per_million_without_a_flavor(card: RateCard, olgas: Caller) -> None:
    made = olgas.post("/platform/rates", {"meter": "tokens_in", "price": "0.60"})
    assert (made.status, made.json["meter"], made.json["flavor"]) == (201, "tokens_in", None)
    draft = draft_of(olgas)
    line = {"meter": "tokens_out", "price": "1.80", "tier_mode": "volume"}
    tiers = [{"from_unit_hours": 100, "price": "0.9"}]
    assert olgas.put(f"{draft}/lines", line | {"tiers": tiers}).status == 200
    refused = olgas.put(f"{draft}/lines", line | {"tiers": tiers, "minimum_seconds": 60})
    assert (refused.status, list(refused.error["fields"])) == (400, ["minimum_seconds"])
    assert olgas.post(f"{draft}/publish", {"valid_from": LATER}).status == 201
    found = {rate.meter: rate.price for rate in Rate.objects.filter(flavor=None)}
    assert found == {"tokens_in": Decimal("0.60"), "tokens_out": Decimal("1.80")}


def test_a_price_of_a_final_month_is_refused_at_its_start(card: RateCard, olgas: Caller) -> None:
    ends_at = utc("2026-03-31 22:00:00")
    FinalMonth.objects.create(month=date(2026, 3, 1), ends_at=ends_at, marked_at=ends_at, marked_by="olga")
    given = {"meter": "vcpu_held", "price": "0.01"}
    refused = olgas.post("/platform/rates", {**given, "valid_from": "2026-03-31T21:59:59Z"})
    assert (refused.status, refused.error["code"]) == (400, "invalid")
    (said,) = refused.error["fields"]["valid_from"]
    assert said.startswith("no price changes what months up to March 2026 cost, as they are final; choose a")
    assert said.endswith("start at 2026-03-31 22:00:00 UTC, the beginning of April 2026, or later")
    assert not Rate.objects.filter(meter="vcpu_held").exists()
    assert olgas.post("/platform/rates", {**given, "valid_from": "2026-03-31T22:00:00Z"}).status == 201
