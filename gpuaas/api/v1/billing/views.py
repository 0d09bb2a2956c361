"""Statements and costs of projects and organizations, and the rate card for operators."""

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
    cost_by_holder_page,
    month_costs,
    rates_for,
    statement,
)
from billing.services import rate_set
from gpuaas.api.fields import (
    Input,
    Instant,
    Money,
    Month,
    Output,
    PageQuery,
    Text,
    TextOrEmpty,
)
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.rate_card_shapes import PER_HOUR, PriceInput
from gpuaas.api.v1.billing.rate_cards import flavor_named
from gpuaas.api.views import PlatformView, ProjectView
from gpuaas.core import clock
from gpuaas.core.streams import csv_streamed
from gpuaas.metering.models import Meter
from tenants.roles import Permission
from tenants.selectors import organization_get_for


class LineOutput(Output):
    project = serializers.CharField()
    flavor = serializers.CharField(allow_null=True)
    gpu_type = serializers.CharField(allow_null=True)
    resource = serializers.CharField()
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField()
    status = serializers.ChoiceField(choices=[status.value for status in LineStatus])
    unit_price = Money(allow_null=True, help_text=PER_HOUR)
    unit_seconds = serializers.IntegerField(help_text="Of tokens, 3600 for each million.")
    amount = Money(allow_null=True, help_text="null: no price is set (quarantined).")


class StatementOutput(Output):
    month = Month()
    currency = serializers.CharField()
    as_of = serializers.DateTimeField()
    running = serializers.BooleanField(help_text="true: the month has not ended.")
    total = Money(help_text="The sum of the lines' amounts, to the cent.")
    gpu_seconds = serializers.IntegerField()
    lines = LineOutput(many=True)


DEAREST = 100


class CostsQuery(Input):
    month = Text(required=False, max_length=7, help_text="YYYY-MM. Default: the current month.")


class DayCostOutput(Output):
    day = serializers.DateField()
    project = serializers.CharField()
    amount = Money()
    gpu_seconds = serializers.IntegerField()


class HolderCostOutput(Output):
    holder_id = serializers.UUIDField(
        allow_null=True,
        help_text=(
            "Id of the workspace or cluster; null for idle GPUs of a pool that is reserved for the project."
        ),
    )
    holder = serializers.CharField(help_text="Name of the workspace or cluster.")
    kind = serializers.ChoiceField(choices=["workspace", "cluster", "idle"])
    project = serializers.CharField()
    amount = Money()
    gpu_seconds = serializers.IntegerField()


class OthersOutput(Output):
    count = serializers.IntegerField()
    amount = Money()
    gpu_seconds = serializers.IntegerField()


class CostsOutput(Output):
    month = Month()
    currency = serializers.CharField()
    total = Money()
    per_hour = Money(
        help_text=(
            "What everything that runs now costs: workspaces, clusters, and idle GPUs of reserved pools; "
            "exact."
        )
    )
    by_day = DayCostOutput(many=True)
    by_holder = HolderCostOutput(
        many=True,
        help_text="The 100 most expensive ones; `costs/breakdown` lists all, in pages.",
    )
    others = OthersOutput(help_text="Cost of all workspaces and clusters that are not listed.")


class RateQuery(PageQuery):
    at = Instant(required=False, help_text="Only prices in force at this time.")


class RateInput(PriceInput):
    valid_from = Instant(
        required=False,
        help_text="Default: now. The present price ends at this time. Refused for a time that was rated already, in a closed "
        "month also without a price where that was free or part of another price, and in a final month.",
    )
    currency = TextOrEmpty(
        max_length=3, help_text="Of the standard rate card. Default: the portal's currency."
    )


class RateOutput(Output):
    id = serializers.UUIDField()
    card = serializers.CharField(source="card.slug")
    currency = serializers.CharField(source="card.currency")
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    resource = serializers.CharField(
        source="resource_name",
        allow_blank=True,
        help_text="For GPUs that are not sold, and storage classes; otherwise empty.",
    )
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField()
    price = Money()
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)


