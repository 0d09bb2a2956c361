"""Closing a month: exact invoices, frozen, numbered without gaps; what is in the way is said; what comes late is corrected."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing import issuing
from billing.models import (
    BillingAccount,
    Invoice,
    InvoiceLine,
    InvoiceShare,
    LedgerPosting,
    MonthClose,
    RatedUsage,
)
from billing.months import month_span
from billing.selectors.checklist import silent_sites
from billing.services import cost_center_set, rate_set
from billing.services.closing import month_close_request, month_close_run
from billing.states import CloseState
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.core.ids import uuid7
from gpuaas.metering.models import Meter, MeterGap, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import meters_prove, month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.catalog import SiteFactory
from tests.lasting import lasting

ADD_A_SHARE = (
    "INSERT INTO billing_invoiceshare (line_id, workspace_id, day, unit_seconds, amount_minor) "
    "SELECT line_id, workspace_id, day + 1, 0, 0 FROM billing_invoiceshare"
)
ADD_POSTINGS = (
    "INSERT INTO billing_ledgerposting (entry_id, account, amount_minor) "
    "SELECT id, 'cash', 5 FROM billing_ledgerentry UNION ALL SELECT id, 'prepaid', -5 FROM billing_ledgerentry"
)
OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
@lasting
def priced(as_olga: Actor, h100: Flavor, l40s: Flavor) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    rate_set(actor=as_olga, flavor=l40s, meter=Meter.GPU_HELD, price="0.90", valid_from=utc("2026-01-01"))


@pytest.fixture
def taxed(organization: Organization) -> None:
    BillingAccount.objects.create(
        organization=organization,
        currency="EUR",
        tax_rate_bp=1900,
        tax_label="VAT 19%",
        address="Seestraße 2\n14469 Potsdam",
        invoice_reference="PO 4410-07",
    )


def test_a_month_becomes_an_invoice(
    workspace: Workspace, h100: Flavor, project: Project, as_olga: Actor, priced: None, taxed: None
) -> None:
    cost_center_set(actor=as_olga, project=project, code="4410-07")
    interval_make(workspace, h100, utc("2026-09-20"), None, quantity=2)
    month_close(as_olga, date(2026, 9, 1))
    row = month_close(as_olga, OCTOBER)
    assert (row.state, row.invoices) == (CloseState.CLOSED, 1)
    invoice = Invoice.objects.get(month=OCTOBER)
    assert (invoice.number, invoice.currency, invoice.line_count) == ("INV-2026-0002", "EUR", 1)
    # October has 745 hours: 2 × 745 × 2.40
    assert (invoice.subtotal_minor, invoice.tax_minor, invoice.total_minor) == (357_600, 67_944, 425_544)
    assert (invoice.tax_label, invoice.account_reference) == ("VAT 19%", "PO 4410-07")
    line = invoice.lines.get()
    assert (line.project_slug, line.cost_center, line.flavor_slug) == ("weather-lm", "4410-07", "h100.1")
    assert (line.unit_seconds, line.amount_minor, line.estimated) == (2 * 745 * 3600, 357_600, False)
    shares = list(line.shares.all())
    assert len(shares) == line.share_count == 31
    assert sum(share.amount_minor or 0 for share in shares) == 357_600
    assert len(invoice.content_hash) == 64
    assert BillingAccount.objects.get().currency_fixed_at is not None
    assert {
        (row.account, row.amount_minor) for row in LedgerPosting.objects.filter(entry__invoice=invoice)
    } == {("receivable", 425_544), ("revenue", -357_600), ("tax", -67_944)}


def test_closing_again_is_refused_and_running_again_does_nothing(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    month_close(as_olga, OCTOBER)
    with pytest.raises(Conflict, match="already closed"):
        month_close_request(actor=as_olga, month=OCTOBER, now=utc("2026-11-04"))
    assert month_close_run(month=OCTOBER).state == CloseState.CLOSED
    assert Invoice.objects.count() == 1


def test_only_operators_close(as_bob: Actor, as_charlie: Actor, olga: User) -> None:
    for actor in (as_bob, as_charlie):
        with pytest.raises((NotFound, Forbidden)):
            month_close_request(actor=actor, month=OCTOBER)
    assert not MonthClose.objects.exists()


def test_what_is_in_the_way_is_said_beside_the_field(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-09-02 10:00:00"), utc("2026-10-02 11:00:00"))
    end = month_span(OCTOBER).ends_at
    with pytest.raises(Invalid) as early:
        month_close_request(actor=as_olga, month=OCTOBER, now=end + timedelta(hours=47), accept="trust me")
    assert "grace" in early.value.fields["month"][0]
    with pytest.raises(Invalid) as order:
        month_close_request(actor=as_olga, month=OCTOBER, now=end + timedelta(hours=48), accept="trust me")
    assert order.value.fields["month"] == [
        "Earlier months are closed: September 2026 is not closed. Close September 2026 first."
    ]
    month_close(as_olga, date(2026, 9, 1))
    with pytest.raises(Invalid) as silent:
        month_close_request(actor=as_olga, month=OCTOBER, now=end + timedelta(hours=48))
    assert "1 of 1 sites have not reported" in silent.value.fields["accept"][0]
    meters_prove(end)
    assert (
        month_close_request(actor=as_olga, month=OCTOBER, now=end + timedelta(hours=48)).state
        == CloseState.REQUESTED
    )


def test_a_gap_refuses_or_is_marked_estimated(
    workspace: Workspace, h100: Flavor, l40s: Flavor, as_olga: Actor, priced: None
) -> None:
    """What meters count around it; what is held is the portal's own book."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_ALLOCATED, price="1", valid_from=utc("2026-01-01"))
    interval_make(
        workspace, h100, utc("2026-10-02 09:10:00"), utc("2026-10-02 11:00:00"), meter=Meter.GPU_ALLOCATED
    )
    interval_make(workspace, l40s, utc("2026-10-07 10:00:00"), utc("2026-10-07 11:00:00"))
    MeterGap.objects.create(
        site=workspace.site, starts_at=utc("2026-10-02 09:00:00"), ends_at=utc("2026-10-02 09:30:00")
    )
    with pytest.raises(Invalid) as refused:
        month_close(as_olga, OCTOBER)
    assert "gap" in refused.value.fields["accept"][0]
    assert not Invoice.objects.exists()
    month_close(as_olga, OCTOBER, accept="the site was looked at by hand")
    invoice = Invoice.objects.get()
    assert invoice.estimated
    assert {(line.flavor_slug, line.estimated) for line in invoice.lines.all()} == {
        ("h100.1", True),
        ("l40s.1", False),
    }


