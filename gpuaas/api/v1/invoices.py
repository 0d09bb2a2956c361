"""Invoices, notes and what pays for them: read by tenants, written by operators; months closed by operators."""

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
from billing.services.payments import grant_give, payment_record, write_off
from billing.services.pdfs import pdf_ready
from billing.states import CloseState, InvoiceKind
from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.billing import CsvRenderer
from gpuaas.api.v1.invoice_shapes import (
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
    WriteOffInput,
)
from gpuaas.api.views import ApiView
from gpuaas.core import clock
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.streams import csv_streamed
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require

TAG, PLATFORM = "invoices", "platform"


class PdfRenderer(CsvRenderer):
    """Only for content negotiation, as for CSV."""

    media_type = "application/pdf"
    format = "pdf"


class OrganizationView(ApiView):
    """Views below /organizations/{organization}/… for who may see its costs."""

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
        "organization_invoice_list", "Invoices", tag=TAG, answer=page_of(InvoiceOutput), query=InvoiceQuery
    )
    def get(self, request: Request, organization: str) -> Response:
        """Invoices and their credit and debit notes. They never change; the month that runs is the statement."""
        del request, organization
        rows = documents.invoices_of(
            actor=self.actor, organization=self.organization(), filters=filters_of(self.params)
        )
        return self.page(rows, InvoiceOutput, key="-number")


class OrganizationInvoiceView(OrganizationView):
    @operation("organization_invoice_get", "An invoice", tag=TAG, answer=InvoiceDetailOutput)
    def get(self, request: Request, organization: str, number: str) -> Response:
        """With its notes and what is still to pay of all together."""
        del request, organization, number
        invoice = self.invoice()
        settled = documents.settlement_of(actor=self.actor, invoice=invoice)
        return Response(InvoiceDetailOutput(invoice, context={"settled": settled}).data)


class OrganizationInvoiceLinesView(OrganizationView):
    @operation(
        "organization_invoice_lines",
        "Lines of an invoice",
        tag=TAG,
        answer=page_of(InvoiceLineOutput),
        query=PageQuery,
    )
    def get(self, request: Request, organization: str, number: str) -> Response:
        """Their amounts add up to the invoice's subtotal."""
        del request, organization, number
        invoice = self.invoice()
        rows = documents.lines_of(actor=self.actor, invoice=invoice)
        return self.page(rows, InvoiceLineOutput, key="position", context={"currency": invoice.currency})


class OrganizationInvoiceCsvView(OrganizationView):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("organization_invoice_csv", "An invoice as CSV", tag=TAG, csv=True)
    def get(self, request: Request, organization: str, number: str) -> StreamingHttpResponse:
        """One row per line, streamed; amounts are exact decimals."""
        del organization
        rows = rows_csv(documents.invoice_rows(invoice=self.invoice()))
        return csv_streamed(request._request, rows, name=number)


class OrganizationInvoicePdfView(OrganizationView):
    renderer_classes = [PdfRenderer, JSONRenderer]

    @operation("organization_invoice_pdf", "An invoice as PDF", tag=TAG, pdf=True, also=(503,))
    def get(self, request: Request, organization: str, number: str) -> HttpResponse:
        """503 with Retry-After while a worker makes it, which takes seconds after the close."""
        del request, organization
        return HttpResponse(
            pdf_ready(invoice=self.invoice()),
            content_type="application/pdf",
            headers={"Content-Disposition": f'attachment; filename="{number}.pdf"'},
        )


class OrganizationBalanceView(OrganizationView):
    @operation("organization_balance", "Balance", tag=TAG, answer=BalanceOutput)
    def get(self, request: Request, organization: str) -> Response:
        """What is owed, what was paid in advance, and what grants have left; from the ledger."""
        del request, organization
        row = self.organization()
        (party,) = parties_of(organizations=[row.pk])
        found = balances.balance_of(actor=self.actor, organization=row, currency=party.currency)
        return Response(BalanceOutput(found).data)


class OrganizationGrantsView(OrganizationView):
    @operation(
        "organization_grant_list", "Grants", tag=TAG, answer=page_of(CreditGrantOutput), query=PageQuery
    )
    def get(self, request: Request, organization: str) -> Response:
        """Credits that pay for invoices until they expire; those that expire first pay first."""
        del request, organization
        rows = balances.grants_for(actor=self.actor, organization=self.organization())
        return self.page(rows, CreditGrantOutput, key="-pk")


class PlatformView(ApiView):
    def named(self) -> Organization:
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        row = Organization.objects.filter(slug=self.kwargs["organization"]).first()
        if row is None:
            raise NotFound("there is no such organization")
        return row

    def document(self) -> Invoice:
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        return documents.invoice_get(actor=self.actor, number=self.kwargs["number"])