class CsvRenderer(BaseRenderer):
    """Only for content negotiation: the view writes its answer itself, and errors stay JSON."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return JSONRenderer().render(data)


class Scoped(ProjectView):
    """The project or the organization that the address names."""

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
        """All parts are as of one moment, so that they add up."""
        scope, moment = self.scope(), clock.now()
        given = {"actor": self.actor, "now": moment, **scope}
        month = month_parse(self.params["month"]) if "month" in self.params else None
        whole = month_costs(month=month, **given)
        total = whole.statement
        rows, count = cost_by_holder_page(month=month, **given, most=DEAREST)
        data = {
            "month": total.month,
            "currency": total.currency,
            "total": total.total,
            "per_hour": burn_per_hour(**given),
            "by_day": whole.days,
            "by_holder": rows,
            "others": {
                "count": count - len(rows),
                "amount": total.total - sum(row.amount for row in rows),
                "gpu_seconds": total.gpu_seconds - sum(row.gpu_seconds for row in rows),
            },
        }
        return Response(CostsOutput(data).data)


class ProjectCostsView(Scoped):
    @operation("project_costs", "Get the costs of a project", answer=CostsOutput, query=CostsQuery)
    def get(self, request: Request, project: str) -> Response:
        """Returns a month by day and by workspace or cluster. All views add up to the same total."""
        return self.costs()


class OrganizationCostsView(Scoped):
    @operation("organization_costs", "Get the costs of an organization", answer=CostsOutput, query=CostsQuery)
    def get(self, request: Request, organization: str) -> Response:
        """Returns a month of all projects by day and by workspace or cluster. All views add up to the same total."""
        return self.costs()


class ProjectStatementView(Scoped):
    @operation("project_statement", "Get the statement of a project", answer=StatementOutput)
    def get(self, request: Request, project: str, month: str) -> Response:
        """Each line is quantity × price, rounded once. The current month is counted up to now."""
        return Response(StatementOutput(self.month_statement(month)).data)


class OrganizationStatementView(Scoped):
    @operation("organization_statement", "Get the statement of an organization", answer=StatementOutput)
    def get(self, request: Request, organization: str, month: str) -> Response:
        """Each line is quantity × price, rounded once. The current month is counted up to now."""
        return Response(StatementOutput(self.month_statement(month)).data)


class ProjectStatementCsvView(Scoped):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("project_statement_csv", "Get the statement of a project as CSV", file="csv")
    def get(self, request: Request, project: str, month: str) -> StreamingHttpResponse:
        """Returns the lines of the statement; their amounts add up to its total."""
        return self.month_file(request, month, project)


class OrganizationStatementCsvView(Scoped):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("organization_statement_csv", "Get the statement of an organization as CSV", file="csv")
    def get(self, request: Request, organization: str, month: str) -> StreamingHttpResponse:
        """Returns the lines of the statement; their amounts add up to its total."""
        return self.month_file(request, month, organization)


class RatesView(PlatformView):
    @operation("platform_rate_list", "List standard prices", rows=RateOutput, query=RateQuery)
    def get(self, request: Request) -> Response:
        """Returns the standard rate card. Without `at`, past and future prices are included."""
        return self.page(rates_for(actor=self.actor, at=self.params.get("at")), RateOutput, key="pk")

    @operation("platform_rate_set", "Set a price", body=RateInput, created=RateOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """The price is valid from `valid_from` on. The present price ends then; it is not edited."""
        asked = self.input(RateInput)
        rate = rate_set(
            actor=self.actor,
            flavor=flavor_named(asked["flavor"]),
            meter=asked["meter"],
            price=asked["price"],
            valid_from=asked.get("valid_from"),
            resource=asked["resource"],
            currency=asked["currency"],
        )
        return Response(RateOutput(rate).data, status=201)
