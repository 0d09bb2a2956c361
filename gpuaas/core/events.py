"""Live events: kind, id, mark, nothing else. The page fetches itself again, and authorization happens there.

Published on commit to channel groups; a page that missed an event catches up with its slow poll.
"""

import asyncio
import uuid
from typing import Any, TypedDict

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

log = structlog.get_logger(__name__)


class Event(TypedDict):
    kind: str
    id: str
    mark: str


def project_group(project_id: object) -> str:
    return f"project.{project_id}"


def user_group(user_id: object) -> str:
    """The group for changes of a person's own memberships and sessions."""
    return f"user.{user_id}"


OPERATORS_GROUP = "operators"
SEND_SECONDS = 5  # for one event; a Redis that is silent holds up a request for no longer


def publish(*, kind: str, id: object, groups: tuple[str, ...]) -> None:
    """Notifies every group after commit that object `id` of `kind` has changed.

    A page in two of the groups gets the event twice and recognizes it by its mark. The version of a row would not do,
    because steps, checks and machines change without it.
    """
    event = Event(kind=kind, id=str(id), mark=uuid.uuid4().hex)
    transaction.on_commit(lambda: _send(event, groups))


async def _send_on(layer: Any, event: Event, groups: tuple[str, ...]) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        for group in groups:
            await layer.group_send(group, {"type": "live.event", "event": event})


def _send(event: Event, groups: tuple[str, ...]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(_send_on)(layer, event, groups)
    except Exception as error:  # noqa: BLE001  an event is a hint; the poll heals it
        log.warning("event_lost", kind=event["kind"], error=type(error).__name__)