class InvoicesView(ApiView):
    @operation(
        "platform_invoice_list",
        "Invoices of all",
        tag=PLATFORM,
        answer=page_of(InvoiceOutput),
        query=InvoiceQuery,
    )
    def get(self, request: Request) -> Response:
        """Documents of all organizations."""
        del request
        rows = documents.invoices_all(actor=self.actor, filters=filters_of(self.params))
        return self.page(rows, InvoiceOutput, key="-number")


class InvoiceNotesView(PlatformView):
    @operation(
        "platform_invoice_note",
        "Correct an invoice",
        tag=PLATFORM,
        body=NoteInput,
        answer=InvoiceOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, number: str) -> Response:
        """A credit or debit note; a credit above what is left of a line is refused beside `lines.<line>`."""
        del request, number
        invoice, asked = self.document(), self.input(NoteInput)
        amounts = {row["line"]: row["amount"] for row in asked["lines"]}
        if len(amounts) != len(asked["lines"]):
            raise Invalid.field("lines", "name each line once")
        note = note_issue(
            actor=self.actor,
            invoice=invoice,
            kind=InvoiceKind(asked["note"]),
            amounts=amounts,
            reason=asked["reason"],
        )
        return Response(InvoiceOutput(note).data, status=201)


class InvoiceWriteOffView(PlatformView):
    @operation("platform_invoice_write_off", "Write off", tag=PLATFORM, body=WriteOffInput, status=204)
    @idempotent
    def post(self, request: Request, number: str) -> Response:
        """Give up what is open of an invoice, or a part of it."""
        del request, number
        invoice, asked = self.document(), self.input(WriteOffInput)
        write_off(actor=self.actor, invoice=invoice, reason=asked["reason"], amount=asked.get("amount", ""))
        return Response(status=204)


class OrganizationGrantsGiveView(PlatformView):
    @operation(
        "platform_grant_give",
        "Give a grant",
        tag=PLATFORM,
        body=CreditGrantInput,
        answer=CreditGrantOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """A credit in the organization's currency; `gpu_types` empty: it pays for everything."""
        del request, organization
        row, asked = self.named(), self.input(CreditGrantInput)
        return Response(
            CreditGrantOutput(grant_give(actor=self.actor, organization=row, **asked)).data, status=201
        )


class OrganizationPaymentsView(PlatformView):
    @operation(
        "platform_payment_record",
        "Record a payment",
        tag=PLATFORM,
        body=PaymentInput,
        answer=BalanceOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """Money received: it pays open invoices, the oldest first; the rest pays those to come."""
        del request, organization
        row, asked = self.named(), self.input(PaymentInput)
        payment_record(actor=self.actor, organization=row, amount=asked["amount"], note=asked["note"])
        (party,) = parties_of(organizations=[row.pk])
        found = balances.balance_of(actor=self.actor, organization=row, currency=party.currency)
        return Response(BalanceOutput(found).data, status=201)


class ClosesView(ApiView):
    @operation(
        "platform_close_list", "Closed months", tag=PLATFORM, answer=page_of(CloseOutput), query=PageQuery
    )
    def get(self, request: Request) -> Response:
        """Months that are closed, are being closed, or were refused."""
        del request
        return self.page(documents.closes_for(actor=self.actor), CloseOutput, key="-month")

    @operation(
        "platform_close_request",
        "Close a month",
        tag=PLATFORM,
        body=CloseInput,
        answer=CloseOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Invoices of all organizations, made by a worker in one transaction: follow `Location`.
        Asking twice, or by two people, asks once. What is in the way is said beside `month`
        (to wait for) or `accept` (to be closed in spite of, with a reason).
        """
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(CloseInput)
        row = month_close_request(actor=self.actor, month=month_parse(asked["month"]), accept=asked["accept"])
        where = reverse("api:platform-close", kwargs={"month": f"{row.month:%Y-%m}"})
        return Response(CloseOutput(row).data, status=202, headers={"Location": where})


class CloseView(ApiView):
    @operation(
        "platform_close_get", "May a month be closed? How far is it?", tag=PLATFORM, answer=CloseChecksOutput
    )
    def get(self, request: Request, month: str) -> Response:
        """Before: each thing that has to be so, what to do where it is not, and what would be invoiced. From the request on: how
        far it is. Ask every few seconds until the state is `closed` or `refused`.
        """
        del request
        first = month_parse(month)
        row = checklist.close_for(actor=self.actor, month=first)
        found: dict[str, object] = {"month": first, "close": row, "checks": (), "drafts": None}
        if row is None or row.state == CloseState.REFUSED:
            preview = close_preview(actor=self.actor, month=first, now=clock.now())
            totals = [{"currency": name, "amount": total} for name, total in preview.totals.items()]
            found["checks"] = preview.checks
            found["drafts"] = {"organizations": preview.organizations, "totals": totals}
        return Response(CloseChecksOutput(found).data)
