"""What each person's jobs used on a Slurm cluster, and their share of its cost."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.months import month_parse
from billing.people import cluster_use_costs
from gpuaas.api.fields import Input, Money, Month, Output, Text
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.views import ClusterView


class ClusterUsageQuery(Input):
    month = Text(required=False, max_length=7, help_text="YYYY-MM. Default: the current month.")


class PersonUseOutput(Output):
    username = serializers.CharField()
    login = serializers.CharField(help_text="Name of the account on the cluster's machines.")
    gpu_seconds = serializers.IntegerField(help_text="Of the person's jobs, by Slurm's accounting.")
    amount = Money(allow_null=True, help_text="Share of the cluster's cost; null without `billing:view`.")


class ClusterUsageOutput(Output):
    month = Month()
    currency = serializers.CharField()
    total = Money(allow_null=True, help_text="What the cluster cost: the sum of all shares and `unused`.")
    unused = Money(allow_null=True, help_text="What nobody's jobs used.")
    people = PersonUseOutput(many=True)


class ClusterUsageView(ClusterView):
    @operation(
        "cluster_usage",
        "Get the usage of a cluster by person",
        answer=ClusterUsageOutput,
        query=ClusterUsageQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Returns the GPU-seconds of each person's jobs in a month and their share of the cluster's cost, to the cent.
        Days are those of the billing time zone. `people` is empty on clusters where people have no accounts of their
        own."""
        found, asked = self.held(), self.params
        month = month_parse(asked["month"]) if "month" in asked else None
        costs = cluster_use_costs(actor=self.actor, cluster=found, month=month)
        return Response(ClusterUsageOutput(costs).data)
