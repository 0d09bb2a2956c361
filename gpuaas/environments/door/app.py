"""The desk as an ASGI application, on a socket of this machine that only Envoy opens."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from gpuaas.core.errors import GpuaasError
from gpuaas.environments.door.desk import Asked, Desk, is_own
from gpuaas.environments.door.pages import Answer

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
SECONDS, MOST = 10, 1024
log = structlog.get_logger(__name__)


def app_of(desk: Desk) -> Callable[[dict[str, Any], Receive, Send], Awaitable[None]]:
    async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            posted = await _posted(receive) if scope["method"] == "POST" and is_own(_path(scope)) else ""
            answer = await desk.answer(asked_of(scope, posted))
        except Exception as error:  # noqa: BLE001  the database is away, or worse: nobody gets in, and Envoy is told so
            log.warning(
                "door_not_asked",
                error=error.message if isinstance(error, GpuaasError) else type(error).__name__,
            )
            answer = Answer(503, [("retry-after", "2")])
        body = answer.body.encode()
        headers = [*answer.headers, ("content-length", str(len(body)))]
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    return app


async def _posted(receive: Receive) -> str:
    """Of a form of the door. Of more than it can be nothing; it is not waited for longer than SECONDS."""
    body = b""
    async with asyncio.timeout(SECONDS):
        while len(body) <= MOST:
            part = await receive()
            body += bytes(part.get("body", b""))
            if not part.get("more_body"):
                return body.decode("latin-1")
    return ""


def _path(scope: dict[str, Any]) -> str:
    raw: bytes = scope["raw_path"]
    return raw.decode("latin-1")


def asked_of(scope: dict[str, Any], posted: str) -> Asked:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        between = "; " if name == "cookie" else ", "
        headers[name] = f"{headers[name]}{between}{value}" if name in headers else value
    return Asked(
        method=scope["method"],
        host=headers.get("host", ""),
        path=_path(scope),
        query=scope["query_string"].decode("latin-1"),
        headers=headers,
        for_page="x-gpuaas-answer" in headers,
        posted=posted,
    )
