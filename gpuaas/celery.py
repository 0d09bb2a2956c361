"""The Celery application. Tasks live in each room's `tasks.py` and are called by name (core/queue.py).

Every process that runs tasks has a heartbeat of its own (core/pulse.py), so that only its own death ends its claims.
"""

import os
import sys
from contextlib import ExitStack
from typing import Any

import structlog
from celery import Celery
from celery.concurrency.prefork import TaskPool
from celery.signals import (
    beat_init,
    task_postrun,
    task_prerun,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.production")

app = Celery("gpuaas")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery would close the pool of connections before and after each task, also under the heartbeat and the threads that ask sites
app.conf.CELERY_DB_REUSE_MAX = sys.maxsize
app.autodiscover_tasks()


@worker_process_init.connect
def _child_begins(**_: Any) -> None:
    _begin("worker")


@worker_ready.connect
def _worker_begins(sender: Any, **_: Any) -> None:
    """The heartbeat is of other pools than prefork, whose tasks run in this very process."""
    _answer_prometheus()
    if not isinstance(sender.pool, TaskPool):
        _begin("worker")


@beat_init.connect
def _scheduler_begins(**_: Any) -> None:
    _answer_prometheus()
    _begin("scheduler")


@worker_process_shutdown.connect
@worker_shutdown.connect
def _end(**_: Any) -> None:
    from gpuaas.core import pulse

    pulse.end()


@task_prerun.connect
def _task_begins(task_id: str, task: Any, **_: Any) -> None:
    """What is logged until its end has the task's id and name, and the id of the web request that it goes back to."""
    from gpuaas.core import traces
    from gpuaas.core.queue import REQUEST_ID

    asked = task.request.get(REQUEST_ID) or ""
    structlog.contextvars.bind_contextvars(
        task_id=task_id, task=task.name, **({REQUEST_ID: asked} if asked else {})
    )
    above = {traces.PARENT: task.request.get(traces.PARENT) or ""}
    task.request.traced = stack = ExitStack()
    span_data = stack.enter_context(traces.span(task.name, "CONSUMER", came_with=above))
    span_data.about = {"gpuaas.task_id": task_id, f"gpuaas.{REQUEST_ID}": asked}
    task.request.span_data = span_data


@task_postrun.connect
def _task_ends(task: Any, retval: Any, **_: Any) -> None:
    """Celery has caught what the task raised: it is the value here."""
    from django.db import close_old_connections

    # an eager one is a part of whatever called it, which goes on with the connection
    if not task.request.is_eager:
        close_old_connections()
    if isinstance(retval, Exception):
        task.request.span_data.error = type(retval).__name__
    task.request.traced.close()
    structlog.contextvars.clear_contextvars()


def _begin(kind: str) -> None:
    """Imports late: this module is loaded before Django's apps."""
    from gpuaas.core import pulse
    from gpuaas.core.models import ProcessKind

    pulse.begin(ProcessKind(kind))


def _answer_prometheus() -> None:
    from gpuaas.core import scrape

    scrape.serve()
