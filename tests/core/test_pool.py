"""Pages and the API answer within seconds while PostgreSQL is away, and as always once it is back."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db.backends.signals import connection_created
from psycopg_pool import ConnectionPool, PoolTimeout

from deploy.embedded.redis import free_port
from gpuaas.core import pool as ours
from gpuaas.settings.base import DATABASE_POOL


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
