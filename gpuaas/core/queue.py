"""Poking background tasks by name, after commit, with JSON ids only.

A poke is a hint that makes things fast; the periodic sweeps find the same work in the database, so a broker that is
down delays and never loses.
"""

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction

log = structlog.get_logger(__name__)


def poke(task: str, *ids: str) -> None:
    """Send `task` with `ids` once the current transaction is committed (at once where there is none)."""
    if not getattr(settings, "QUEUE_ENABLED", True):
        return
    transaction.on_commit(lambda: _send(task, ids))


def _send(task: str, ids: tuple[str, ...]) -> None:
    try:
        current_app.send_task(task, args=list(ids), ignore_result=True)
    except Exception as error:  # noqa: BLE001  whatever the broker's client raises, the sweep will find the row
        log.warning("poke_lost", task=task, error=type(error).__name__)
