"""Production: everything by environment; unsafe values are refused by `manage.py check --deploy` and at start.

Required: GPUAAS_SECRET_KEY, GPUAAS_ENCRYPTION_KEYS, GPUAAS_ALLOWED_HOSTS, GPUAAS_DATABASE_URL, GPUAAS_BROKER_URL
(each also as NAME_FILE).
"""

from gpuaas.core import env
from gpuaas.settings.base import *  # noqa: F403  Django's own way to layer settings
from gpuaas.settings.base import DATABASE_OPTIONS

SECRET_KEY = env.text("GPUAAS_SECRET_KEY")
ENCRYPTION_KEYS = env.words("GPUAAS_ENCRYPTION_KEYS")
BROKER_URL = CELERY_BROKER_URL = env.text("GPUAAS_BROKER_URL")
DATABASES = {
    "default": {
        **env.database("GPUAAS_DATABASE_URL"),
        "OPTIONS": DATABASE_OPTIONS,
        "CONN_HEALTH_CHECKS": True,
    }
}

SECURE_SSL_REDIRECT = env.boolean("GPUAAS_SSL_REDIRECT", default=True)
SECURE_REDIRECT_EXEMPT = [
    r"^health/",
    r"^(healthz|readyz)$",
    r"^metrics",
]  # probes and Prometheus ask the process itself, without TLS
SECURE_HSTS_SECONDS = env.integer("GPUAAS_HSTS_SECONDS", default=31_536_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True

# No process starts with an unsafe value (core/checks.py).
REFUSE_UNSAFE = True
