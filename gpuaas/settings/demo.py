"""`make demo` and development: embedded services in one folder, keys made at first start and kept there.

The launcher starts the services and names them in the environment; a lone `manage.py` finds or starts them itself.
"""

from gpuaas.core import env
from gpuaas.settings.base import *  # noqa: F403  Django's own way to layer settings
from gpuaas.settings.base import DATABASE_OPTIONS, TEMPLATES

from deploy.embedded import POSTGRES_PROGRAMS as EMBEDDED_PROGRAMS, demo_environment  # isort: skip

_demo = demo_environment()

DEMO = True
DEBUG = env.boolean("GPUAAS_DEBUG", default=True)
SECRET_KEY = _demo.secret_key
ENCRYPTION_KEYS = [_demo.encryption_key]
ALLOWED_HOSTS = env.words("GPUAAS_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
DATABASES = {
    "default": {
        **env.database("GPUAAS_DATABASE_URL", _demo.database_url),
        "OPTIONS": DATABASE_OPTIONS,
        "CONN_HEALTH_CHECKS": True,
    }
}
POSTGRES_PROGRAMS = env.text("GPUAAS_POSTGRES_PROGRAMS", EMBEDDED_PROGRAMS)
BROKER_URL = CELERY_BROKER_URL = _demo.redis_url
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [_demo.redis_url]},
    }
}
#: Web: of the demo: `false` reads each template anew, as in `make dev`
if not env.boolean("GPUAAS_TEMPLATES_CACHED", default=True):
    _folders = ("filesystem", "app_directories")
    _loaders = [f"django.template.loaders.{name}.Loader" for name in _folders]
    TEMPLATES = [
        {**TEMPLATES[0], "APP_DIRS": False, "OPTIONS": {**TEMPLATES[0]["OPTIONS"], "loaders": _loaders}}
    ]
PROVIDER_NAME = env.text("GPUAAS_PROVIDER_NAME", "Meridian Cloud")
# The demo's passwords are one short word on purpose; it listens on loopback alone.
AUTH_PASSWORD_VALIDATORS = []
SITES_ON_LOOPBACK = env.boolean("GPUAAS_SITES_ON_LOOPBACK", default=True)
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
MAILS_ENABLED = True
