"""Usage without a price that is not charged."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.months import month_parse
from billing.selectors.usage_write_offs import usage_write_offs_for
from billing.services.usage_write_offs import usage_write_off, usage_write_off_take_back
from gpuaas.api.fields import Input, Month, Output, PageQuery, Pick, Text, TextOrEmpty, TextOrNull
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.rate_cards import flavor_named
from gpuaas.api.views import PlatformView
from gpuaas.core.rows import first_of
from gpuaas.metering.models import Meter


class UsageWriteOffQuery(PageQuery):
    month = Text(required=False, max_length=7, help_text="YYYY-MM.")


class UsageWriteOffInput(Input):
    month = Text(max_length=7, help_text="YYYY-MM: a month that is over.")
    flavor = TextOrNull(max_length=64, help_text="null if `resource` is given.")
    resource = TextOrEmpty(
        max_length=150,
        help_text="For GPUs that ran without being sold: the name by which their site counts them.",
    )
    meter = Pick(choices=Meter.choices)
    currency = TextOrEmpty(
        max_length=3, help_text="Of the standard rate card. Default: the portal's currency."
    )
    reason = Text(max_length=300, help_text="Recorded in the audit log.")


class UsageWriteOffOutput(Output):
    id = serializers.UUIDField()
    month = Month()
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    resource = serializers.CharField(source="resource_name", allow_blank=True)
    meter = serializers.ChoiceField(choices=Meter.choices)
    currency = serializers.CharField(source="card.currency")
    reason = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class UsageWriteOffsView(PlatformView):
    @operation(
        "platform_usage_write_off_list",
        "List write-offs of usage",
        rows=UsageWriteOffOutput,
        query=UsageWriteOffQuery,
    )
    def get(self, request: Request) -> Response:
        """Lists usage without a price that is not charged, newest first."""
        month = month_parse(self.params["month"]) if "month" in self.params else None
        return self.page(usage_write_offs_for(actor=self.actor, month=month), UsageWriteOffOutput, key="-pk")

    @operation(
        "platform_usage_write_off", "Write off usage", body=UsageWriteOffInput, created=UsageWriteOffOutput
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Charges nothing for what was used in a month that is over, where it has no price, so that the month can be closed."""
        asked = self.input(UsageWriteOffInput)
        made = usage_write_off(
            actor=self.actor,
            month=month_parse(asked["month"]),
            flavor=flavor_named(asked["flavor"]),
            resource=asked["resource"],
            meter=asked["meter"],
            currency=asked["currency"],
            reason=asked["reason"],
        )
        return Response(UsageWriteOffOutput(made).data, status=201)


class UsageWriteOffView(PlatformView):
    @operation("platform_usage_write_off_get", "Get a write-off of usage", answer=UsageWriteOffOutput)
    def get(self, request: Request, unpriced: uuid.UUID) -> Response:
        """Returns what is not charged, in which month and why."""
        rows = usage_write_offs_for(actor=self.actor)
        return Response(UsageWriteOffOutput(first_of(rows.filter(pk=unpriced), "write-off of usage")).data)

    @operation("platform_usage_write_off_take_back", "Take back a write-off of usage")
    def delete(self, request: Request, unpriced: uuid.UUID) -> Response:
        """The usage waits for a price again. This is possible until the month is final."""
        row = first_of(usage_write_offs_for(actor=self.actor).filter(pk=unpriced), "write-off of usage")
        usage_write_off_take_back(actor=self.actor, row=row)
        return Response(status=204)
