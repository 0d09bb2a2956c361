"""The shapes of documents, balances and closes."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.models import Grant, Invoice, InvoiceLine
from billing.money import amount_of, price_of
from billing.selectors.credits import Credit
from billing.states import NOTE_KINDS, InvoiceKind
from gpuaas.api.fields import Input, Instant, Money, Month, Output, PageQuery, Pick, Text, TextOrEmpty, Whole
from gpuaas.api.v1.billing.rate_card_shapes import PER_HOUR


class InMinor(Money):
    """Minor units of the row's currency as an exact decimal."""

    def get_attribute(self, instance: Any) -> Any:
        minor = super().get_attribute(instance)
        currency = self.context.get("currency") or instance.currency
        return None if minor is None else amount_of(minor, currency)


class UnitPrice(Money):
    def to_representation(self, value: Decimal | int) -> str:
        return super().to_representation(price_of(int(value)))


@extend_schema_field(OpenApiTypes.STR)
class Percent(Money):
    """Basis points as a decimal number of percent, with two places."""

    def to_representation(self, value: Decimal | int) -> str:
        return super().to_representation(Decimal(f"{value}e-2"))


class InvoiceQuery(PageQuery):
    month = Text(required=False, max_length=7, help_text="YYYY-MM.")
    kind = Pick(required=False, choices=InvoiceKind.choices)


class InvoiceOutput(Output):
    id = serializers.UUIDField()
    number = serializers.CharField()
    kind = serializers.CharField(help_text="invoice, credit_note or debit_note.")
    organization = serializers.CharField(source="organization.slug")
    month = Month()
    currency = serializers.CharField()
    subtotal = InMinor(source="subtotal_minor", help_text="The sum of the lines; negative for credit notes.")
    tax_rate_percent = Percent(source="tax_rate_bp")
    tax_label = serializers.CharField()
    tax = InMinor(source="tax_minor")
    total = InMinor(source="total_minor")
    estimated = serializers.BooleanField()
    corrects = serializers.CharField(
        source="corrects.number",
        default=None,
        allow_null=True,
        help_text="The invoice that this note corrects; null for an invoice, and for a month whose total is below zero.",
    )
    reason = serializers.CharField()
    closed_at = serializers.DateTimeField()
    due_on = serializers.DateField()
    content_hash = serializers.CharField(help_text="SHA-256 of the content, fixed at the close.")


class CreditUseOutput(Output):
    number = serializers.CharField()
    amount = Money()


class CreditOutput(Output):
    number = serializers.CharField(help_text="The document whose total below zero gave it.")
    given = Money()
    pays = serializers.SerializerMethodField(help_text="What it has paid, by the number of the invoice.")
    paid_out = Money()
    left = Money()

    @extend_schema_field(CreditUseOutput(many=True))
    def get_pays(self, row: Credit) -> list[Any]:
        return _by_number(row.pays)


def _by_number(amounts: Mapping[str, Decimal]) -> list[Any]:
    rows = [{"number": number, "amount": amount} for number, amount in amounts.items()]
    return list(CreditUseOutput(rows, many=True).data)


class InvoiceDetailOutput(InvoiceOutput):
    open = serializers.SerializerMethodField(help_text="Open amount of the invoice after all its notes.")
    documents = serializers.SerializerMethodField(help_text="Numbers of the invoice and its notes.")
    credits = serializers.SerializerMethodField(
        help_text="Credits that these documents gave, and what they pay."
    )
    paid_by = serializers.SerializerMethodField(
        help_text="What credits have paid of these documents, by the number of the document that gave them."
    )

    def get_open(self, row: Invoice) -> str:
        return f"{self.context['settled'].open:f}"

    def get_documents(self, row: Invoice) -> list[str]:
        return [each.number for each in self.context["settled"].documents]

    @extend_schema_field(CreditOutput(many=True))
    def get_credits(self, row: Invoice) -> list[Any]:
        return list(CreditOutput(self.context["settled"].credits, many=True).data)

    @extend_schema_field(CreditUseOutput(many=True))
    def get_paid_by(self, row: Invoice) -> list[Any]:
        return _by_number(self.context["settled"].paid_by)


class InvoiceLineOutput(Output):
    position = serializers.IntegerField()
    charge_month = Month()
    project = serializers.CharField(source="project_slug")
    cost_center = serializers.CharField()
    flavor = serializers.CharField(source="flavor_slug")
    gpu_type = serializers.CharField()
    resource = serializers.CharField()
    meter = serializers.CharField()
    price_class = serializers.CharField()
    status = serializers.CharField()
    unit_price = UnitPrice(source="unit_price_micro", allow_null=True, help_text=PER_HOUR)
    unit_seconds = serializers.IntegerField(help_text="Of tokens, 3600 for each million.")
    amount = InMinor(source="amount_minor", allow_null=True, help_text="null: no price is set.")
    estimated = serializers.BooleanField()
    surplus = serializers.BooleanField()
    corrects = serializers.SerializerMethodField(
        help_text="The line that it corrects, as number#position; otherwise empty."
    )

    def get_corrects(self, row: InvoiceLine) -> str:
        return f"{row.corrects.invoice.number}#{row.corrects.position}" if row.corrects else ""


