"""Costs of a month by project, workspace or cluster, GPU type, member or day, with filters."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.months import month_parse
from billing.selectors.breakdown import By, cost_breakdown
from gpuaas.api.fields import Money, Month, Output
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.intervals import CostFilterQuery, cost_filters
from gpuaas.api.v1.billing.views import Scoped

ROWS, ROWS_MAX = 100, 1_000
CHOICES = [by.value for by in By]


class BreakdownQuery(CostFilterQuery):
    group_by = serializers.ChoiceField(
        choices=CHOICES,
        required=False,
        help_text="What one row stands for. Default `workspace`, which covers workspaces and clusters.",
    )

    limit = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=ROWS_MAX,
        help_text="Number of rows. Default 100, at most 1000.",
    )
    offset = serializers.IntegerField(
        required=False, min_value=0, max_value=10**9, help_text="Number of rows to skip."
    )


class CostRowOutput(Output):
    key = serializers.CharField(help_text="The value for the filter of the same name.")
    name = serializers.CharField()
    is_cluster = serializers.BooleanField(help_text="In the dimension `workspace`: the row is a cluster.")
    project = serializers.CharField(
        allow_blank=True, help_text="Only of a workspace or cluster; otherwise blank."
    )
    amount = Money()
    gpu_seconds = serializers.IntegerField(
        help_text="GPU-seconds held; a slice of a card counts as its part of one."
    )
    quarantined = serializers.IntegerField(
        help_text="Number of quantities without a price; `amount` does not contain them."
    )


class BreakdownOutput(Output):
    group_by = serializers.ChoiceField(choices=CHOICES, source="by")
    month = Month()
    currency = serializers.CharField()
    total = Money(help_text="The sum of all rows, including those not listed, to the cent.")
    gpu_seconds = serializers.IntegerField()
    count = serializers.IntegerField(help_text="Number of all rows; `limit` and `offset` select among them.")
    rows = CostRowOutput(many=True)


class Breakdowns(Scoped):
    def breakdown(self) -> Response:
        asked = self.params
        costs = cost_breakdown(
            actor=self.actor,
            by=By(asked.get("group_by", By.WORKSPACE)),
            month=month_parse(asked["month"]) if "month" in asked else None,
            filters=cost_filters(asked),
            most=asked.get("limit", ROWS),
            skipped=asked.get("offset", 0),
            **self.scope(),
        )
        return Response(BreakdownOutput(costs).data)


class ProjectBreakdownView(Breakdowns):
    @operation(
        "project_costs_breakdown",
        "Break down the costs of a project",
        answer=BreakdownOutput,
        query=BreakdownQuery,
    )
    def get(self, request: Request, project: str) -> Response:
        """Returns the rows of one dimension, the most expensive first. All dimensions add up to the same total."""
        return self.breakdown()


class OrganizationBreakdownView(Breakdowns):
    @operation(
        "organization_costs_breakdown",
        "Break down the costs of an organization",
        answer=BreakdownOutput,
        query=BreakdownQuery,
    )
    def get(self, request: Request, organization: str) -> Response:
        """Returns the rows of one dimension over all projects, the most expensive first. All dimensions add up to the
        same total."""
        return self.breakdown()
