"""Live events: kind, id, mark, nothing else. Who may see what is decided where the page re-fetches itself.

Published on commit to channel groups; a lost event is healed by the page's slow poll.
"""

import uuid
from typing import TypedDict

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


OPERATORS_GROUP = "operators"


def publish(*, kind: str, id: object, groups: tuple[str, ...]) -> None:
    """Tell every group after commit that object `id` of `kind` has changed.

    A page in two of the groups hears it twice and knows it by its mark. A row's version would not do: steps, checks and
    machines move under it.
    """
    event = Event(kind=kind, id=str(id), mark=uuid.uuid4().hex)
    transaction.on_commit(lambda: _send(event, groups))


def _send(event: Event, groups: tuple[str, ...]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        for group in groups:
            async_to_sync(layer.group_send)(group, {"type": "live.event", "event": event})
    except Exception as error:  # noqa: BLE001  an event is a hint; the poll heals it
        log.warning("event_lost", kind=event["kind"], error=type(error).__name__)