class BalanceOutput(Output):
    currency = serializers.CharField()
    owed = Money(help_text="Sum of all open documents; negative: in the organization's favor.")
    prepaid = Money()
    credit = Money(help_text="What is left of credit notes; it pays the next invoices.")
    granted = Money(help_text="What is left of valid grants.")
    payable = Money(help_text="How much of `prepaid` and `credit` can be paid out.")


class CreditGrantOutput(Output):
    id = serializers.UUIDField()
    currency = serializers.CharField()
    amount = InMinor(source="amount_minor")
    used = InMinor(source="used_minor")
    expired = InMinor(source="expired_minor", help_text="What expired, or was left when it was reversed.")
    left = InMinor(source="left_minor")
    gpu_types = serializers.SerializerMethodField(help_text="GPU types that it pays for; empty: everything.")
    note = serializers.CharField()
    expires_at = serializers.DateTimeField()
    created_at = serializers.DateTimeField()
    reversed_at = serializers.DateTimeField(default=None, allow_null=True, help_text="null: not reversed.")

    def get_gpu_types(self, row: Grant) -> list[str]:
        return sorted(kind.slug for kind in row.gpu_types.all())


class CreditGrantInput(Input):
    amount = Text(max_length=20, help_text="A decimal number in a string, such as 500.00.")
    expires_at = Instant()
    gpu_types = serializers.ListField(child=Text(max_length=64), required=False, default=list, max_length=50)
    note = TextOrEmpty(max_length=200)


class PaymentInput(Input):
    amount = Text(max_length=20, help_text="A decimal number in a string, such as 500.00.")
    note = TextOrEmpty(max_length=200)


class PaymentOutput(Output):
    id = serializers.UUIDField()
    amount = Money()
    currency = serializers.CharField()
    note = serializers.CharField(source="text")
    at = serializers.DateTimeField()
    by = serializers.CharField()
    reversed_at = serializers.DateTimeField(
        source="reversal.at", default=None, allow_null=True, help_text="null: not reversed."
    )


class PayoutOutput(PaymentOutput):
    credit_note = serializers.CharField(
        source="credit.number",
        default=None,
        allow_null=True,
        help_text="The document whose credit was paid out; null: money that was paid in advance.",
    )


class WriteOffOutput(PaymentOutput):
    note = serializers.CharField(source="text", help_text="Number of the invoice and the reason.")


class WriteOffInput(Input):
    reason = Text(max_length=300)
    amount = Text(max_length=20, required=False, help_text="Default: the whole open amount.")


class NoteLine(Input):
    line = Whole(min_value=1, help_text="Position of the line to correct.")
    amount = Text(max_length=20, help_text="Always above 0, also for a credit.")


class NoteInput(Input):
    note = Pick(choices=NOTE_KINDS)
    reason = Text(max_length=500)
    lines = NoteLine(many=True)


class CloseInput(Input):
    month = Text(max_length=7, help_text="YYYY-MM.")
    accept = TextOrEmpty(
        max_length=500,
        help_text="Why the month may be closed despite gaps, silent meters or quarantined usage.",
    )


class CloseProgressOutput(Output):
    attempts = serializers.IntegerField(
        help_text="Number of workers that have started. 0: it waits for one. Above 1: the previous one died."
    )
    step = serializers.CharField()
    done = serializers.IntegerField(help_text="Organizations finished; nothing is written before all are.")
    organizations = serializers.IntegerField(help_text="0 until the number is known.")
    began_at = serializers.DateTimeField(allow_null=True)
    seen_at = serializers.DateTimeField(allow_null=True, help_text="Last heartbeat of the worker.")


class CloseOutput(Output):
    month = Month()
    state = serializers.CharField(
        help_text="requested (the close is running: see `progress`), refused or closed."
    )
    requested_at = serializers.DateTimeField()
    requested_by = serializers.CharField()
    accepted = serializers.CharField()
    refusal = serializers.CharField()
    closed_at = serializers.DateTimeField(allow_null=True)
    invoices = serializers.IntegerField()
    progress = CloseProgressOutput(allow_null=True, help_text="Of the last attempt.")


class CloseTotalOutput(Output):
    currency = serializers.CharField()
    amount = Money(help_text="Before tax.")


class CloseDraftsOutput(Output):
    organizations = serializers.IntegerField(help_text="Number of organizations that get an invoice.")
    totals = CloseTotalOutput(many=True)


class CloseCheckOutput(Output):
    name = serializers.CharField()
    title = serializers.CharField()
    ok = serializers.BooleanField()
    message = serializers.CharField()
    remedy = serializers.CharField()
    may_accept = serializers.BooleanField(help_text="true: an operator may close despite it.")


class CloseChecksOutput(Output):
    month = Month()
    close = CloseOutput(allow_null=True)
    checks = CloseCheckOutput(many=True, help_text="Empty from the request on.")
    drafts = CloseDraftsOutput(
        allow_null=True,
        help_text=(
            "What would be invoiced now, without corrections of earlier months; null whenever `checks` "
            "is empty."
        ),
    )
