"""What GPUs did: samples for some days, and sums by the hour for long."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import GpuType, Site
from gpuaas.workspaces.models import Workspace
from tenants.models import Project


class GpuSample(models.Model):
    """A device at one moment, and the pod that had it; workspace and project are null where it is none of ours.

    The figures are those of DeviceReading. seconds: since the sample before it of the same device and pod, for which it
    stands; 0 if there was none shortly before. spent_mj: the energy of these seconds; null = not known.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="+", db_index=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    gpu_type = models.ForeignKey(
        GpuType, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    node = models.CharField(max_length=253)
    device = models.CharField(max_length=64)
    index = models.CharField(max_length=16, blank=True)
    instance = models.CharField(max_length=16, blank=True)
    profile = models.CharField(max_length=32, blank=True)
    namespace = models.CharField(max_length=253, blank=True)
    pod = models.CharField(max_length=253, blank=True)
    container = models.CharField(max_length=253, blank=True)
    at = models.DateTimeField()
    seconds = models.PositiveIntegerField(default=0)
    utilization = models.FloatField(null=True)
    memory_used_mib = models.PositiveIntegerField(null=True)
    memory_free_mib = models.PositiveIntegerField(null=True)
    power_watts = models.FloatField(null=True)
    temperature = models.SmallIntegerField(null=True)
    energy_mj = models.PositiveBigIntegerField(null=True)
    spent_mj = models.PositiveBigIntegerField(null=True)
    nvlink = models.PositiveBigIntegerField(null=True)
    xid = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["site", "device", "instance", "namespace", "pod", "at"], name="gpu_sample_once"
            )
        ]
        indexes = [
            models.Index(
                fields=["workspace", "at"],
                condition=Q(workspace__isnull=False),
                name="gpu_sample_workspace_idx",
            ),
            models.Index(
                fields=["project", "at"], condition=Q(project__isnull=False), name="gpu_sample_project_idx"
            ),
            models.Index(fields=["site", "node", "at"], name="gpu_sample_node_idx"),
            BrinIndex(fields=["at"], name="gpu_sample_at_idx", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"{self.device} at {self.at:%Y-%m-%d %H:%M:%S}"


class GpuHour(models.Model):
    """Sums of a workspace's samples of one GPU type that ended in this hour.

    seconds: GPU-seconds that were seen; busy_seconds: each times its utilization; measured_seconds: those whose utilization
    is known. memory_mib_seconds: memory used × seconds. gpu_type null: the site does not say.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", db_index=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    gpu_type = models.ForeignKey(
        GpuType, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    hour = models.DateTimeField()
    seconds = models.PositiveBigIntegerField()
    measured_seconds = models.PositiveBigIntegerField()
    busy_seconds = models.FloatField()
    utilization_max = models.FloatField(null=True)
    memory_mib_seconds = models.PositiveBigIntegerField()
    memory_max_mib = models.PositiveIntegerField(null=True)
    energy_mj = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "gpu_type", "hour"], nulls_distinct=False, name="gpu_hour_once"
            )
        ]
        indexes = [models.Index(fields=["project", "hour"], name="gpu_hour_project_idx")]

    def __str__(self) -> str:
        return f"{self.workspace_id} in the hour of {self.hour:%Y-%m-%d %H}"


class GpuMonth(models.Model):
    """GPU-seconds of a project and GPU type that were held and that pods had in a final month, whose intervals may be in files.

    gpu_type null: a type that nobody sells.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    gpu_type = models.ForeignKey(
        GpuType, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    starts_at = models.DateTimeField()
    held_seconds = models.PositiveBigIntegerField()
    allocated_seconds = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "starts_at", "gpu_type"], nulls_distinct=False, name="gpu_month_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.project_id} in the month from {self.starts_at:%Y-%m-%d}"
