"""`make demo` and development: embedded services under .demo/, keys made at first start and kept there."""

from gpuaas.core import env
from gpuaas.settings.base import *  # noqa: F403  Django's own way to layer settings
from gpuaas.settings.base import BASE_DIR, DATABASE_POOL

from deploy.embedded import demo_environment  # isort: skip

_demo = demo_environment(BASE_DIR / ".demo")

DEBUG = env.boolean("GPUAAS_DEBUG", default=True)
SECRET_KEY = env.text("GPUAAS_SECRET_KEY", _demo.secret_key)
ENCRYPTION_KEYS = env.words("GPUAAS_ENCRYPTION_KEYS", _demo.encryption_key)
ALLOWED_HOSTS = env.words("GPUAAS_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
DATABASES = {
    "default": {**env.database("GPUAAS_DATABASE_URL", _demo.database_url), "OPTIONS": {"pool": DATABASE_POOL}}
}
BROKER_URL = CELERY_BROKER_URL = env.text("GPUAAS_BROKER_URL", _demo.redis_url)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [_demo.redis_url]},
    }
}
PROVIDER_NAME = env.text("GPUAAS_PROVIDER_NAME", "Meridian Cloud")
DEMO = True
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
