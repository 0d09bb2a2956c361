"""Starts background tasks by name, after commit, with JSON ids only.

A poke is only a hint; the periodic sweeps find the same work in the database, so work is delayed but not lost while
the broker is down.
"""

from collections.abc import Sequence
from typing import Any

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction

from gpuaas.core import traces

log = structlog.get_logger(__name__)
REQUEST_ID = "request_id"  # of the web request that a task goes back to, for its logs


def poke(task: str, *ids: str, **options: Any) -> None:
    """Sends `task` with `ids` after the current transaction is committed (at once if there is none). options: as of `send`."""
    if not getattr(settings, "QUEUE_ENABLED", True):
        return
    transaction.on_commit(lambda: send(task, ids, **options))


def send(task: str, ids: Sequence[str], **options: Any) -> None:
    """Sends it now. options: Celery's, such as `queue`."""
    headers = {REQUEST_ID: structlog.contextvars.get_contextvars().get(REQUEST_ID, ""), **traces.carried()}
    try:
        current_app.send_task(task, args=list(ids), headers=headers, ignore_result=True, **options)
    except Exception as error:  # noqa: BLE001  whatever the broker's client raises, the sweep will find the row
        log.warning("poke_lost", task=task, error=type(error).__name__)
