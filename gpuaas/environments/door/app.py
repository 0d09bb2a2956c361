"""The desk as an ASGI application, on a socket of this machine that only Envoy opens."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from gpuaas.core.errors import GpuaasError
from gpuaas.environments.door.desk import Answer, Asked, Desk

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
log = structlog.get_logger(__name__)


def app_of(desk: Desk) -> Callable[[dict[str, Any], Receive, Send], Awaitable[None]]:
    async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        del receive
        if scope["type"] != "http":
            return
        try:
            answer = await desk.answer(asked_of(scope))
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


def asked_of(scope: dict[str, Any]) -> Asked:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        between = "; " if name == "cookie" else ", "
        headers[name] = f"{headers[name]}{between}{value}" if name in headers else value
    return Asked(
        method=scope["method"],
        host=headers.get("host", ""),
        path=scope["raw_path"].decode("latin-1"),
        query=scope["query_string"].decode("latin-1"),
        headers=headers,
        for_page="x-gpuaas-answer" in headers,
    )
