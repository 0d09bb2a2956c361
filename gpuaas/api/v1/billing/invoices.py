"""Invoices, notes and payments: read by tenants, written by operators. Operators also close months."""

from collections.abc import Mapping

from django.http import HttpResponse, StreamingHttpResponse
from django.urls import reverse
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from billing.exports import rows_csv
from billing.models import Invoice
from billing.months import month_parse
from billing.selectors import balances, checklist, documents
from billing.selectors.closing import close_preview
from billing.selectors.parties import parties_of
from billing.services.closing import month_close_request
from billing.services.notes import note_issue
from billing.services.payments import grant_give, payment_record
from billing.services.pdfs import pdf_ready
from billing.states import CloseState, InvoiceKind
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.invoice_shapes import (
    BalanceOutput,
    CloseChecksOutput,
    CloseInput,
    CloseOutput,
    CreditGrantInput,
    CreditGrantOutput,
    InvoiceDetailOutput,
    InvoiceLineOutput,
    InvoiceOutput,
    InvoiceQuery,
    NoteInput,
    PaymentInput,
    PaymentOutput,
)
from gpuaas.api.v1.billing.views import CsvRenderer
from gpuaas.api.views import ApiView, PlatformView
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import first_of
from gpuaas.core.streams import csv_streamed
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import organization_get_for


class PdfRenderer(CsvRenderer):
    """Only for content negotiation, as for CSV."""

    media_type = "application/pdf"
    format = "pdf"


class OrganizationView(ApiView):
    """Views below /organizations/{organization}/… for callers who may see its costs."""

    def organization(self) -> Organization:
        permission = Permission.BILLING_VIEW
        return organization_get_for(actor=self.actor, slug=self.kwargs["organization"], permission=permission)

    def invoice(self) -> Invoice:
        return documents.invoice_get_for(
            actor=self.actor, organization=self.organization(), number=self.kwargs["number"]
        )


def filters_of(params: Mapping[str, str]) -> documents.InvoiceFilters:
    month, kind = params.get("month"), params.get("kind")
    return documents.InvoiceFilters(
        month=month_parse(month) if month else None, kind=InvoiceKind(kind) if kind else None
    )


class OrganizationInvoicesView(OrganizationView):
    @operation(
        "organization_invoice_list",
        "List invoices of an organization",
        rows=InvoiceOutput,
        query=InvoiceQuery,
    )
    def get(self, request: Request, organization: str) -> Response:
        """Lists invoices and their credit and debit notes. Documents never change; the current month is in the
        statement."""
        rows = documents.invoices_of(
            actor=self.actor, organization=self.organization(), filters=filters_of(self.params)
        )
        return self.page(rows, InvoiceOutput, key="-number")


class OrganizationInvoiceView(OrganizationView):
    @operation("organization_invoice_get", "Get an invoice", answer=InvoiceDetailOutput)
    def get(self, request: Request, organization: str, number: str) -> Response:
        """Returns the invoice with its notes, and the amount that is still open after all of them."""
        invoice = self.invoice()
        settled = documents.settlement_of(actor=self.actor, invoice=invoice)
        return Response(InvoiceDetailOutput(invoice, context={"settled": settled}).data)


class OrganizationInvoiceLinesView(OrganizationView):
    @operation("organization_invoice_lines", "List the lines of an invoice", rows=InvoiceLineOutput)
    def get(self, request: Request, organization: str, number: str) -> Response:
        """The amounts add up to the subtotal of the invoice."""
        invoice = self.invoice()
        rows = documents.lines_of(actor=self.actor, invoice=invoice)
        return self.page(rows, InvoiceLineOutput, key="position", context={"currency": invoice.currency})


class OrganizationInvoiceCsvView(OrganizationView):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("organization_invoice_csv", "Get an invoice as CSV", file="csv")
    def get(self, request: Request, organization: str, number: str) -> StreamingHttpResponse:
        """One row per line, streamed. Amounts are exact decimals."""
        rows = rows_csv(documents.invoice_rows(invoice=self.invoice()))
        return csv_streamed(request._request, rows, name=number)


class OrganizationInvoicePdfView(OrganizationView):
    renderer_classes = [PdfRenderer, JSONRenderer]

    @operation("organization_invoice_pdf", "Get an invoice as PDF", file="pdf", also=(503,))
    def get(self, request: Request, organization: str, number: str) -> HttpResponse:
        """Answers 503 with Retry-After while a worker renders the file, some seconds after the close."""
        return HttpResponse(
            pdf_ready(invoice=self.invoice()),
            content_type="application/pdf",
            headers={"Content-Disposition": f'attachment; filename="{number}.pdf"'},
        )


