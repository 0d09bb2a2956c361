"""Answers to POSTs that carried an Idempotency-Key, kept for a day."""

from django.db import models

from gpuaas.core.rows import Identified


class IdempotencyKey(Identified):
    """One key of one caller. The row is inserted in the transaction of the work itself, so a second request with the
    same key waits on the unique index until the first has committed or rolled back.

    status null: work with a secret answer is running, or died there. secret: the answer's body was never stored.
    """

    caller = models.CharField(max_length=50)
    key = models.CharField(max_length=128)
    fingerprint = models.CharField(max_length=64)
    secret = models.BooleanField(default=False)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["caller", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return f"{self.key} of {self.caller}"
