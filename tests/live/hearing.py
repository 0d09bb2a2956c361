"""What a page would hear, without a page."""

from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import InMemoryChannelLayer, get_channel_layer


def listen(group: str, channel: str) -> None:
    layer = get_channel_layer()
    assert layer is not None
    async_to_sync(layer.group_add)(group, channel)


def heard(channel: str) -> list[dict[str, Any]]:
    """All that came since the last question."""
    layer = get_channel_layer()
    assert isinstance(layer, InMemoryChannelLayer)
    events = []
    while (queue := layer.channels.get(channel)) and not queue.empty():
        events.append(async_to_sync(layer.receive)(channel)["event"])
    return events
