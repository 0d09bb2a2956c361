"""Usage without a price is written off with a reason: the month can be closed, and until it is final this can be taken back."""

from datetime import date, datetime
from decimal import Decimal

import pytest
from django.test import Client

from billing.models import Invoice, Rate, UsageWriteOff
from billing.rating import LineStatus
from billing.selectors import statement
from billing.services import (
    LineTerms,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_set,
)
from billing.services.usage_write_offs import usage_write_off, usage_write_off_take_back
from billing.states import CloseState
from gpuaas.catalog.models import Flavor, StorageClass
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.metering.models import FinalMonth, Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.api.caller import Caller
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.tenants import UserFactory
from tests.frontend.markup import comes_back

PCI = "CUSTOM_PCI_10DE_25B7"
OCTOBER = date(2026, 10, 1)
ADDRESS = "/platform/usage-write-offs"
WISH = {
    "month": "2026-10",
    "resource": PCI,
    "meter": "gpu_allocated",
    "reason": "a card that was lent for tests",
}


@pytest.fixture
def ran(project: Project, h100: Flavor, alice: User) -> Workspace:
    """An hour of a type that nobody sells, on the 2nd and again on the 20th of October, and one in November."""
    workspace = workspace_make(project, h100, alice)
    for day in ("2026-10-02", "2026-10-20", "2026-11-02"):
        first, last = utc(f"{day} 10:00:00"), utc(f"{day} 11:00:00")
        interval_make(workspace, None, first, last, meter=Meter.GPU_ALLOCATED, resource=PCI)
    return workspace


def written_off(actor: Actor, **wish: object) -> UsageWriteOff:
    asked = {"month": OCTOBER, "meter": "gpu_allocated", "resource": PCI, "reason": "lent for tests"}
    return usage_write_off(actor=actor, **{**asked, **wish})  # type: ignore[arg-type]


def amounts(actor: Actor, month: date = OCTOBER) -> list[tuple[LineStatus, str]]:
    found = statement(actor=actor, month=month, now=utc("2026-12-04"))
    return sorted((line.status, str(line.amount)) for line in found.lines if line.resource == PCI)


def test_the_month_is_closed_and_nothing_is_charged(ran: Workspace, as_olga: Actor) -> None:
    assert month_close(as_olga, OCTOBER).state == CloseState.REFUSED
    row = written_off(as_olga)
    assert amounts(as_olga) == [(LineStatus.BILLED, "0.00")]
    assert amounts(as_olga, date(2026, 11, 1)) == [(LineStatus.QUARANTINED, "None")], (
        "the next month waits still"
    )
    assert month_close(as_olga, OCTOBER).state == CloseState.CLOSED
    assert [invoice.total_minor for invoice in Invoice.objects.all()] == [0]
    entry = AuditEntry.objects.get(action="usage.write_off")
    assert entry.target_id == str(row.pk)
    assert entry.after is not None
    assert entry.after["reason"] == "lent for tests"


def test_what_has_a_price_keeps_it(ran: Workspace, as_olga: Actor) -> None:
    rate_set(
        actor=as_olga,
        flavor=None,
        resource=PCI,
        meter="gpu_allocated",
        price="0.60",
        valid_from=utc("2026-10-10"),
    )
    row = written_off(as_olga)
    assert amounts(as_olga) == [(LineStatus.BILLED, "0.00"), (LineStatus.BILLED, "0.60")]
    assert [(rate.valid_from, rate.valid_to) for rate in row.rates.all()] == [
        (utc("2026-09-30 22:00:00"), utc("2026-10-10"))
    ]
    with pytest.raises(Invalid) as refused:
        written_off(as_olga)
    assert list(refused.value.fields) == ["meter"]


def test_a_price_for_it_is_refused_until_it_is_taken_back(ran: Workspace, as_olga: Actor) -> None:
    row = written_off(as_olga)
    price = {
        "flavor": None,
        "resource": PCI,
        "meter": "gpu_allocated",
        "price": "1",
        "valid_from": utc("2026-10-01"),
    }
    with pytest.raises(Invalid, match="take the write-off back first"):
        rate_set(actor=as_olga, **price)  # type: ignore[arg-type]
    usage_write_off_take_back(actor=as_olga, row=row)
    assert amounts(as_olga) == [(LineStatus.QUARANTINED, "None")]
    assert not Rate.objects.exists()
    assert AuditEntry.objects.filter(action="usage.write_off_take_back").count() == 1
    with pytest.raises(Conflict, match="already taken back"):
        usage_write_off_take_back(actor=as_olga, row=row)
    rate_set(actor=as_olga, **price)  # type: ignore[arg-type]
    assert amounts(as_olga) == [(LineStatus.BILLED, "2.00")]


