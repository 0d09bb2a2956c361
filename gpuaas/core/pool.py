"""While PostgreSQL is away, a request that waits for a connection is refused at once: a page can then say so, and no threads pile up that
wait for what does not come. The pool itself tries on in the background."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # settings import this
    from django.db.backends.base.base import BaseDatabaseWrapper
    from psycopg_pool import ConnectionPool

USUAL_SECONDS = 5.0  # for a connection that others use
AWAY_SECONDS = 0.5  # once the pool has given up for now
GIVES_UP_SECONDS = 5.0  # then the next one who asks makes it try anew, where its pauses would grow to minutes


def away(pool: "ConnectionPool[Any]") -> None:
    """For `reconnect_failed` of the pool."""
    pool.timeout = AWAY_SECONDS


def back(*, connection: "BaseDatabaseWrapper", **_: object) -> None:
    """For Django's signal `connection_created`."""
    pool: ConnectionPool[Any] | None = getattr(connection, "pool", None)
    if pool is not None:
        pool.timeout = USUAL_SECONDS
