"""What it cost: statements and costs of projects and organizations, and the rate card for operators."""

from typing import Any

from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from billing.exports import statement_csv
from billing.months import month_parse
from billing.rating import LineStatus
from billing.selectors import (
    Statement,
    burn_per_hour,
    cost_by_day,
    cost_by_workspace,
    rates_for,
    statement,
)
from billing.services import rate_set
from gpuaas.api.fields import Input, Instant, Money, Month, Output, PageQuery, Pick, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ApiView, ProjectView
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.core.streams import csv_streamed
from gpuaas.metering.models import Meter
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require

TAG = "billing"


class LineOutput(Output):
    project = serializers.CharField()
    flavor = serializers.CharField(allow_null=True)
    gpu_type = serializers.CharField(allow_null=True)
    resource = serializers.CharField()
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField()
    status = serializers.ChoiceField(choices=[status.value for status in LineStatus])
    unit_price = Money(allow_null=True, help_text="Per unit and hour.")
    unit_seconds = serializers.IntegerField()
    amount = Money(allow_null=True, help_text="null while nobody has set a price (quarantined).")


class StatementOutput(Output):
    month = Month()
    currency = serializers.CharField()
    as_of = serializers.DateTimeField()
    running = serializers.BooleanField(help_text="true while the month goes on.")
    total = Money(help_text="The sum of the lines' amounts, to the cent.")
    gpu_seconds = serializers.IntegerField()
    lines = LineOutput(many=True)


class CostsQuery(Input):
    month = Text(required=False, max_length=7, help_text="YYYY-MM; default the running month.")


class DayCostOutput(Output):
    day = serializers.DateField()
    project = serializers.CharField()
    amount = Money()
    gpu_seconds = serializers.IntegerField()


class WorkspaceCostOutput(Output):
    workspace_id = serializers.UUIDField(
        allow_null=True,
        help_text="Of the workspace or cluster; null for the idle GPUs of a pool that is reserved for the project.",
    )
    workspace = serializers.CharField(help_text="The name of the workspace or cluster.")
    kind = serializers.ChoiceField(choices=["workspace", "cluster", "idle"])
    project = serializers.CharField()
    amount = Money()
    gpu_seconds = serializers.IntegerField()


class CostsOutput(Output):
    month = Month()
    currency = serializers.CharField()
    total = Money()
    per_hour = Money(
        help_text="What all that is held at this moment costs per hour, and what is idle of reserved pools."
    )
    by_day = DayCostOutput(many=True)
    by_workspace = WorkspaceCostOutput(many=True)


class RateQuery(PageQuery):
    at = Instant(required=False, help_text="Only rates in force then.")


class RateInput(Input):
    flavor = Text(
        max_length=64,
        allow_null=True,
        required=False,
        default=None,
        help_text="null for vCPU, memory, storage.",
    )
    meter = Pick(choices=Meter.choices)
    price = Text(max_length=20, help_text="Per unit and hour: a decimal number as text, such as 2.40.")
    valid_from = Instant(required=False, help_text="Default: now. The price in force then ends there.")


class RateOutput(Output):
    id = serializers.UUIDField()
    card = serializers.CharField(source="card.slug")
    currency = serializers.CharField(source="card.currency")
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField()
    price = Money()
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)


