"""Payments, payouts, grants and write-offs that operators have recorded, and their reversal."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from billing.selectors.balances import (
    balance_of,
    entries_for,
    grants_for,
    payments_for,
    payouts_for,
    write_offs_for,
)
from billing.selectors.parties import parties_of
from billing.services.payments import payout_record, write_off
from billing.services.reversals import grant_reverse, payment_reverse, payout_reverse, write_off_reverse
from billing.states import EntryKind
from gpuaas.api.fields import Input, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.invoice_shapes import (
    BalanceOutput,
    CreditGrantOutput,
    PaymentInput,
    PaymentOutput,
    PayoutOutput,
    WriteOffInput,
    WriteOffOutput,
)
from gpuaas.api.v1.billing.invoices import PartyView
from gpuaas.core.rows import first_of


class ReverseInput(Input):
    reason = Text(max_length=200)


class PaymentReverseView(PartyView):
    @operation("platform_payment_reverse", "Reverse a payment", body=ReverseInput, created=PaymentOutput)
    @idempotent
    def post(self, request: Request, organization: str, payment: uuid.UUID) -> Response:
        """Records a reversal, once. What the payment had paid is open again, the newest invoice first."""
        rows = payments_for(actor=self.actor, organization=self.named())
        found = first_of(rows.filter(pk=payment), "payment")
        payment_reverse(actor=self.actor, entry=found, reason=self.input(ReverseInput)["reason"])
        return Response(PaymentOutput(rows.get(pk=payment)).data, status=201)


class OrganizationPayoutsView(PartyView):
    @operation("platform_payout_list", "List payouts to an organization", rows=PayoutOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Lists recorded payouts with their reversals, newest first."""
        rows = payouts_for(actor=self.actor, organization=self.named())
        return self.page(rows, PayoutOutput, key="-pk")

    @operation("platform_payout_record", "Record a payout", body=PaymentInput, created=BalanceOutput)
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """Records money paid back, at most `payable` of the balance: from credits, the oldest first, then from what was
        paid in advance. Each is a payout of its own in the list."""
        row, asked = self.named(), self.input(PaymentInput)
        payout_record(actor=self.actor, organization=row, amount=asked["amount"], note=asked["note"])
        (party,) = parties_of(organizations=[row.pk])
        found = balance_of(actor=self.actor, organization=row, currency=party.currency)
        return Response(BalanceOutput(found).data, status=201)


class PayoutReverseView(PartyView):
    @operation("platform_payout_reverse", "Reverse a payout", body=ReverseInput, created=PayoutOutput)
    @idempotent
    def post(self, request: Request, organization: str, payout: uuid.UUID) -> Response:
        """Records a reversal, once. The amount pays open invoices, the oldest first, and then later ones."""
        rows = payouts_for(actor=self.actor, organization=self.named())
        found = first_of(rows.filter(pk=payout), "payout")
        payout_reverse(actor=self.actor, entry=found, reason=self.input(ReverseInput)["reason"])
        return Response(PayoutOutput(rows.get(pk=payout)).data, status=201)


class GrantReverseView(PartyView):
    @operation("platform_grant_reverse", "Reverse a grant", body=ReverseInput, created=CreditGrantOutput)
    @idempotent
    def post(self, request: Request, organization: str, grant: uuid.UUID) -> Response:
        """Records a reversal, once. What the grant had paid is owed again; money that was paid in advance pays it at
        once. What was left is gone."""
        row = self.named()
        entries = entries_for(actor=self.actor, organization=row)
        found = first_of(entries.filter(grant=grant, kind=EntryKind.GRANT), "grant")
        grant_reverse(actor=self.actor, entry=found, reason=self.input(ReverseInput)["reason"])
        return Response(
            CreditGrantOutput(grants_for(actor=self.actor, organization=row).get(pk=grant)).data, status=201
        )


class InvoiceWriteOffView(PartyView):
    @operation("platform_invoice_write_offs", "List write-offs of an invoice", rows=WriteOffOutput)
    def get(self, request: Request, number: str) -> Response:
        """Lists what of an invoice was written off, with reversals, newest first."""
        rows = write_offs_for(actor=self.actor, invoice=self.document())
        return self.page(rows, WriteOffOutput, key="-pk")

    @operation("platform_invoice_write_off", "Write off an invoice", body=WriteOffInput)
    @idempotent
    def post(self, request: Request, number: str) -> Response:
        """Writes off the open amount of an invoice, or a part of it."""
        invoice, asked = self.document(), self.input(WriteOffInput)
        write_off(actor=self.actor, invoice=invoice, reason=asked["reason"], amount=asked.get("amount", ""))
        return Response(status=204)


class WriteOffReverseView(PartyView):
    @operation("platform_write_off_reverse", "Reverse a write-off", body=ReverseInput, created=WriteOffOutput)
    @idempotent
    def post(self, request: Request, number: str, written: uuid.UUID) -> Response:
        """Records a reversal, once. The amount is owed again; money that was paid in advance pays it at once."""
        rows = write_offs_for(actor=self.actor, invoice=self.document())
        found = first_of(rows.filter(pk=written), "write-off")
        write_off_reverse(actor=self.actor, entry=found, reason=self.input(ReverseInput)["reason"])
        return Response(WriteOffOutput(rows.get(pk=written)).data, status=201)
