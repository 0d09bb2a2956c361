"""Checks that several services share."""

from collections.abc import Sequence
from datetime import datetime

from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.providers.base import Check


def conditions_of(checks: Sequence[Check], before: Stored, now: datetime) -> Stored:
    """Exactly those checks; `since` continues from the previous results."""
    stored: Stored = {check.type: before[check.type] for check in checks if check.type in before}
    for check in checks:
        stored = condition_set(
            stored,
            type=check.type,
            status=Status(check.status),
            reason=check.reason,
            message=check.message,
            remedy=check.remedy,
            now=now,
        )
    return stored
