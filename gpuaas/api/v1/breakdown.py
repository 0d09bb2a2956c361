"""Costs of a month by project, workspace or cluster, GPU type, member or day, with filters."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.months import month_parse
from billing.selectors.breakdown import By, cost_breakdown
from gpuaas.api.fields import Money, Month, Output
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing import TAG, Scoped
from gpuaas.api.v1.cost_intervals import CostFilterQuery, cost_filters

CHOICES = [by.value for by in By]


class BreakdownQuery(CostFilterQuery):
    group_by = serializers.ChoiceField(
        choices=CHOICES,
        required=False,
        help_text="What a row is; default `workspace`, which is a workspace or a cluster.",
    )


class CostRowOutput(Output):
    key = serializers.CharField(help_text="What the filter of the same name takes.")
    name = serializers.CharField()
    is_cluster = serializers.BooleanField(help_text="Among workspaces: a row of a cluster.")
    project = serializers.CharField(allow_blank=True, help_text="Of a workspace or cluster; else blank.")
    amount = Money()
    gpu_seconds = serializers.IntegerField(help_text="GPU-seconds held.")
    quarantined = serializers.IntegerField(
        help_text="Cells without a price: the amount knows nothing of them."
    )


class BreakdownOutput(Output):
    group_by = serializers.ChoiceField(choices=CHOICES, source="by")
    month = Month()
    currency = serializers.CharField()
    total = Money(help_text="The sum of the rows, to the cent.")
    gpu_seconds = serializers.IntegerField()
    rows = CostRowOutput(many=True)


class Breakdowns(Scoped):
    def breakdown(self) -> Response:
        asked = self.params
        found = cost_breakdown(
            actor=self.actor,
            by=By(asked.get("group_by", By.WORKSPACE)),
            month=month_parse(asked["month"]) if "month" in asked else None,
            filters=cost_filters(asked),
            **self.scope(),
        )
        return Response(BreakdownOutput(found).data)


class ProjectBreakdownView(Breakdowns):
    @operation(
        "project_costs_breakdown",
        "Costs of a project by dimension",
        tag=TAG,
        answer=BreakdownOutput,
        query=BreakdownQuery,
    )
    def get(self, request: Request, project: str) -> Response:
        """Rows of one dimension, the dearest first; every dimension adds up to the same lines."""
        del request, project
        return self.breakdown()


class OrganizationBreakdownView(Breakdowns):
    @operation(
        "organization_costs_breakdown",
        "Costs of an organization by dimension",
        tag=TAG,
        answer=BreakdownOutput,
        query=BreakdownQuery,
    )
    def get(self, request: Request, organization: str) -> Response:
        """Rows of one dimension over all its projects, the dearest first; every dimension adds up to the same lines."""
        del request, organization
        return self.breakdown()
