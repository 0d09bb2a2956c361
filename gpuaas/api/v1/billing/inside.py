"""What an environment or a job has cost so far."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.selectors.inside import inside_cost
from gpuaas.api.fields import Money, Output
from gpuaas.api.schema import operation
from gpuaas.api.v1.environments.views import EnvironmentView
from gpuaas.api.v1.jobs.views import JobView
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from tenants.roles import Permission


class InsideCostOutput(Output):
    currency = serializers.CharField()
    charged = Money(
        help_text="Charged by itself, to the millionth: GPUs that it borrows or that are charged by use, and tokens."
    )
    included = Money(
        help_text="Its share of what its workspace is charged for GPUs that it holds, and for vCPU and memory where these have prices, "
        "for the seconds that its pods had GPUs. It is in the cost of the workspace and not charged again."
    )
    gpu_seconds = serializers.IntegerField(help_text="GPU-seconds that its pods had.")
    complete = serializers.BooleanField(help_text="False where a part of it has no price.")
    counted_since = serializers.DateTimeField(
        allow_null=True, help_text="What was before is archived and not counted; null: nothing is."
    )
    as_of = serializers.DateTimeField()


class EnvironmentCostView(EnvironmentView):
    @operation("environment_cost", "Get what an environment has cost so far", answer=InsideCostOutput)
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """With its workers. What is still counted is counted until now."""
        return _cost(self, self.held())


class JobCostView(JobView):
    @operation("job_cost", "Get what a job has cost so far", answer=InsideCostOutput)
    def get(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """All its attempts and tasks together. What is still counted is counted until now."""
        return _cost(self, self.held())


def _cost(view: EnvironmentView | JobView, row: Environment | Job) -> Response:
    view.project(Permission.BILLING_VIEW)
    return Response(InsideCostOutput(inside_cost(actor=view.actor, row=row)).data)