def test_a_meter_that_is_silent_is_accepted_as_estimated(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    """And what it says later comes as a correction."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_ALLOCATED, price="1", valid_from=utc("2026-01-01"))
    for day in (2, 20):
        interval_make(
            *(workspace, h100, utc(f"2026-10-{day:02} 10:00:00"), utc(f"2026-10-{day:02} 11:00:00")),
            meter=Meter.GPU_ALLOCATED,
        )
    meters_prove(utc("2026-10-20 10:30:00"))
    moment = utc("2026-11-04")
    month_close_request(actor=as_olga, month=OCTOBER, accept="it burned down", now=moment)
    assert month_close_run(month=OCTOBER, now=moment).state == CloseState.CLOSED
    assert Invoice.objects.get().lines.get().estimated


def test_a_site_holds_no_month_before_it_was_reached(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    SiteFactory.create(slug="never")
    SiteFactory.create(slug="young", reached_at=month_span(OCTOBER).ends_at)
    there: Site = SiteFactory.create(slug="there", reached_at=utc("2026-10-30 10:00:00"))
    meters_prove(month_span(OCTOBER).ends_at, site=workspace.site)
    moment = utc("2026-11-04")
    with pytest.raises(Invalid) as refused:
        month_close_request(actor=as_olga, month=OCTOBER, now=moment)
    assert (
        "1 of 2 sites have not reported to the end of the month: there (never)"
        in (refused.value.fields["accept"][0])
    )
    assert [(each.site_id, len(each.days())) for each in silent_sites(month=OCTOBER)] == [(there.pk, 2)]
    meters_prove(month_span(OCTOBER).ends_at, site=there)
    month_close_request(actor=as_olga, month=OCTOBER, now=moment)
    row = month_close_run(month=OCTOBER, now=moment)
    assert (row.state, Invoice.objects.get().estimated) == (CloseState.CLOSED, False)


def test_a_short_gap_is_none(workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    MeterGap.objects.create(
        site=workspace.site, starts_at=utc("2026-10-02 09:00:00"), ends_at=utc("2026-10-02 09:00:59")
    )
    assert month_close(as_olga, OCTOBER).state == CloseState.CLOSED
    assert not Invoice.objects.get().estimated


def test_quarantine_refuses_is_accepted_and_is_billed_when_priced(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    row = month_close(as_olga, OCTOBER)
    assert (row.state, row.invoices) == (CloseState.REFUSED, 0)
    assert "1 line in quarantine" in row.refusal
    assert not Invoice.objects.exists()
    assert month_close(as_olga, OCTOBER, accept="priced later").state == CloseState.CLOSED
    first = Invoice.objects.get()
    assert (first.total_minor, first.lines.get().amount_minor) == (0, None)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-10-01"))
    month_close(as_olga, NOVEMBER)
    second = Invoice.objects.get(month=NOVEMBER)
    assert second.total_minor == 240
    assert {(line.status, line.unit_seconds, line.amount_minor) for line in second.lines.all()} == {
        ("quarantined", -3600, None),
        ("billed", 3600, 240),
    }
    assert {line.charge_month for line in second.lines.all()} == {OCTOBER}
    assert second.lines.get(status="quarantined").corrects == first.lines.get()


def test_late_usage_lands_on_the_next_invoice_and_zero_posts_nothing(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None, taxed: None
) -> None:
    used = interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    month_close(as_olga, OCTOBER)
    line = InvoiceLine.objects.get()
    # an hour more is known later, and an hour of November
    UsageInterval.objects.filter(pk=used.pk).update(ended_at=utc("2026-10-02 12:00:00"))
    interval_make(workspace, h100, utc("2026-11-05 10:00:00"), utc("2026-11-05 13:00:00"))
    month_close(as_olga, NOVEMBER)
    invoice = Invoice.objects.get(month=NOVEMBER)
    assert [
        (row.charge_month, row.unit_seconds, row.amount_minor, row.corrects_id) for row in invoice.lines.all()
    ] == [
        (NOVEMBER, 3 * 3600, 720, None),
        (OCTOBER, 3600, 240, line.pk),
    ]
    # less than was invoiced: taken back; what is the same is not posted again
    UsageInterval.objects.filter(pk=used.pk).update(ended_at=utc("2026-10-02 10:30:00"))
    month_close(as_olga, date(2026, 12, 1))
    (back,) = InvoiceLine.objects.filter(invoice__month=date(2026, 12, 1))
    assert (back.charge_month, back.unit_seconds, back.amount_minor) == (OCTOBER, -5400, -360)
    assert back.invoice.total_minor == -428
    # split in two, in another order: the same usage, so nothing
    UsageInterval.objects.filter(pk=used.pk).update(started_at=utc("2026-10-02 10:10:00"))
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 10:10:00"))
    month_close(as_olga, date(2027, 1, 1))
    assert not Invoice.objects.filter(month=date(2027, 1, 1)).exists()


def test_usage_that_turns_out_never_to_have_been_is_taken_back(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-09-02 10:00:00"), utc("2026-09-02 11:00:00"))
    used = interval_make(workspace, h100, utc("2026-10-30"), None)
    for month in (date(2026, 9, 1), OCTOBER, NOVEMBER):
        month_close(as_olga, month)
    UsageInterval.objects.filter(pk=used.pk).update(ended_at=utc("2026-10-30 01:00:00"))
    month_close(as_olga, date(2026, 12, 1))
    rows = InvoiceLine.objects.filter(invoice__month=date(2026, 12, 1))
    hours = {row.charge_month: row.unit_seconds / 3600 for row in rows}
    assert hours == {OCTOBER: -46.0, NOVEMBER: -720.0}
    total = sum(row.amount_minor or 0 for row in InvoiceLine.objects.all())
    assert total == 480


def test_only_what_changed_is_rated_again(
    workspace: Workspace,
    other_project: Project,
    alice: User,
    h100: Flavor,
    as_olga: Actor,
    priced: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = workspace_make(other_project, h100, alice, name="fold")
    for row in (workspace, other):
        interval_make(row, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    month_close(as_olga, OCTOBER)
    interval_make(other, h100, utc("2026-10-03 10:00:00"), utc("2026-10-03 11:00:00"))
    rated: list[Any] = []
    write = issuing.cells_write

    def watched(**given: Any) -> int:
        rated.append((given["month"], list(given["projects"])))
        return write(**given)

    monkeypatch.setattr(issuing, "cells_write", watched)
    month_close(as_olga, NOVEMBER)
    assert rated == [(OCTOBER, [other_project.pk])]


def test_closed_rows_cannot_be_changed_by_anybody(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None, taxed: None
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    month_close(as_olga, OCTOBER)
    tables = ("invoice", "invoiceline", "invoiceshare", "ledgerentry", "ledgerposting", "monthclose")
    changes = [
        *(f"DELETE FROM billing_{table}" for table in tables),
        "UPDATE billing_invoice SET total_minor = total_minor",
        "UPDATE billing_invoice SET content_hash = 'x'",
        "UPDATE billing_invoiceline SET amount_minor = 1",
        "UPDATE billing_invoiceshare SET amount_minor = 1",
        "UPDATE billing_ledgerentry SET text = 'x'",
        "UPDATE billing_ledgerposting SET amount_minor = 1",
        "UPDATE billing_monthclose SET state = 'requested', closed_at = NULL",
        ADD_A_SHARE,
        ADD_POSTINGS,
        *(
            f"SET LOCAL gpuaas.allow_truncate = off; TRUNCATE billing_{table} CASCADE"
            for table in ("invoice", "ledgerentry")
        ),
    ]
    for change in changes:
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)
    line = InvoiceLine.objects.get()
    line.pk, line.position, line.amount_minor = uuid7(), 2, 0  # a line that is added later
    with pytest.raises(DatabaseError), transaction.atomic():
        line.save(force_insert=True)


def test_the_fingerprint_is_of_the_content_whatever_the_order(
    workspace: Workspace, h100: Flavor, l40s: Flavor, as_olga: Actor, priced: None, taxed: None
) -> None:
    """Byte-identical: pieces, order and ids of the usage make no difference to what is frozen."""
    found = []
    pieces = [
        (h100, "2026-10-02 10:00:00", "2026-10-02 11:00:00"),
        (h100, "2026-10-02 11:00:00", "2026-10-02 15:00:07"),
        (l40s, "2026-10-09 10:00:00", "2026-10-09 11:00:00"),
    ]
    whole = [(h100, "2026-10-02 10:00:00", "2026-10-02 15:00:07"), pieces[2]]
    for rows in (pieces, pieces[::-1], whole):
        keep = transaction.savepoint()
        for flavor, start, end in rows:
            interval_make(workspace, flavor, utc(start), utc(end))
        month_close(as_olga, OCTOBER)
        invoice = Invoice.objects.get()
        lines = invoice.lines.values_list("position", "flavor_slug", "unit_seconds", "amount_minor")
        shares = InvoiceShare.objects.values_list("line__position", "day", "unit_seconds", "amount_minor")
        found.append((invoice.number, invoice.content_hash, list(lines), sorted(shares)))
        transaction.savepoint_rollback(keep)
    assert found[0] == found[1] == found[2]


def test_what_was_rated_is_remembered_and_it_is_due_in_thirty_days(
    workspace: Workspace, h100: Flavor, as_olga: Actor, priced: None
) -> None:
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    month_close(as_olga, OCTOBER)
    assert RatedUsage.objects.count() == 1
    assert Invoice.objects.get().due_on == date(2026, 12, 4)
