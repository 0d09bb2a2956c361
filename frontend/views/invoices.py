"""Invoices of an organization: the list with what is owed and promised, each document, its files, and the ledger."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse

from billing.exports import rows_csv
from billing.models import Grant, Invoice, LedgerEntry
from billing.money import amount_of
from billing.months import month_days, month_of, month_span
from billing.pdf import pdf_trouble
from billing.selectors import balances, documents
from billing.selectors.parties import parties_of
from billing.services.pdfs import pdf_ready
from billing.states import Account, InvoiceKind
from frontend.nav import Crumb
from frontend.place import OrganizationPlace, organization_place
from frontend.presenters import invoices as shown
from gpuaas.core import clock
from gpuaas.core.errors import Unavailable
from gpuaas.core.streams import csv_streamed
from tenants.actors import Actor
from tenants.roles import Permission

ROWS = 50
KINDS = (("", "All"), *((kind.value, f"{kind.label}s") for kind in InvoiceKind))


def place(request: HttpRequest, organization: str) -> OrganizationPlace:
    return organization_place(request, organization, Permission.BILLING_VIEW)


def kind_asked(request: HttpRequest) -> InvoiceKind | None:
    wanted = request.GET.get("kind", "")
    return InvoiceKind(wanted) if wanted in InvoiceKind.values else None


def crumbs(here: OrganizationPlace, *rest: Crumb) -> tuple[Crumb, ...]:
    slug = here.organization.slug
    home = Crumb(here.organization.name, reverse("frontend:projects", args=[slug]))
    return (home, *rest)


@login_required
def index(request: HttpRequest, organization: str) -> HttpResponse:
    here = place(request, organization)
    kind = kind_asked(request)
    found = documents.invoices_of(
        actor=here.actor, organization=here.organization, filters=documents.InvoiceFilters(kind=kind)
    )
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    (party,) = parties_of(organizations=[here.organization.pk])
    given: dict[str, Any] = {"actor": here.actor, "organization": here.organization}
    context = {
        "place": here,
        "organization": here.organization,
        "page": page,
        "rows": shown.rows_of(page),
        "kinds": KINDS,
        "kind": kind.value if kind else "",
        "balance": balances.balance_of(currency=party.currency, **given),
        "grants": [grant_shown(row) for row in balances.grants_for(**given)[:20]],
        "running": month_of(clock.now()),
        "crumbs": crumbs(here, Crumb("Invoices")),
    }
    return render(request, "billing/invoices.html", context)


def grant_shown(row: Grant) -> dict[str, Any]:
    return {
        "grant": row,
        "amount": amount_of(row.amount_minor, row.currency),
        "used": amount_of(row.used_minor, row.currency),
        "left": amount_of(row.left_minor, row.currency),
        "types": sorted(kind.name for kind in row.gpu_types.all()),
        "expired": row.expires_at <= clock.now(),
    }


@login_required
def show(request: HttpRequest, organization: str, number: str) -> HttpResponse:
    here = place(request, organization)
    invoice = documents.invoice_get_for(actor=here.actor, organization=here.organization, number=number)
    up = Crumb("Invoices", reverse("frontend:organization_invoices", args=[organization]))
    context = {
        "place": here,
        "crumbs": crumbs(here, up, Crumb(invoice.number)),
        **invoice_context(invoice, here.actor),
    }
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
        "pdf_trouble": pdf_trouble(),
    }


@login_required
def csv(request: HttpRequest, organization: str, number: str) -> StreamingHttpResponse:
    here = place(request, organization)
    invoice = documents.invoice_get_for(actor=here.actor, organization=here.organization, number=number)
    rows = rows_csv(documents.invoice_rows(invoice=invoice))
    return csv_streamed(request, rows, name=invoice.number)


@login_required
def pdf(request: HttpRequest, organization: str, number: str) -> HttpResponse:
    """The file; while a worker makes it, a page that says so and asks again by itself."""
    here = place(request, organization)
    invoice = documents.invoice_get_for(actor=here.actor, organization=here.organization, number=number)
    try:
        made = pdf_ready(invoice=invoice)
    except Unavailable as error:
        up = Crumb("Invoices", reverse("frontend:organization_invoices", args=[organization]))
        context = {
            "place": here,
            "invoice": invoice,
            "error": error,
            "crumbs": crumbs(here, up, Crumb(invoice.number)),
        }
        waits = render(request, "billing/pdf_waits.html", context, status=503)
        waits["Retry-After"] = str(error.retry_after)
        return waits
    return HttpResponse(
        made,
        content_type="application/pdf",
        headers={"Content-Disposition": f'attachment; filename="{invoice.number}.pdf"'},
    )


@login_required
def ledger(request: HttpRequest, organization: str) -> HttpResponse:
    here = place(request, organization)
    found = balances.entries_for(actor=here.actor, organization=here.organization)
    page = Paginator(found, ROWS).get_page(request.GET.get("page"))
    up = Crumb("Invoices", reverse("frontend:organization_invoices", args=[organization]))
    context = {
        "place": here,
        "organization": here.organization,
        "page": page,
        "rows": [entry_shown(row) for row in page],
        "crumbs": crumbs(here, up, Crumb("Ledger")),
    }
    return render(request, "billing/ledger.html", context)


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
    return {"entry": row, "postings": postings}
