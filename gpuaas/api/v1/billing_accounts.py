"""Who pays and how: accounts, cost centers and discounts, written by operators; the prices that an organization pays."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.models import BillingAccount, Discount
from billing.money import amount_of
from billing.selectors import accounts
from billing.selectors.sheets import SheetRow, price_sheet
from billing.services import (
    AccountTerms,
    account_update,
    cost_center_set,
    discount_end,
    discount_give,
    tax_rate_parse,
)
from gpuaas.api.fields import Input, Instant, Money, Output, PageQuery, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.invoices import OrganizationView, PlatformView
from gpuaas.api.v1.rate_cards import flavor_named
from gpuaas.api.views import ApiView
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.metering.models import Meter
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG, PLATFORM = "billing", "platform"
PERCENT = "In percent: a decimal number as text, such as 19 or 7.5."


def percent_of(basis_points: int) -> str:
    return f"{amount_of(basis_points, 'EUR'):f}"


class CostCenterOutput(Output):
    project = serializers.CharField()
    cost_center = serializers.CharField()


class BillingAccountOutput(Output):
    currency = serializers.CharField()
    currency_fixed_at = serializers.DateTimeField(
        allow_null=True, help_text="Since its first invoice: it stays from then on."
    )
    tax_rate = serializers.SerializerMethodField(help_text="In percent.")
    tax_label = serializers.CharField()
    address = serializers.CharField()
    invoice_reference = serializers.CharField()
    cost_centers = serializers.SerializerMethodField(help_text="Of every project; empty: none.")

    def get_tax_rate(self, row: BillingAccount) -> str:
        return percent_of(row.tax_rate_bp)

    @extend_schema_field(CostCenterOutput(many=True))
    def get_cost_centers(self, row: BillingAccount) -> list[Any]:
        del row
        found = self.context["cost_centers"].items()
        return [{"project": project, "cost_center": code} for project, code in found]


class BillingAccountInput(Input):
    currency = Text(max_length=3, help_text="ISO 4217; it can change until the first invoice.")
    tax_rate = Text(max_length=10, required=False, default="0", help_text=PERCENT)
    tax_label = Text(max_length=60, required=False, default="", allow_blank=True)
    address = Text(
        max_length=1000, required=False, default="", allow_blank=True, help_text="Lines as on an envelope."
    )
    invoice_reference = Text(max_length=100, required=False, default="", allow_blank=True)


class CostCenterInput(Input):
    cost_center = Text(max_length=60, allow_blank=True, help_text="Empty: none.")


class DiscountInput(Input):
    percent = Text(max_length=10, help_text=PERCENT)
    flavor = Text(
        max_length=64, required=False, allow_null=True, default=None, help_text="null: off every price."
    )
    valid_from = Instant(required=False, help_text="Default: now.")
    valid_to = Instant(required=False, allow_null=True, default=None)
    note = Text(max_length=300, required=False, default="", allow_blank=True)


class DiscountOutput(Output):
    id = serializers.UUIDField()
    percent = serializers.SerializerMethodField()
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()
    created_by = serializers.CharField()

    def get_percent(self, row: Discount) -> str:
        return percent_of(row.basis_points)


class PriceSheetTierOutput(Output):
    from_unit_hours = serializers.IntegerField()
    price = Money()


class PriceSheetPriceOutput(Output):
    price = Money(help_text="Per unit and hour, the discount taken off.")
    tier_mode = serializers.CharField()
    tiers = PriceSheetTierOutput(many=True)
    increment_seconds = serializers.IntegerField()
    minimum_seconds = serializers.IntegerField()
    discount = serializers.SerializerMethodField(help_text="In percent, taken off already.")
    own = serializers.BooleanField(help_text="From the organization's own card.")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True)

    def get_discount(self, row: Any) -> str:
        return percent_of(row.discount_bp)


class PriceSheetRowOutput(Output):
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField(source="flavor.price_class", default=None, allow_null=True)
    now = PriceSheetPriceOutput(allow_null=True, help_text="null: nobody has set a price yet.")
    upcoming = PriceSheetPriceOutput(many=True, help_text="Announced changes, in order.")


class PriceSheetOutput(Output):
    currency = serializers.CharField()
    as_of = serializers.DateTimeField()
    prices = serializers.SerializerMethodField()

    @extend_schema_field(PriceSheetRowOutput(many=True))
    def get_prices(self, row: Any) -> list[Any]:
        rows: tuple[SheetRow, ...] = row.rows
        return list(PriceSheetRowOutput(rows, many=True).data)


class Accounts(ApiView):
    def told(self, row: Organization) -> Response:
        given: dict[str, Any] = {"actor": self.actor, "organization": row}
        context = {"cost_centers": accounts.cost_centers_of(**given)}
        return Response(BillingAccountOutput(accounts.account_get(**given), context=context).data)


class OrganizationAccountView(Accounts, OrganizationView):
    @operation("organization_billing_account", "Billing account", tag=TAG, answer=BillingAccountOutput)
    def get(self, request: Request, organization: str) -> Response:
        """What stands on its invoices: currency, tax, address, reference, and what its projects are booked on."""
        del request, organization
        return self.told(self.organization())


class PlatformAccountView(Accounts, PlatformView):
    @operation(
        "platform_billing_account_set",
        "Set a billing account",
        tag=PLATFORM,
        body=BillingAccountInput,
        answer=BillingAccountOutput,
    )
    def put(self, request: Request, organization: str) -> Response:
        """All of it at once; invoices that are closed stay as they are."""
        del request, organization
        row, asked = self.named(), self.input(BillingAccountInput)
        tax = tax_rate_parse(asked.pop("tax_rate"))
        account_update(actor=self.actor, organization=row, terms=AccountTerms(**asked, tax_rate_bp=tax))
        return self.told(row)


class PlatformCostCenterView(ApiView):
    @operation(
        "platform_cost_center_set", "Set a cost center", tag=PLATFORM, body=CostCenterInput, status=204
    )
    def put(self, request: Request, project: str) -> Response:
        """Where the organization books this project: a section of its next invoices."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        row = Project.objects.filter(slug=project).first()
        if row is None:
            raise NotFound("there is no such project")
        cost_center_set(actor=self.actor, project=row, code=self.input(CostCenterInput)["cost_center"])
        return Response(status=204)


