"""Accounts, cost centers and discounts, written by operators; the prices that an organization pays."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.models import BillingAccount
from billing.selectors import accounts
from billing.selectors.sheets import price_sheet
from billing.services import (
    AccountTerms,
    account_update,
    cost_center_set,
    discount_end,
    discount_give,
    tax_rate_parse,
)
from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, Instant, Money, Output, Text, TextOrEmpty, TextOrNull
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.invoice_shapes import Percent
from gpuaas.api.v1.billing.invoices import OrganizationView, PartyView
from gpuaas.api.v1.billing.rate_card_shapes import OF_TOKENS
from gpuaas.api.v1.billing.rate_cards import flavor_named
from gpuaas.api.views import ApiView, PlatformView
from gpuaas.core import clock
from gpuaas.core.rows import first_of
from gpuaas.metering.models import Meter
from tenants.models import Organization, Project

PERCENT = "In percent, as a decimal number in a string, such as 19 or 7.5."


class CostCenterOutput(Output):
    project = serializers.CharField()
    cost_center = serializers.CharField()


class BillingAccountOutput(Output):
    currency = serializers.CharField()
    currency_fixed_at = serializers.DateTimeField(
        allow_null=True, help_text="When its first invoice fixed the currency for good; null: none has."
    )
    tax_rate = Percent(source="tax_rate_bp", help_text="In percent.")
    tax_label = serializers.CharField()
    address = serializers.CharField()
    invoice_reference = serializers.CharField()
    cost_centers = serializers.SerializerMethodField(help_text="Cost center by project; empty: none.")

    @extend_schema_field(CostCenterOutput(many=True))
    def get_cost_centers(self, row: BillingAccount) -> list[Any]:
        codes = self.context["cost_centers"].items()
        return [{"project": project, "cost_center": code} for project, code in codes]


class BillingAccountInput(Input):
    currency = Text(
        max_length=3,
        help_text="ISO 4217. It can be changed until the first invoice, while there is no money, no budget and no cap of a policy in it.",
    )
    tax_rate = Text(max_length=10, required=False, default="0", help_text=PERCENT)
    tax_label = TextOrEmpty(max_length=60)
    address = TextOrEmpty(max_length=1000, help_text="As on an envelope, line by line.")
    invoice_reference = TextOrEmpty(max_length=100)


class CostCenterInput(Input):
    cost_center = Text(max_length=60, allow_blank=True, help_text="Empty: none.")


class DiscountInput(Input):
    percent = Text(max_length=10, help_text=PERCENT)
    flavor = TextOrNull(max_length=64, help_text="null: applies to all prices.")
    valid_from = Instant(required=False, help_text="Default: now.")
    valid_to = Instant(required=False, allow_null=True, default=None)
    note = TextOrEmpty(max_length=300)


class DiscountOutput(Output):
    id = serializers.UUIDField()
    percent = Percent(source="basis_points")
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()
    created_by = serializers.CharField()


class PriceSheetTierOutput(Output):
    from_unit_hours = serializers.IntegerField(help_text=OF_TOKENS)
    price = Money()


class PriceSheetPriceOutput(Output):
    price = Money(help_text="Per unit and hour, or per million tokens, after the discount.")
    tier_mode = serializers.CharField()
    tiers = PriceSheetTierOutput(many=True)
    increment_seconds = serializers.IntegerField()
    minimum_seconds = serializers.IntegerField()
    discount = Percent(source="discount_bp", help_text="In percent; `price` already includes it.")
    own = serializers.BooleanField(help_text="true: from the organization's own rate card.")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True)


class PriceSheetRowOutput(Output):
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    resource = serializers.CharField(
        allow_blank=True, help_text="Of a storage class, `storage:` and its short name; otherwise empty."
    )
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField(source="flavor.price_class", default=None, allow_null=True)
    now = PriceSheetPriceOutput(allow_null=True, help_text="null: no price is set.")
    upcoming = PriceSheetPriceOutput(many=True, help_text="Announced changes, in order.")


class PriceSheetOutput(Output):
    currency = serializers.CharField()
    as_of = serializers.DateTimeField()
    prices = PriceSheetRowOutput(source="rows", many=True)


class Accounts(ApiView):
    def answer(self, row: Organization) -> Response:
        given: dict[str, Any] = {"actor": self.actor, "organization": row}
        context = {"cost_centers": accounts.cost_centers_of(**given)}
        account = accounts.account_get(**given)
        data = BillingAccountOutput(account, context=context).data
        return Response(data, headers={"ETag": etag(account.version)})


class OrganizationAccountView(Accounts, OrganizationView):
    @operation("organization_billing_account", "Get the billing account", answer=BillingAccountOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns what its invoices show: currency, tax, address and reference, and the cost centers of its
        projects."""
        return self.answer(self.organization())


