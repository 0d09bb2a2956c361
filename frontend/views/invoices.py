"""Invoices of an organization: the list with what is owed and promised, each document, its files, and the ledger."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse

from billing.exports import rows_csv
from billing.models import Grant, Invoice, LedgerEntry
from billing.money import amount_of
from billing.months import month_days, month_of, month_span
from billing.pdf import pdf_trouble
from billing.selectors import balances, documents
from billing.selectors.credits import credits_of
from billing.selectors.parties import parties_of
from billing.services.pdfs import pdf_ready
from billing.states import Account, EntryKind, InvoiceKind
from frontend.lists import Column, Filter, Listed, Listing, Query, find, list_page, named
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, RowDoor, organization_page
from frontend.presenters import invoices as shown
from gpuaas.core import clock
from gpuaas.core.errors import Unavailable
from gpuaas.core.streams import csv_streamed
from tenants.actors import Actor
from tenants.models import Organization
from tenants.roles import Permission

PDF_SECONDS = 3  # between two tries of a page that waits for a document

LIST = Listing(
    "documents",
    columns=(
        Column("number", "Number", "number", "invoice.number"),
        Column("kind", value="invoice.kind"),
        Column("organization", "Organization", "organization__name", "invoice.organization.slug"),
        Column("month", "Month", "month", lambda row: f"{row.invoice.month:%Y-%m}"),
        Column("closed_at", "Closed", "closed_at", "invoice.closed_at"),
        Column("net", "Net", "subtotal_minor", "subtotal", numeric=True),
        Column("total", "Total", "total_minor", "total", numeric=True),
        Column("currency", value="invoice.currency"),
    ),
    filters=(
        Filter("kind", "Kind", "every kind", tuple((kind.value, f"{kind.label}s") for kind in InvoiceKind)),
    ),
)


def _grant_state(row: dict[str, Any]) -> str:
    return "reversed" if row["reversed_at"] else "expired" if row["expired"] else "valid"


GRANTS = Listing(
    "grants",
    columns=(
        Column("grant", "Grant", value=lambda row: str(row["grant"])),
        Column("amount", "Amount", "amount_minor", numeric=True),
        Column("currency", value="grant.currency"),
        Column("gpu_types", value=lambda row: ", ".join(row["types"])),
        Column("expires_at", "Until", "expires_at", "grant.expires_at"),
        Column("state", value=_grant_state),
        Column("left", "Left", numeric=True),
    ),
    filters=(find("Find a note", "Note"),),
    size=20,
    mark="grant-",
)


def _side(row: dict[str, Any], side: str) -> str:
    """`Receivables 119.00; …`: every account of that side."""
    some = [each for each in row["postings"] if each[side] is not None]
    return "; ".join(f"{each['account']} {each[side]}" for each in some)


LEDGER = Listing(
    "entries",
    columns=(
        Column("entry", "Entry", "text", "entry.text"),
        Column("kind"),
        Column("by", value="entry.by"),
        Column("at", "When", "at", "entry.at"),
        Column("currency", value="entry.currency"),
        Column("account", "Account", value=None),
        Column("debits", "Debit", value=lambda row: _side(row, "debit"), numeric=True),
        Column("credits", "Credit", value=lambda row: _side(row, "credit"), numeric=True),
    ),
    filters=(
        find("Find an entry", "Entry"),
        Filter("kind", "Kind", "every kind", [(kind.value, str(kind.label)) for kind in EntryKind]),
    ),
)
REVERSED: dict[str, str] = {
    EntryKind.WRITE_OFF: "Write-off reversed",
    EntryKind.PAYOUT: "Payout reversed",
    EntryKind.GRANT: "Grant reversed",
}


def filters_of(query: Query) -> documents.InvoiceFilters:
    kind = query.one_of("kind", InvoiceKind.values)
    return documents.InvoiceFilters(kind=InvoiceKind(kind) if kind else None)


def crumbs(here: OrganizationPlace, *rest: Crumb) -> tuple[Crumb, ...]:
    home = reverse("frontend:projects", args=[here.organization.slug])
    return (Crumb(here.organization.name, home), *rest)


def _trail(here: OrganizationPlace, name: str) -> tuple[Crumb, ...]:
    up = reverse("frontend:organization_invoices", args=[here.organization.slug])
    return crumbs(here, Crumb("Invoices", up), Crumb(name))


def _invoice(here: OrganizationPlace, number: str) -> Invoice:
    return documents.invoice_get_for(**here.given, number=number)


invoice_page: RowDoor[OrganizationPlace, Invoice] = RowDoor(
    organization_page(Permission.BILLING_VIEW), _invoice, ("number",)
)


@organization_page(Permission.BILLING_VIEW)
def index(request: HttpRequest, here: OrganizationPlace) -> HttpResponseBase:
    found = LIST.of(
        request,
        lambda query: documents.invoices_of(**here.given, filters=filters_of(query)),
        rows_of,
        without={"organization"},
    )
    grants = grants_shown(request, here, here.organization)
    (party,) = parties_of(organizations=[here.organization.pk])
    running = month_of(here.now)
    context = {
        "organization": here.organization,
        "balance": balances.balance_of(currency=party.currency, **here.given),
        "grants": grants,
        "running": running,
        "focus_url": reverse("api:organization-focus-csv", args=[here.organization.slug, f"{running:%Y-%m}"]),
        "crumbs": crumbs(here, Crumb("Invoices")),
    }
    return list_page(request, "billing/invoices.html", found, context, grants)


def grants_shown(request: HttpRequest, here: Any, organization: Organization) -> Listed:
    """Every page that has them draws them alike."""
    known = balances.grants_for(actor=here.actor, organization=organization)
    return GRANTS.of(
        request,
        lambda query: named(known, query["q"], "note"),
        lambda rows: [grant_shown(row) for row in rows],
    )


def rows_of(found: list[Invoice]) -> list[shown.InvoiceRow]:
    return shown.rows_of(found, credits_of(invoices=[row.pk for row in found]))


def grant_shown(row: Grant) -> dict[str, Any]:
    return {
        "grant": row,
        "amount": amount_of(row.amount_minor, row.currency),
        "used": amount_of(row.used_minor, row.currency),
        "left": amount_of(row.left_minor, row.currency),
        "types": sorted(kind.name for kind in row.gpu_types.all()),
        "reversed_at": row.reversed_at,  # type: ignore[attr-defined]  # of `grants_for`
        "expired": row.expires_at <= clock.now(),
    }


@invoice_page
def show(request: HttpRequest, here: OrganizationPlace, invoice: Invoice) -> HttpResponse:
    context = {"crumbs": _trail(here, invoice.number), **invoice_context(invoice, here.actor)}
    return render(request, "billing/invoice.html", context)


def invoice_context(invoice: Invoice, actor: Actor) -> dict[str, Any]:
    """What both the tenant's and the operator's page of a document draw."""
    lines = documents.lines_of(actor=actor, invoice=invoice)
    slug = invoice.organization.slug
    settled = documents.settlement_of(actor=actor, invoice=invoice)
    return {
        "organization": invoice.organization,
        "invoice": invoice,
        "kind": InvoiceKind(invoice.kind).label,
        "sums": shown.sums_of(invoice),
        "sections": shown.sections_of(invoice, lines),
        "settled": settled,
        "documents": shown.rows_of(settled.documents),
        "hours": month_span(invoice.month).seconds // 3600,
        "last_day": month_days(invoice.month)[-1].day.day,
        "csv_url": reverse("frontend:invoice_csv", args=[slug, invoice.number]),
        "pdf_url": reverse("frontend:invoice_pdf", args=[slug, invoice.number]),
        "focus_url": reverse("api:organization-focus-csv", args=[slug, f"{invoice.month:%Y-%m}"]),
        "pdf_trouble": pdf_trouble(),
    }


@invoice_page
def csv(request: HttpRequest, here: OrganizationPlace, invoice: Invoice) -> StreamingHttpResponse:
    rows = rows_csv(documents.invoice_rows(invoice=invoice))
    return csv_streamed(request, rows, name=invoice.number)


@invoice_page
def pdf(request: HttpRequest, here: OrganizationPlace, invoice: Invoice) -> HttpResponse:
    """The file; while a worker makes it, a page that says so and asks again by itself."""
    try:
        made = pdf_ready(invoice=invoice)
    except Unavailable as error:
        trail = _trail(here, invoice.number)
        context = {"invoice": invoice, "error": error, "every": PDF_SECONDS, "crumbs": trail}
        waits = render(request, "billing/pdf_waits.html", context, status=503)
        waits["Retry-After"] = str(error.retry_after)
        waits["Refresh"] = str(PDF_SECONDS)
        return waits
    return HttpResponse(
        made,
        content_type="application/pdf",
        headers={"Content-Disposition": f'attachment; filename="{invoice.number}.pdf"'},
    )


@organization_page(Permission.BILLING_VIEW)
def ledger(request: HttpRequest, here: OrganizationPlace) -> HttpResponseBase:
    context = {"organization": here.organization, "crumbs": _trail(here, "Ledger")}
    found = entries_shown(request, here, here.organization)
    return list_page(request, "billing/ledger.html", found, context)


def entries_shown(request: HttpRequest, here: Any, organization: Organization) -> Listed:
    known = balances.entries_for(actor=here.actor, organization=organization)

    def found(query: Query) -> QuerySet[LedgerEntry]:
        kind = query.one_of("kind", EntryKind.values)
        rows = named(known, query["q"], "text")
        return rows.filter(kind=kind) if kind else rows

    return LEDGER.of(request, found, lambda rows: [entry_shown(row) for row in rows])


def entry_shown(row: LedgerEntry) -> dict[str, Any]:
    """Debits and credits by the names of their accounts."""
    postings = [
        {
            "account": Account(posting.account).label,
            "debit": amount_of(posting.amount_minor, row.currency) if posting.amount_minor > 0 else None,
            "credit": amount_of(-posting.amount_minor, row.currency) if posting.amount_minor < 0 else None,
        }
        for posting in row.postings.all()
    ]
    reversed_ = REVERSED.get(row.reverses.kind) if row.reverses else None
    return {"entry": row, "kind": reversed_ or row.get_kind_display(), "postings": postings}
