"""Which archives were made. A row says that an archive was complete when it was written, not that it still exists."""

from django.db import models

from gpuaas.core.ids import uuid7


class Backup(models.Model):
    """taken_at: the instant whose state the archive holds; digest: SHA-256 of its manifest."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100)
    taken_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField()
    size_bytes = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64)
    with_keys = models.BooleanField()

    class Meta:
        ordering = ["-taken_at"]

    def __str__(self) -> str:
        return self.name
