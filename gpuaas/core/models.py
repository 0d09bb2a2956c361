"""The portal's own long-running processes, so that operators and the health addresses see which of them are alive."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models

from gpuaas.core.ids import uuid7

SEEN = timedelta(seconds=15)  # ten beats: a process that is only slow is still alive


class ProcessKind(models.TextChoices):
    WEB = "web", "Web"
    WORKER = "worker", "Worker"
    SCHEDULER = "scheduler", "Scheduler"
    METER = "meter", "Meter"
    DOOR = "door", "Door"

    @classmethod
    def wanted(cls) -> list["ProcessKind"]:
        """Of which one has to run; a door only where it has a domain."""
        return [kind for kind in cls if kind is not cls.DOOR or settings.DOOR_DOMAIN]


class Process(models.Model):
    """One running process; it writes `seen_at` every few seconds (core/pulse.py), and removes the row when it ends in
    order. A row that stays without being seen is a process that was killed or cut off."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=16, choices=ProcessKind)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
    # by how many seconds the host's clock is at least ahead of the database's; negative: behind
    skew_seconds = models.FloatField(null=True)
    claim_since = models.DateTimeField(null=True)  # since when it holds its oldest claim

    class Meta:
        ordering = ["kind", "host", "pid"]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"

    def is_alive(self, now: datetime) -> bool:
        return self.seen_at > now - SEEN
