"""WebSocket addresses."""

from typing import Any, cast

from django.urls import path

from gpuaas.live.consumers import LiveConsumer

# cast: Django’s stubs know views only, channels routes to ASGI applications
websocket_urlpatterns: list[Any] = [path("ws/live/", cast("Any", LiveConsumer.as_asgi()))]
