"""Pages and the API answer within seconds while PostgreSQL is away, and as always once it is back."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from celery.app.trace import build_tracer
from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]  # its stubs lack it
from django.conf import settings
from django.db import connection
from django.db.backends.signals import connection_created
from psycopg_pool import ConnectionPool, PoolTimeout

from deploy.embedded.redis import free_port
from gpuaas.celery import app
from gpuaas.core import pool as ours
from gpuaas.settings.base import DATABASE_POOL
from tenants.models import User


def test_nobody_waits_for_a_database_that_is_away() -> None:
    gave_up = threading.Event()

    def away(pool: ConnectionPool[Any]) -> None:
        DATABASE_POOL["reconnect_failed"](pool)
        gave_up.set()

    given = {**DATABASE_POOL, "reconnect_timeout": 0.0, "reconnect_failed": away}
    nowhere = f"host=127.0.0.1 port={free_port()} user=nobody dbname=nothing"
    pool: ConnectionPool[Any] = ConnectionPool(nowhere, open=False, **given)
    assert pool.timeout == ours.USUAL_SECONDS
    with pool:
        assert gave_up.wait(60)
        assert pool.timeout == ours.AWAY_SECONDS
        with pytest.raises(PoolTimeout):
            pool.getconn()
        connection_created.send(sender=object, connection=SimpleNamespace(pool=pool, vendor="", alias=""))
        assert pool.timeout == ours.USUAL_SECONDS


def test_the_portal_s_pool_gives_up_and_tries_anew() -> None:
    assert settings.DATABASE_POOL["reconnect_failed"] is ours.away
    assert settings.DATABASE_POOL["reconnect_timeout"] == ours.GIVES_UP_SECONDS


@pytest.mark.parametrize("setting", [None, app.conf.CELERY_DB_REUSE_MAX], ids=["Celery's own way", "ours"])
def test_tasks_leave_the_pool_to_the_other_threads_of_their_worker(
    monkeypatch: pytest.MonkeyPatch, setting: int | None
) -> None:
    """The heartbeat is one of them. Once Celery's own way no longer closes it either, the setting has no purpose."""
    closed = []
    monkeypatch.setitem(settings.DATABASES["default"]["OPTIONS"], "pool", DATABASE_POOL)
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(connection, "close_pool", lambda: closed.append("pool"))
    monkeypatch.setitem(app.conf, "CELERY_DB_REUSE_MAX", setting)
    fixup = DjangoWorkerFixup(app)
    monkeypatch.setattr(
        fixup, "_maybe_close_db_fd", lambda _: None
    )  # this process is no fork, and needs its connection
    fixup.worker = SimpleNamespace(pool_cls="celery.concurrency.prefork:TaskPool")
    task = SimpleNamespace(request=SimpleNamespace(is_eager=False))
    for _ in range(3):
        fixup.on_task_prerun(task)
        fixup.on_task_postrun(task)
    by_tasks = len(closed)
    assert by_tasks == (0 if setting else 6)
    fixup.on_worker_process_init()
    assert len(closed) == by_tasks + 1, "a process that was forked must not use its parent's"


def test_the_end_of_a_task_gives_its_connection_back(transactional_db: None) -> None:
    @app.task
    def asks() -> bool:
        User.objects.exists()
        return connection.connection is not None

    assert asks.apply().get() is True
    assert connection.connection is not None, "an eager task is a part of what calls it"
    done = build_tracer(asks.name, asks, app=app)("1", [], {}, {})
    assert (done.retval, connection.connection) == (True, None)
