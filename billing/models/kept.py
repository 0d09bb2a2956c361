"""Sums of past usage: unit-seconds without prices, so that no change of a price can invalidate them."""

from django.db import models
from django.db.models import F, Q

from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter
from tenants.models import Project


class KeptMonth(models.Model):
    """A project's month in the billing time zone, of which the usage in [starts_at, until) is added up; or, where `month` is a
    later day than the first, that day while it runs, without holders.

    until = starts_at: nothing is. The database sets it so in the transaction that changes an interval of that time
    (migration `usage_changes_void`); `billing.services.keeping` adds up again. until is midnight in the zone, or on the
    day that runs the end of a part of it.
    """

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    month = models.DateField()
    zone = models.CharField(max_length=64)
    starts_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "month"], name="kept_month_once"),
            models.CheckConstraint(condition=Q(until__gte=F("starts_at")), name="kept_month_is_past"),
        ]

    def __str__(self) -> str:
        return f"{self.project_id} in {self.month:%Y-%m}"


class Kept(models.Model):
    """Unit-seconds of one flavor and meter; resource_name only if there is no flavor."""

    id = models.BigAutoField(primary_key=True)
    flavor = models.ForeignKey(
        Flavor, on_delete=models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False
    )
    meter = models.CharField(max_length=32, choices=Meter)
    resource_name = models.CharField(max_length=150, blank=True)
    surplus = models.BooleanField()
    unit_seconds = models.BigIntegerField()

    class Meta:
        abstract = True


class KeptDay(Kept):
    """Of a whole project, on the day that starts then."""

    kept = models.ForeignKey(KeptMonth, on_delete=models.CASCADE, related_name="days", db_index=False)
    starts_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["kept", "starts_at"], name="kept_day_idx")]

    def __str__(self) -> str:
        return f"{self.unit_seconds} of {self.meter} on {self.starts_at:%Y-%m-%d}"


class KeptHolder(Kept):
    """Of one workspace or cluster, over all added-up usage of the month."""

    kept = models.ForeignKey(KeptMonth, on_delete=models.CASCADE, related_name="holders")
    holder = models.UUIDField()

    def __str__(self) -> str:
        return f"{self.unit_seconds} of {self.meter} by {self.holder}"
