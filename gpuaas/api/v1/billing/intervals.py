"""The usage intervals behind the costs of a month, as pages and as a file."""

from datetime import date
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from billing.exports import interval_rows, rows_csv
from billing.months import month_of, month_parse
from billing.selectors.breakdown import CostFilters, cost_intervals
from gpuaas.api.fields import Input, PageQuery, Text
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.views import CsvRenderer, Scoped
from gpuaas.api.v1.metering.usage import UsageIntervalOutput
from gpuaas.core import clock
from gpuaas.core.streams import csv_streamed
from gpuaas.metering.models import UsageInterval

NAMES = ("project", "workspace", "gpu_type", "member")


class CostFilterQuery(Input):
    """Filters of cost rows; a row has to match all of them."""

    month = Text(required=False, max_length=7, help_text="YYYY-MM. Default: the current month.")
    project = Text(required=False, max_length=40, help_text="Only this project (slug).")
    workspace = serializers.UUIDField(required=False, help_text="Only this workspace or cluster.")
    gpu_type = Text(
        required=False,
        max_length=150,
        help_text="Only this GPU type; `none` selects vCPU, memory, storage and tokens.",
    )
    member = Text(
        required=False, max_length=150, help_text="Only workspaces and clusters that this person requested."
    )
    day = serializers.DateField(
        required=False, help_text="Only this day of the month, in the billing time zone."
    )


class IntervalsQuery(CostFilterQuery, PageQuery):
    pass


def cost_filters(asked: dict[str, Any]) -> CostFilters:
    return CostFilters(**{name: str(asked[name]) for name in NAMES if name in asked}, day=asked.get("day"))


class Intervals(Scoped):
    def month(self) -> date:
        return month_parse(self.params["month"]) if "month" in self.params else month_of(clock.now())

    def rows(self) -> QuerySet[UsageInterval]:
        filters = cost_filters(self.params)
        return cost_intervals(actor=self.actor, month=self.month(), filters=filters, **self.scope())

    def sent(self, request: Request, slug: str) -> StreamingHttpResponse:
        """Permissions are checked before the first byte."""
        rows = rows_csv(interval_rows(intervals=self.rows()))
        period = self.params.get("day") or format(self.month(), "%Y-%m")
        return csv_streamed(request._request, rows, name=f"intervals-{slug}-{period}")


class ProjectIntervalsView(Intervals):
    @operation(
        "project_costs_intervals",
        "List the intervals behind the costs of a project",
        rows=UsageIntervalOutput,
        query=IntervalsQuery,
    )
    def get(self, request: Request, project: str) -> Response:
        """Returns what was held in the month or on the day. Intervals keep their own start and end; they are not cut
        to the period. 409 for a month whose intervals are archived."""
        return self.page(self.rows(), UsageIntervalOutput, key="-pk")


class OrganizationIntervalsView(Intervals):
    @operation(
        "organization_costs_intervals",
        "List the intervals behind the costs of an organization",
        rows=UsageIntervalOutput,
        query=IntervalsQuery,
    )
    def get(self, request: Request, organization: str) -> Response:
        """Returns what was held in the month or on the day. Intervals keep their own start and end; they are not cut
        to the period. 409 for a month whose intervals are archived."""
        return self.page(self.rows(), UsageIntervalOutput, key="-pk")


class ProjectIntervalsCsvView(Intervals):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation(
        "project_costs_intervals_csv",
        "Export the intervals behind the costs of a project as CSV",
        query=CostFilterQuery,
        file="csv",
    )
    def get(self, request: Request, project: str) -> StreamingHttpResponse:
        """Returns all of them as one streamed file. Times are UTC. 409 for a month whose intervals are archived."""
        return self.sent(request, project)


class OrganizationIntervalsCsvView(Intervals):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation(
        "organization_costs_intervals_csv",
        "Export the intervals behind the costs of an organization as CSV",
        query=CostFilterQuery,
        file="csv",
    )
    def get(self, request: Request, organization: str) -> StreamingHttpResponse:
        """Returns all of them as one streamed file. Times are UTC. 409 for a month whose intervals are archived."""
        return self.sent(request, organization)
