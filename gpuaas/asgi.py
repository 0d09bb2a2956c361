"""ASGI entry: HTTP by Django, WebSocket by gpuaas.live behind an origin check and the session; a heartbeat while the
server runs."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.production")

http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402  the apps must be loaded first
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402  likewise
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402  likewise

from gpuaas.core.models import ProcessKind  # noqa: E402  likewise
from gpuaas.core.pulse import lifespan  # noqa: E402  likewise
from gpuaas.live.routing import websocket_urlpatterns  # noqa: E402  likewise

application = ProtocolTypeRouter(
    {
        "http": http,
        "lifespan": lifespan(ProcessKind.WEB),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
