"""Percentiles in the database."""

from typing import Any

from django.db.models import Aggregate, FloatField


class Percentile(Aggregate):
    """PostgreSQL's continuous percentile of a number: 0.5 is the median."""

    function = "PERCENTILE_CONT"
    name = "Percentile"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, expression: Any, *, fraction: float, **extra: Any) -> None:
        super().__init__(expression, fraction=fraction, **extra)