class CsvRenderer(BaseRenderer):
    """Only for content negotiation: the view answers by itself, and errors stay JSON."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        del args, kwargs
        return JSONRenderer().render(data)


class Scoped(ProjectView):
    """Of a project or of an organization, whichever the address names."""

    def scope(self) -> dict[str, Any]:
        if "project" in self.kwargs:
            return {"project": self.project(Permission.BILLING_VIEW)}
        slug = self.kwargs["organization"]
        permission = Permission.BILLING_VIEW
        return {"organization": organization_get_for(actor=self.actor, slug=slug, permission=permission)}

    def month_statement(self, month: str) -> Statement:
        return statement(actor=self.actor, month=month_parse(month), **self.scope())

    def month_file(self, request: Request, month: str, slug: str) -> StreamingHttpResponse:
        rows = statement_csv(statement=self.month_statement(month))
        return csv_streamed(request._request, rows, name=f"statement-{slug}-{month}")

    def costs(self) -> Response:
        """All parts as of one moment, so that they add up."""
        scope, moment = self.scope(), clock.now()
        given = {"actor": self.actor, "now": moment, **scope}
        month = month_parse(self.params["month"]) if "month" in self.params else None
        total = statement(month=month, **given)
        said = {
            "month": total.month,
            "currency": total.currency,
            "total": total.total,
            "per_hour": burn_per_hour(**given),
            "by_day": cost_by_day(month=month, **given),
            "by_workspace": cost_by_workspace(month=month, **given),
        }
        return Response(CostsOutput(said).data)


class ProjectCostsView(Scoped):
    @operation("project_costs", "Costs of a project", tag=TAG, answer=CostsOutput, query=CostsQuery)
    def get(self, request: Request, project: str) -> Response:
        """A month by day and by workspace or cluster; every view adds up to the same total."""
        del request, project
        return self.costs()


class OrganizationCostsView(Scoped):
    @operation(
        "organization_costs", "Costs of an organization", tag=TAG, answer=CostsOutput, query=CostsQuery
    )
    def get(self, request: Request, organization: str) -> Response:
        """A month of all its projects, by day and by workspace; every view adds up to the same total."""
        del request, organization
        return self.costs()


class ProjectStatementView(Scoped):
    @operation("project_statement", "Statement of a project", tag=TAG, answer=StatementOutput)
    def get(self, request: Request, project: str, month: str) -> Response:
        """Quantity × price per line, each rounded once; the running month is counted up to now."""
        del request, project
        return Response(StatementOutput(self.month_statement(month)).data)


class OrganizationStatementView(Scoped):
    @operation("organization_statement", "Statement of an organization", tag=TAG, answer=StatementOutput)
    def get(self, request: Request, organization: str, month: str) -> Response:
        """Quantity × price per line, each rounded once; the running month is counted up to now."""
        del request, organization
        return Response(StatementOutput(self.month_statement(month)).data)


class ProjectStatementCsvView(Scoped):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("project_statement_csv", "Statement of a project as CSV", tag=TAG, csv=True)
    def get(self, request: Request, project: str, month: str) -> StreamingHttpResponse:
        """The lines of the statement; their amounts add up to its total."""
        return self.month_file(request, month, project)


class OrganizationStatementCsvView(Scoped):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("organization_statement_csv", "Statement of an organization as CSV", tag=TAG, csv=True)
    def get(self, request: Request, organization: str, month: str) -> StreamingHttpResponse:
        """The lines of the statement; their amounts add up to its total."""
        return self.month_file(request, month, organization)


class RatesView(ApiView):
    @operation("platform_rate_list", "Rates", tag="platform", answer=page_of(RateOutput), query=RateQuery)
    def get(self, request: Request) -> Response:
        """The default rate card, past and future prices included unless `at` is given."""
        del request
        return self.page(rates_for(actor=self.actor, at=self.params.get("at")), RateOutput, key="pk")

    @operation(
        "platform_rate_set", "Set a price", tag="platform", body=RateInput, answer=RateOutput, status=201
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """From `valid_from` on; the price in force then is ended, never edited."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(RateInput)
        slug = asked["flavor"]
        flavor = Flavor.objects.filter(slug=slug).first() if slug is not None else None
        if slug is not None and flavor is None:
            raise Invalid.field("flavor", f"there is no flavor {slug!r}")
        rate = rate_set(
            actor=self.actor,
            flavor=flavor,
            meter=asked["meter"],
            price=asked["price"],
            valid_from=asked.get("valid_from"),
        )
        return Response(RateOutput(rate).data, status=201)
