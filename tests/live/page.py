"""A page's end of the WebSocket: what a browser sends and reads, over ASGI without a server."""

import json
import warnings
from typing import Any

from asgiref import testing

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # whitenoise: no static files were collected for the tests
    from gpuaas.asgi import application as application

__all__ = ["Page", "application"]


class Page:
    def __init__(self, headers: list[tuple[bytes, bytes]], *, behind: Any = application) -> None:
        scope: Any = {
            "type": "websocket",
            "path": "/ws/live/",
            "query_string": b"",
            "headers": headers,
            "subprotocols": [],
        }
        communicator: Any = testing.ApplicationCommunicator  # asgiref's helper has no types
        self._wire = communicator(behind, scope)

    async def connect(self) -> bool:
        await self._wire.send_input({"type": "websocket.connect"})
        answer = await self._wire.receive_output(5)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, **frame: str | bytes) -> None:
        await self._wire.send_input({"type": "websocket.receive", **frame})

    async def hears(self) -> Any:
        """The next message, or {"closed": code}."""
        answer = await self._wire.receive_output(5)
        if answer["type"] == "websocket.close":
            return {"closed": answer.get("code")}
        return json.loads(answer["text"])

    async def hears_nothing(self) -> bool:
        return bool(await self._wire.receive_nothing(timeout=0.2))

    async def leave(self) -> None:
        await self._wire.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._wire.wait(5)