class PlatformAccountView(Accounts, PartyView):
    @operation("platform_billing_account", "Get the billing account", answer=BillingAccountOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns what the organization itself sees of it. Send the ETag as If-Match when you set it."""
        return self.answer(self.named())

    @operation(
        "platform_billing_account_set",
        "Set the billing account",
        body=BillingAccountInput,
        answer=BillingAccountOutput,
        versioned=True,
    )
    def put(self, request: Request, organization: str) -> Response:
        """Replaces all fields. Closed invoices do not change."""
        row, asked = self.named(), self.input(BillingAccountInput)
        tax = tax_rate_parse(asked.pop("tax_rate"))
        terms = AccountTerms(**asked, tax_rate_bp=tax)
        expected = wanted_version(request)
        account_update(actor=self.actor, organization=row, terms=terms, expected_version=expected)
        return self.answer(row)


class PlatformCostCenterView(PlatformView):
    def named(self) -> Project:
        return first_of(
            Project.objects.filter(slug=self.kwargs["project"]).select_related("organization"), "project"
        )

    @operation("platform_cost_center", "Get a cost center", answer=CostCenterOutput)
    def get(self, request: Request, project: str) -> Response:
        """Returns the cost center under which the organization books this project; empty if there is none."""
        row = self.named()
        codes = accounts.cost_centers_of(actor=self.actor, organization=row.organization)
        return Response(CostCenterOutput({"project": row.slug, "cost_center": codes[row.slug]}).data)

    @operation("platform_cost_center_set", "Set a cost center", body=CostCenterInput)
    def put(self, request: Request, project: str) -> Response:
        """Sets the cost center under which the organization books this project: a section of its next invoices."""
        cost_center_set(
            actor=self.actor, project=self.named(), code=self.input(CostCenterInput)["cost_center"]
        )
        return Response(status=204)


class OrganizationDiscountsView(OrganizationView):
    @operation("organization_discount_list", "List discounts of an organization", rows=DiscountOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns present, future and past discounts."""
        rows = accounts.discounts_for(actor=self.actor, organization=self.organization())
        return self.page(rows, DiscountOutput, key="-pk")


class PlatformDiscountsView(PartyView):
    @operation("platform_discount_give", "Create a discount", body=DiscountInput, created=DiscountOutput)
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """Starts now or later. Two discounts on the same prices must not overlap in time."""
        row, asked = self.named(), self.input(DiscountInput)
        asked["flavor"] = flavor_named(asked["flavor"])
        made = discount_give(actor=self.actor, organization=row, **asked)
        return Response(DiscountOutput(made).data, status=201)


class PlatformDiscountView(PartyView):
    @operation("platform_discount_get", "Get a discount", answer=DiscountOutput)
    def get(self, request: Request, organization: str, discount: uuid.UUID) -> Response:
        """Returns its percentage, the prices that it lowers, and from when to when."""
        found = self.named()
        row = accounts.discount_get(actor=self.actor, organization=found, discount_id=discount)
        return Response(DiscountOutput(row).data)

    @operation("platform_discount_end", "End a discount")
    def delete(self, request: Request, organization: str, discount: uuid.UUID) -> Response:
        """Ends the discount now; charges already discounted keep it."""
        row = accounts.discount_get(actor=self.actor, organization=self.named(), discount_id=discount)
        discount_end(actor=self.actor, discount=row)
        return Response(status=204)


class OrganizationPricesView(OrganizationView):
    @operation("organization_prices", "Get the prices of an organization", answer=PriceSheetOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns what the organization pays now, by its own rate card and discounts, and all announced changes."""
        return Response(
            PriceSheetOutput(
                price_sheet(actor=self.actor, organization=self.organization(), now=clock.now())
            ).data
        )
