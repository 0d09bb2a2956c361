"""One WebSocket per page. It reports that something changed, never what: the page fetches that with its own rights.

The groups of a connection follow only from its session. They are read again every `RECHECK_SECONDS`, and at once on
an event about memberships.
"""

import asyncio
import contextlib
import time
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer

from gpuaas.core.events import Event
from gpuaas.live.audience import groups_now

ANONYMOUS = 4401
AGAIN = 1013  # "try again later"
HEARTBEAT_SECONDS = 25.0
RECHECK_SECONDS = 120.0
MEMBERSHIP_KINDS = frozenset({"membership", "project_membership", "organization_membership"})


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """Sends {kind, id, mark} for each event, and {"type": "heartbeat"} in between. Ignores messages from the page."""

    heard: frozenset[str] = frozenset()
    pulse: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """A page that has left hears nothing more: the server delivers its `disconnect` next, which ends all of this. Nor does one
        that was closed here, for which events may still be queued."""
        closed = False

        async def tell(message: Any) -> None:
            nonlocal closed
            if closed:
                return
            closed = message["type"] == "websocket.close"
            with contextlib.suppress(OSError):
                await send(message)

        await super().__call__(scope, receive, tell)

    async def connect(self) -> None:
        # groups first: what happens between the handshake and the page's first look is then heard
        await self._hear(await groups_now(self.scope))
        await self.accept()
        if self.heard:
            self.pulse = asyncio.create_task(self._beat())
        else:
            # only now: a browser learns the code of a connection that was open
            await self.close(ANONYMOUS)

    async def disconnect(self, code: int) -> None:
        del code
        if self.pulse is not None and self.pulse is not asyncio.current_task():
            self.pulse.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.pulse
        await self._hear(frozenset())

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        """Messages from pages are ignored."""

    async def live_event(self, message: dict[str, Any]) -> None:
        """Handles an event from `core.events.publish`."""
        event: Event = message["event"]
        if event["kind"] in MEMBERSHIP_KINDS and not await self.recheck():
            return
        await self.send_json({"kind": event["kind"], "id": event["id"], "mark": event["mark"]})

    async def recheck(self) -> bool:
        """Joins the groups that the session may listen to now; closes the connection and returns False if there are
        none."""
        groups = await groups_now(self.scope)
        await self._hear(groups)
        if not groups:
            await self.close(ANONYMOUS)
        return bool(groups)

    async def _hear(self, groups: frozenset[str]) -> None:
        for group in self.heard - groups:
            await self.channel_layer.group_discard(group, self.channel_name)
        for group in groups - self.heard:
            await self.channel_layer.group_add(group, self.channel_name)
        self.heard = groups

    async def _beat(self) -> None:
        checked = time.monotonic()
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if time.monotonic() - checked >= RECHECK_SECONDS:
                checked = time.monotonic()
                try:
                    if not await self.recheck():
                        return
                except Exception:  # noqa: BLE001
                    # the database or Redis is away, and nobody would look any more whether the session holds; the page connects
                    # anew, as often as it takes
                    await self.close(AGAIN)
                    return
            await self.send_json({"type": "heartbeat"})
