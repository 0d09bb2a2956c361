"""The whole portal behind uvicorn in a thread of the test: pages and WebSocket on one port, on the test's database."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.db import connections

from gpuaas.core.management.commands.web import Server


class Quiet(Server):
    """Ends as the portal does, without its patience for what clients have sent; signals are the test runner's."""

    sent_seconds = 0.1

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def application() -> Any:
    """The portal as it is deployed, with static files as `runserver` serves them."""
    from gpuaas import asgi

    files = ASGIStaticFilesHandler(asgi.http)

    async def route(scope: Any, receive: Any, send: Any) -> None:
        target = files if scope["type"] == "http" else asgi.application
        await target(scope, receive, send)

    return route


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served() -> Iterator[str]:
    port = free_port()
    server = Quiet(
        uvicorn.Config(application(), host="127.0.0.1", port=port, log_level="error", lifespan="off")
    )
    started = threading.Event()

    def run() -> None:
        loop = asyncio.new_event_loop()
        loop.call_later(0, started.set)
        try:
            loop.run_until_complete(server.serve())
        finally:
            connections.close_all()
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    wait_for(port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        left = [*server.server_state.connections, *server.server_state.tasks]
        assert not thread.is_alive(), f"the server still answers somebody: {left}"


def wait_for(port: int) -> None:
    """Until the port takes connections; a server that never does fails the test here."""
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        threading.Event().wait(0.05)
    raise AssertionError("the server did not start")
