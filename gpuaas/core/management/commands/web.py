"""`manage.py web`: pages, API and WebSocket until SIGTERM."""

import asyncio
import socket
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand, CommandParser


class Server(uvicorn.Server):
    sent_seconds = 1.0

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no more connections, and then waits for the requests of those that it has just taken: uvicorn would reset
        them, as if they had nothing to say."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(self.sent_seconds)
        await super().shutdown(sockets)


class Command(BaseCommand):
    help = "Serve pages, API and WebSocket until SIGTERM; several processes may run behind one load balancer."
    requires_system_checks = []  # what must not be unsafe is refused by the settings; a start should be quick

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="0.0.0.0", help="the address to listen on")  # noqa: S104 (a container's)
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument(
            "--fd",
            type=int,
            metavar="NUMBER",
            help="a socket that listens already, such as systemd's 3, in place of an address and a port: while the process is "
            "replaced, connections wait in it",
        )
        parser.add_argument(
            "--grace",
            type=int,
            default=20,
            metavar="SECONDS",
            help="how long requests in flight may take after SIGTERM",
        )

    def handle(self, *_args: Any, host: str, port: int, fd: int | None, grace: int, **_options: Any) -> None:
        config = uvicorn.Config(
            "gpuaas.asgi:application",
            host=host,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=grace,
            proxy_headers=False,  # it believes whatever comes over loopback; core/clients.py asks the setting
        )
        Server(config).run(sockets=None if fd is None else [socket.socket(fileno=fd)])
