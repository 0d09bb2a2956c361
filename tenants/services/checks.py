"""Checks that several services share."""

from typing import Any

from django.db import models

from gpuaas.core.errors import Invalid


def choice_check(name: str, value: Any, choices: type[models.TextChoices]) -> str:
    if not isinstance(value, str) or value not in choices.values:
        known = ", ".join(each or "none" for each in choices.values)
        raise Invalid.field(name, f"use one of: {known}")
    return value
