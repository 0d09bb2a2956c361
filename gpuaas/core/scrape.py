"""Where Prometheus asks the processes that answer no web requests: worker, scheduler and meter.

Each counts for itself, in memory. A worker's tasks run in children: they keep their counts in files of one folder, and the
parent answers with the sum. That is the library's multiprocess mode, which is chosen before the library is imported.
"""

import atexit
import hmac
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from django.conf import settings

from gpuaas.core import env

log = structlog.get_logger(__name__)

BIND = "GPUAAS_METRICS_BIND"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the library's own name
REFUSAL = "send the token of GPUAAS_METRICS_TOKEN as `Authorization: Bearer`\n"
NOWHERE = "not found\n"
CHALLENGE = ("WWW-Authenticate", 'Bearer realm="metrics"')
PLAIN = "text/plain; charset=utf-8"
SLOWEST_SECONDS = 10


def children_share(arguments: Sequence[str]) -> None:
    """Call before prometheus_client is imported. Raises ImproperlyConfigured for a malformed address."""
    if list(arguments[:1]) == ["worker"] and env.address(BIND):
        folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="gpuaas-metrics-")
        atexit.register(_remove, folder, os.getpid())


def serve() -> None:
    """Answers at GPUAAS_METRICS_BIND until the process ends, if there is one, and a token. Where the address is taken, that is
    logged: the process goes on without."""
    if settings.METRICS_BIND is None or not settings.METRICS_TOKEN:
        return
    host, port = settings.METRICS_BIND
    kind = _Server6 if ":" in host else _Server
    try:
        server = make_server(host, port, _guarded(_exporter()), kind, _Quiet)
    except OSError as error:
        log.error("metrics_not_served", address=f"{host}:{port}", error=str(error))  # noqa: TRY400  the words suffice
        return
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def has_token(authorization: str) -> bool:
    """Whether a header `Authorization` has the token of GPUAAS_METRICS_TOKEN, which must be set."""
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode(), settings.METRICS_TOKEN.encode()
    )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = SLOWEST_SECONDS  # of the reader

    def log_message(self, format: str, *args: Any) -> None:
        """What Prometheus asks every few seconds is no news."""


def _exporter() -> Callable[..., Iterable[bytes]]:
    from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = REGISTRY
    if FOLDER in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    app: Callable[..., Iterable[bytes]] = make_wsgi_app(registry)
    return app


def _guarded(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["PATH_INFO"] != "/metrics":
            start("404 Not Found", [("Content-Type", PLAIN)])
            return [b"/metrics is all there is\n"]
        if has_token(request.get("HTTP_AUTHORIZATION", "")):
            return app(request, start)
        start("401 Unauthorized", [("Content-Type", PLAIN), CHALLENGE])
        return [REFUSAL.encode()]

    return answer


def _remove(folder: str, owner: int) -> None:
    """Not by a child, which inherits what its parent does at its end."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