class OrganizationDiscountsView(OrganizationView):
    @operation(
        "organization_discount_list", "Discounts", tag=TAG, answer=page_of(DiscountOutput), query=PageQuery
    )
    def get(self, request: Request, organization: str) -> Response:
        """Given now, later, and those that are over."""
        del request, organization
        rows = accounts.discounts_for(actor=self.actor, organization=self.organization())
        return self.page(rows, DiscountOutput, key="-pk")


class PlatformDiscountsView(PlatformView):
    @operation(
        "platform_discount_give",
        "Give a discount",
        tag=PLATFORM,
        body=DiscountInput,
        answer=DiscountOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """From now on or later. Two of the same reach never overlap."""
        del request, organization
        row, asked = self.named(), self.input(DiscountInput)
        asked["flavor"] = flavor_named(asked["flavor"])
        made = discount_give(actor=self.actor, organization=row, **asked)
        return Response(DiscountOutput(made).data, status=201)


class PlatformDiscountView(PlatformView):
    @operation("platform_discount_end", "End a discount", tag=PLATFORM, status=204)
    def delete(self, request: Request, organization: str, discount: uuid.UUID) -> Response:
        """From now on; what it has lowered stays so."""
        del request, organization
        row = accounts.discount_get(actor=self.actor, organization=self.named(), discount_id=discount)
        discount_end(actor=self.actor, discount=row)
        return Response(status=204)


class OrganizationPricesView(OrganizationView):
    @operation("organization_prices", "Prices", tag=TAG, answer=PriceSheetOutput)
    def get(self, request: Request, organization: str) -> Response:
        """What the organization pays now, by its own card and discounts, and every change that is announced."""
        del request, organization
        return Response(
            PriceSheetOutput(
                price_sheet(actor=self.actor, organization=self.organization(), now=clock.now())
            ).data
        )
