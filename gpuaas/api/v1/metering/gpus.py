"""What GPUs did: of a workspace or an environment in the last 24 hours, of a job while it ran, of a project in a month beside what
was held."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.months import month_of, month_parse, month_span
from gpuaas.api.fields import Input, Month, Output, Text
from gpuaas.api.schema import operation
from gpuaas.api.v1.environments.views import EnvironmentView
from gpuaas.api.v1.jobs.views import JobView
from gpuaas.api.v1.workspaces.views import WorkspaceView
from gpuaas.api.views import ProjectView
from gpuaas.core import clock
from gpuaas.gpustats.selectors import (
    Figures,
    environment_figures,
    job_figures,
    month_figures,
    workspace_figures,
)
from tenants.roles import Permission


class DeviceNowOutput(Output):
    at = serializers.DateTimeField()
    utilization = serializers.FloatField(allow_null=True, help_text="Percent.")
    memory_used_mib = serializers.IntegerField(allow_null=True)
    memory_free_mib = serializers.IntegerField(allow_null=True)
    power_watts = serializers.FloatField(
        allow_null=True, help_text="null for a part of a card: known only of the whole card."
    )
    temperature = serializers.IntegerField(allow_null=True, help_text="Degrees Celsius.")
    nvlink = serializers.IntegerField(allow_null=True, help_text="Bytes per second, both directions.")
    xid = serializers.IntegerField(allow_null=True, help_text="The driver's last error; 0: none.")


class DeviceDayOutput(Output):
    pod = serializers.CharField()
    node = serializers.CharField()
    device = serializers.CharField(help_text="The card's UUID.")
    index = serializers.CharField(allow_blank=True)
    instance = serializers.CharField(allow_blank=True, help_text="The MIG slice; blank: the whole card.")
    profile = serializers.CharField(allow_blank=True)
    seen_at = serializers.DateTimeField()
    mean = serializers.FloatField(allow_null=True, help_text="Mean utilization in percent, of what was seen.")
    memory_max_mib = serializers.IntegerField(allow_null=True)
    energy_wh = serializers.FloatField(allow_null=True)
    now = DeviceNowOutput(allow_null=True, help_text="null: not seen in the last 5 minutes.")


class SlotOutput(Output):
    starts_at = serializers.DateTimeField()
    utilization = serializers.FloatField(allow_null=True, help_text="Percent; null: nothing was seen.")
    memory = serializers.FloatField(allow_null=True, help_text="Percent.")


class EnvironmentGpuMetricsOutput(Output):
    why = serializers.CharField(allow_blank=True, help_text="Why there is nothing.")
    devices = DeviceDayOutput(many=True, help_text="At most 500, the last seen first.")
    slots = SlotOutput(many=True, help_text="The last 24 hours by quarters of an hour.")


class JobGpuMetricsOutput(EnvironmentGpuMetricsOutput):
    slots = SlotOutput(many=True, help_text="From its start to its end or until now, by equal steps.")
    step_seconds = serializers.SerializerMethodField(help_text="The length of a slot.")
    kept_since = serializers.DateTimeField(
        allow_null=True,
        help_text="It began before that, which is not kept any more; null: nothing is missing for that.",
    )

    def get_step_seconds(self, found: Figures) -> int:
        return int(found.step.total_seconds())


class WorkspaceGpuMetricsOutput(EnvironmentGpuMetricsOutput):
    advice = serializers.CharField(
        allow_blank=True, help_text="Only where at least 80% of the time was seen."
    )


class GpuMonthQuery(Input):
    month = Text(required=False, max_length=7, help_text="YYYY-MM. Default: the current month.")


class TypeMonthOutput(Output):
    gpu_type = serializers.CharField(allow_blank=True, help_text="Blank: not known.")
    held_hours = serializers.FloatField(help_text="GPU-hours held, used or not.")
    allocated_hours = serializers.FloatField(help_text="GPU-hours that pods or machines had.")
    seen_hours = serializers.FloatField(help_text="Of these, those whose use the site reported.")
    used_hours = serializers.FloatField(help_text="Each of these times its utilization.")
    used_share = serializers.FloatField(
        allow_null=True,
        help_text="Used by held, without what was borrowed; null: less than 80% of what pods had was seen.",
    )
    energy_kwh = serializers.FloatField(help_text="Of whole cards, as far as their counters were seen.")


class ProjectGpuMetricsOutput(Output):
    month = Month()
    gpu_types = TypeMonthOutput(many=True)


class WorkspaceGpuMetricsView(WorkspaceView):
    @operation(
        "workspace_gpu_metrics", "Get what the GPUs of a workspace do", answer=WorkspaceGpuMetricsOutput
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Returns utilization, memory, power, temperature, energy and the last XID by pod and device, now and in the
        last 24 hours. Machines have none."""
        return Response(
            WorkspaceGpuMetricsOutput(workspace_figures(actor=self.actor, workspace=self.held())).data
        )


class EnvironmentGpuMetricsView(EnvironmentView):
    @operation(
        "environment_gpu_metrics",
        "Get what the GPUs of an environment do",
        answer=EnvironmentGpuMetricsOutput,
    )
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Returns utilization, memory, power, temperature, energy and the last XID of its main pod and its workers, now and in the last
        24 hours."""
        found = environment_figures(actor=self.actor, environment=self.held())
        return Response(EnvironmentGpuMetricsOutput(found).data)


class JobGpuMetricsView(JobView):
    @operation("job_gpu_metrics", "Get what the GPUs of a job do", answer=JobGpuMetricsOutput)
    def get(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """Returns utilization, memory, power, temperature, energy and the last XID by pod and device, of all its attempts and tasks, as
        long as that is kept."""
        return Response(JobGpuMetricsOutput(job_figures(actor=self.actor, job=self.held())).data)


class ProjectGpuMetricsView(ProjectView):
    @operation(
        "project_gpu_metrics",
        "Get what the GPUs of a project did in a month",
        answer=ProjectGpuMetricsOutput,
        query=GpuMonthQuery,
    )
    def get(self, request: Request, project: str) -> Response:
        """Returns GPU-hours held, with pods and used, and the energy, by GPU type. 409 for an archived month."""
        found = self.project(Permission.WORKSPACE_VIEW)
        month = month_parse(self.params["month"]) if "month" in self.params else month_of(clock.now())
        span = month_span(month)
        rows = month_figures(actor=self.actor, project=found, starts_at=span.starts_at, ends_at=span.ends_at)
        return Response(ProjectGpuMetricsOutput({"month": month, "gpu_types": rows}).data)