class OrganizationBalanceView(OrganizationView):
    @operation("organization_balance", "Get the balance of an organization", answer=BalanceOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns from the ledger what is owed, what was paid in advance, and what is left of credits and grants."""
        row = self.organization()
        (party,) = parties_of(organizations=[row.pk])
        found = balances.balance_of(actor=self.actor, organization=row, currency=party.currency)
        return Response(BalanceOutput(found).data)


class OrganizationGrantsView(OrganizationView):
    @operation("organization_grant_list", "List grants of an organization", rows=CreditGrantOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Lists credits that pay for invoices until they expire. Those that expire first are used first."""
        rows = balances.grants_for(actor=self.actor, organization=self.organization())
        return self.page(rows, CreditGrantOutput, key="-pk")


class PartyView(PlatformView):
    """Views of one organization or document below /platform/…"""

    def named(self) -> Organization:
        return first_of(Organization.objects.filter(slug=self.kwargs["organization"]), "organization")

    def document(self) -> Invoice:
        return documents.invoice_get(actor=self.actor, number=self.kwargs["number"])


class InvoicesView(PlatformView):
    @operation(
        "platform_invoice_list", "List invoices of all organizations", rows=InvoiceOutput, query=InvoiceQuery
    )
    def get(self, request: Request) -> Response:
        """Lists the documents of all organizations."""
        rows = documents.invoices_all(actor=self.actor, filters=filters_of(self.params))
        return self.page(rows, InvoiceOutput, key="-number")


class InvoiceNotesView(PartyView):
    @operation("platform_invoice_note", "Correct an invoice", body=NoteInput, created=InvoiceOutput)
    @idempotent
    def post(self, request: Request, number: str) -> Response:
        """Creates a credit or debit note. A credit above what is left of a line is refused at `lines.<line>`."""
        invoice, asked = self.document(), self.input(NoteInput)
        amounts = {row["line"]: row["amount"] for row in asked["lines"]}
        if len(amounts) != len(asked["lines"]):
            raise Invalid.field("lines", "name each line only once")
        note = note_issue(
            actor=self.actor,
            invoice=invoice,
            kind=InvoiceKind(asked["note"]),
            amounts=amounts,
            reason=asked["reason"],
        )
        return Response(InvoiceOutput(note).data, status=201)


class OrganizationGrantsGiveView(PartyView):
    @operation("platform_grant_give", "Create a grant", body=CreditGrantInput, created=CreditGrantOutput)
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """Creates a credit in the organization's currency. With empty `gpu_types` it pays for everything."""
        row, asked = self.named(), self.input(CreditGrantInput)
        return Response(
            CreditGrantOutput(grant_give(actor=self.actor, organization=row, **asked)).data, status=201
        )


class OrganizationPaymentsView(PartyView):
    @operation("platform_payment_list", "List payments of an organization", rows=PaymentOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Lists recorded payments with their reversals, newest first."""
        asked = self.named()
        rows = balances.payments_for(actor=self.actor, organization=asked)
        return self.page(rows, PaymentOutput, key="-pk")

    @operation("platform_payment_record", "Record a payment", body=PaymentInput, created=BalanceOutput)
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """Records money received. It pays open invoices, the oldest first; the remainder pays future invoices."""
        row, asked = self.named(), self.input(PaymentInput)
        payment_record(actor=self.actor, organization=row, amount=asked["amount"], note=asked["note"])
        (party,) = parties_of(organizations=[row.pk])
        found = balances.balance_of(actor=self.actor, organization=row, currency=party.currency)
        return Response(BalanceOutput(found).data, status=201)


class ClosesView(PlatformView):
    @operation("platform_close_list", "List closes of months", rows=CloseOutput)
    def get(self, request: Request) -> Response:
        """Lists months that are closed, are being closed, or whose close was refused."""
        return self.page(documents.closes_for(actor=self.actor), CloseOutput, key="-month")

    @operation("platform_close_request", "Close a month", body=CloseInput, accepted=CloseOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """Creates the invoices of all organizations; a worker makes them in one transaction. Follow `Location`.
        Repeated requests, also by other people, start one close. Obstacles are reported at `month` (wait for them) or
        at `accept` (close despite them, with a reason)."""
        asked = self.input(CloseInput)
        row = month_close_request(actor=self.actor, month=month_parse(asked["month"]), accept=asked["accept"])
        where = reverse("api:platform-close", kwargs={"month": f"{row.month:%Y-%m}"})
        return Response(CloseOutput(row).data, status=202, headers={"Location": where})


class CloseView(PlatformView):
    @operation("platform_close_get", "Get the checks or progress of a close", answer=CloseChecksOutput)
    def get(self, request: Request, month: str) -> Response:
        """Before the request: every check, what to do if it fails, and what would be invoiced. After the request: the
        progress. Poll every few seconds until the state is `closed` or `refused`."""
        first = month_parse(month)
        row = checklist.close_for(actor=self.actor, month=first)
        found: dict[str, object] = {"month": first, "close": row, "checks": (), "drafts": None}
        if row is None or row.state == CloseState.REFUSED:
            preview = close_preview(actor=self.actor, month=first, now=clock.now())
            totals = [{"currency": name, "amount": total} for name, total in preview.totals.items()]
            found["checks"] = preview.checks
            found["drafts"] = {"organizations": preview.organizations, "totals": totals}
        return Response(CloseChecksOutput(found).data)
