"""Write-offs by REST: listed with their invoice, reversed once."""

from billing.booking import Booking, bookings_write
from billing.models import LedgerEntry
from billing.states import Account, EntryKind
from gpuaas.core import clock
from tenants.models import Project
from tests.api.caller import Caller
from tests.factories.billing import invoice_make


def test_a_write_off_is_listed_and_reversed_once(olgas: Caller, alices: Caller, project: Project) -> None:
    invoice = invoice_make(project)
    amounts = {Account.RECEIVABLE: 88_655, Account.REVENUE: -74_500, Account.TAX: -14_155}
    owed = Booking(invoice.organization_id, EntryKind.DOCUMENT, "EUR", invoice.number, amounts, invoice.pk)
    bookings_write([owed], now=clock.now(), by="olga")
    home = f"/platform/invoices/{invoice.number}/write-off"
    assert olgas.post(home, {"reason": "insolvent", "amount": "86.55"}).status == 204
    (row,) = olgas.get(home).json["results"]
    assert (row["amount"], row["note"]) == ("86.55", "INV-2026-0001: insolvent")
    assert (row["by"], row["reversed_at"]) == ("olga", None)
    back = f"{home}/{row['id']}/reverse"
    assert olgas.post(back, {"reason": ""}).status == 400
    reversed_ = olgas.post(back, {"reason": "they pay"}, Idempotency_Key="once")
    assert (reversed_.status, reversed_.json["id"]) == (201, row["id"])
    assert reversed_.json["reversed_at"] is not None
    assert olgas.get(home).json["results"] == [reversed_.json]
    assert olgas.post(back, {"reason": "they pay"}, Idempotency_Key="once").json == reversed_.json, (
        "the same answer"
    )
    again = olgas.post(back, {"reason": "again"})
    assert (again.status, again.error["code"]) == (409, "conflict")
    payment = LedgerEntry.objects.get(kind=EntryKind.DOCUMENT).pk
    assert olgas.post(f"{home}/{payment}/reverse", {"reason": "no write-off"}).status == 404
    assert alices.post(back, {"reason": "mine"}).status == 404
    detail = f"/organizations/{invoice.organization.slug}/invoices/{invoice.number}"
    assert alices.get(detail).json["open"] == "886.55"


def test_a_grant_is_reversed_once(olgas: Caller, alices: Caller, project: Project) -> None:
    home = f"/platform/organizations/{project.organization.slug}/grants"
    given = olgas.post(home, {"amount": "5", "expires_at": "2030-01-01T00:00:00Z", "note": "pilot"})
    assert (given.status, given.json["reversed_at"]) == (201, None)
    back = f"{home}/{given.json['id']}/reverse"
    assert olgas.post(back, {"reason": ""}).status == 400
    assert alices.post(back, {"reason": "mine"}).status == 404
    reversed_ = olgas.post(back, {"reason": "not theirs"}, Idempotency_Key="once")
    assert (reversed_.status, reversed_.json["left"], reversed_.json["expired"]) == (201, "0.00", "5.00")
    assert reversed_.json["reversed_at"] is not None
    assert olgas.post(back, {"reason": "not theirs"}, Idempotency_Key="once").json == reversed_.json
    assert olgas.post(back, {"reason": "again"}).code == "conflict"
    listed = alices.get(f"/organizations/{project.organization.slug}/grants").json["results"]
    assert listed == [reversed_.json]
