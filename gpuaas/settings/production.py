"""Production: everything by environment; unsafe values are refused by `manage.py check --deploy` and at start.

Required: GPUAAS_SECRET_KEY, GPUAAS_ENCRYPTION_KEYS, GPUAAS_ALLOWED_HOSTS, GPUAAS_DATABASE_URL, GPUAAS_BROKER_URL
(each also as NAME_FILE).
"""

from gpuaas.core import env
from gpuaas.settings.base import *  # noqa: F403  Django's own way to layer settings
from gpuaas.settings.base import DATABASE_OPTIONS, DOOR_DOMAIN

#: Needed in production: 50 random characters; signs sessions and cookies
SECRET_KEY = env.text("GPUAAS_SECRET_KEY")
#: Needed in production: keys for stored credentials, newest first: `encryption_key` creates one, `encryption_rotate`
#: applies it ([how](../operators/security.md))
ENCRYPTION_KEYS = env.words("GPUAAS_ENCRYPTION_KEYS")
#: Needed in production: Redis or RabbitMQ, for background tasks
BROKER_URL = CELERY_BROKER_URL = env.text("GPUAAS_BROKER_URL")
DATABASES = {
    "default": {
        #: Needed in production: `postgresql://user:password@host/name`; PostgreSQL 15 or newer
        **env.database("GPUAAS_DATABASE_URL"),
        "OPTIONS": DATABASE_OPTIONS,
        "CONN_HEALTH_CHECKS": True,
    }
}

#: Web: whether http is redirected to https
SECURE_SSL_REDIRECT = env.boolean("GPUAAS_SSL_REDIRECT", default=True)
SECURE_REDIRECT_EXEMPT = [
    r"^health/",
    r"^(healthz|readyz)$",
    r"^metrics",
]  # probes and Prometheus ask the process itself, without TLS
#: Web: for how many seconds browsers use https only
SECURE_HSTS_SECONDS = env.integer("GPUAAS_HSTS_SECONDS", default=31_536_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
if DOOR_DOMAIN:
    # Pages of environments may set cookies for every domain above theirs, but none of these names
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
    MESSAGE_STORAGE = "frontend.toasts.HostMessages"

# No process starts with an unsafe value (core/checks.py).
REFUSE_UNSAFE = True