@pytest.mark.parametrize("meter", ["gpu_allocated", "vcpu_held", "storage_held"])
def test_what_another_price_pays_for_is_not_written_off(
    ran: Workspace, as_olga: Actor, h100: Flavor, meter: str
) -> None:
    """It is in no quarantine: a price of zero would have made the GPUs that are held, or a class of plain storage, free."""
    day, next_day = utc("2026-10-02 00:00:00"), utc("2026-10-03 00:00:00")
    StorageClass.objects.create(site=ran.site, name="fast", slug="fast", state="active", observed_at=day)
    rate_set(actor=as_olga, flavor=None, meter="storage_held", price="0.10", valid_from=utc("2026-01-01"))
    for each, flavor, resource in (
        (Meter.GPU_HELD, h100, "nvidia.com/gpu"),
        (Meter.GPU_ALLOCATED, h100, "nvidia.com/gpu"),
        (Meter.VCPU_HELD, None, "vcpu_held"),
        (Meter.STORAGE_HELD, None, "storage:fast"),
    ):
        interval_make(ran, flavor, day, next_day, meter=each, resource=resource)
    ware = {"flavor": h100 if meter == "gpu_allocated" else None, "resource": ""}
    if meter == "storage_held":
        ware["resource"] = "storage:fast"
    before = {
        (line.meter, line.status, line.amount) for line in statement(actor=as_olga, month=OCTOBER).lines
    }
    assert (Meter.STORAGE_HELD, LineStatus.BILLED, Decimal("2.40")) in before
    with pytest.raises(Invalid) as refused:
        written_off(as_olga, meter=meter, **ware)
    assert list(refused.value.fields) == ["meter"]
    after = {(line.meter, line.status, line.amount) for line in statement(actor=as_olga, month=OCTOBER).lines}
    assert after == before


def test_a_draft_of_prices_can_be_published_after_it(ran: Workspace, as_olga: Actor, h100: Flavor) -> None:
    draft = rate_draft_open(actor=as_olga)
    rate_draft_line_set(actor=as_olga, draft=draft, flavor=h100, meter="gpu_held", terms=LineTerms("3"))
    written_off(as_olga)
    rate_draft_publish(actor=as_olga, draft=draft)
    assert amounts(as_olga) == [(LineStatus.BILLED, "0.00")]


def test_what_is_held_is_not_written_off_where_its_use_has_a_price(
    ran: Workspace, as_olga: Actor, h100: Flavor
) -> None:
    interval_make(ran, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    rate_set(actor=as_olga, flavor=h100, meter="gpu_allocated", price="2", valid_from=utc("2026-01-01"))
    with pytest.raises(Invalid) as refused:
        written_off(as_olga, flavor=h100, resource="", meter="gpu_held")
    assert list(refused.value.fields) == ["meter"]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"month": date(2026, 9, 1)}, "meter"),
        ({"month": date(2027, 11, 1)}, "month"),
        ({"reason": "  "}, "reason"),
        ({"reason": "x" * 301}, "reason"),
        ({"resource": ""}, "flavor"),
        ({"resource": "nothing"}, "resource"),
        ({"meter": "gpu_stopped"}, "meter"),
        ({"meter": "nonsense"}, "meter"),
        ({"currency": "CHF"}, "currency"),
    ],
)
def test_nonsense_is_refused_beside_its_field(
    ran: Workspace, as_olga: Actor, wish: dict[str, object], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        written_off(as_olga, **wish)
    assert list(refused.value.fields) == [field]
    assert not UsageWriteOff.objects.exists()
    assert not Rate.objects.exists()


def final(until: datetime) -> None:
    FinalMonth.objects.create(month=OCTOBER, ends_at=until, marked_at=until, marked_by="olga")


def test_a_final_month_stays_as_it_is(ran: Workspace, as_olga: Actor) -> None:
    row = written_off(as_olga)
    final(utc("2026-10-31 23:00:00"))
    with pytest.raises(Conflict, match="final"):
        usage_write_off_take_back(actor=as_olga, row=row)
    with pytest.raises(Invalid, match="final"):
        written_off(as_olga)


def test_only_operators_write_off(ran: Workspace, as_alice: Actor) -> None:
    auditor = actor_for(user=UserFactory.create(platform_role="auditor"))
    for actor, refusal in ((as_alice, NotFound), (auditor, Forbidden)):
        with pytest.raises(refusal):
            written_off(actor)


def test_by_rest(ran: Workspace, olga: User) -> None:
    olga_api = Caller(olga)
    made = olga_api.post(ADDRESS, WISH)
    assert made.status == 201, made.json
    assert {name: made.json[name] for name in ("resource", "meter", "currency", "created_by")} == {
        "resource": PCI,
        "meter": "gpu_allocated",
        "currency": "EUR",
        "created_by": "olga",
    }
    assert [row["id"] for row in olga_api.get(f"{ADDRESS}?month=2026-10").json["results"]] == [
        made.json["id"]
    ]
    assert olga_api.get(f"{ADDRESS}?month=2026-11").json["results"] == []
    assert olga_api.get(f"{ADDRESS}/{made.json['id']}").json == made.json
    assert olga_api.delete(f"{ADDRESS}/{made.json['id']}").status == 204
    assert olga_api.delete(f"{ADDRESS}/{made.json['id']}").status == 404


def test_in_the_console(ran: Workspace, client: Client, olga: User) -> None:
    client.force_login(olga)
    usage = client.get("/operator/usage/?month=2026-10").content.decode()
    assert "Write off this usage?" in usage
    assert "2.00 h of CUSTOM_PCI_10DE_25B7" in usage
    form = {"month": "2026-10", "what": f"resource:{PCI}", "meter": "gpu_allocated", "currency": "EUR"}
    why = ("because " * 40).strip()
    assert comes_back(client.post("/operator/usage/write-offs/", {**form, "reason": why}), "write-off-1", why)
    refused = client.post("/operator/usage/write-offs/", form, follow=True).content.decode()
    assert "Say why this usage is not charged" in refused
    done = client.post(
        "/operator/usage/write-offs/", {**form, "reason": "lent"}, follow=True
    ).content.decode()
    assert "that had no price is not charged" in done
    assert "Written off" in done
    assert "Write off this usage?" not in done
    row = UsageWriteOff.objects.get()
    back = client.post(f"/operator/usage/write-offs/{row.pk}/back/", follow=True).content.decode()
    assert "waits for a price again" in back
    assert "Write off this usage?" in back
