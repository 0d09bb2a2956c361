"""What waits for a worker, and what a worker has. The rows that are claimed are the queue: the broker only hints."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import models
from django.db.models import CharField, Count, Min, Q, QuerySet, Value

from gpuaas.core.claims import Claimable


@dataclass(frozen=True)
class Work:
    """Rows of one kind. `oldest`: since when the first of those that are due has been due; None if none is."""

    kind: str
    due: int = 0
    oldest: datetime | None = None
    claimed: int = 0


def work_list(now: datetime) -> list[Work]:
    """Every kind of row that workers claim, in one statement."""
    kinds = {str(model._meta.verbose_name): model for model in claimables()}
    first, *rest = (_counted(name, model, now) for name, model in kinds.items())
    found = {
        name: Work(name, due, oldest, claimed) for name, due, oldest, claimed in first.union(*rest, all=True)
    }
    return [found.get(name, Work(name)) for name in kinds]


def _counted(name: str, model: type[models.Model], now: datetime) -> QuerySet[Any, Any]:
    due = Q(Q(claim_until__isnull=True) | Q(claim_until__lte=now), due_at__lte=now)
    claimed = Q(claim_until__gt=now)
    rows = model._default_manager.filter(due | claimed).order_by()
    found: QuerySet[Any, Any] = (
        rows.annotate(kind_of_row=Value(name, CharField()))
        .values_list("kind_of_row")
        .annotate(
            rows_due=Count("pk", filter=due),
            oldest_due=Min("due_at", filter=due),
            rows_claimed=Count("pk", filter=claimed),
        )
    )
    return found


def claimables() -> list[type[models.Model]]:
    """Every kind of row that workers claim, of the apps that are installed."""
    return [model for model in apps.get_models() if issubclass(model, Claimable)]
