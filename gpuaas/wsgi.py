"""WSGI entry, for hosts that serve no WebSocket; live updates then fall back to the slow poll."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.production")

application = get_wsgi_application()
