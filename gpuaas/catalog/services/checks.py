"""Checks that several services share."""

from collections.abc import Sequence
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import models

from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import Check


def row_check(row: models.Model) -> None:
    """The model's own rules, uniqueness included, as our Invalid with a sentence for each field."""
    try:
        row.full_clean()
    except ValidationError as error:
        fields: dict[str, list[str]] = {
            "" if name == "__all__" else name: texts for name, texts in error.message_dict.items()
        }
        raise Invalid(next(text for texts in fields.values() for text in texts), fields=fields) from error


def conditions_of(checks: Sequence[Check], before: Stored, now: datetime) -> Stored:
    """Those checks and no others; `since` goes on from before."""
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
