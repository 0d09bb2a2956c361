"""The suite: an embedded PostgreSQL shared by all test processes, each with a database of its own, started by the first
connection.

GPUAAS_TEST_DATABASE_URL names another server; GPUAAS_TEST_DB_SUFFIX keeps two runs on one machine apart.
"""

from gpuaas.core import env
from gpuaas.settings.base import *  # noqa: F403  Django's own way to layer settings
from gpuaas.settings.base import DATABASE_POOL, LOGGING, PLANNED_ONCE

DEBUG = False
SECRET_KEY = "test-only-secret-key-that-signs-nothing-real"
ENCRYPTION_KEYS = ["dGVzdC1vbmx5LWtleS10aGF0LWVuY3J5cHRzLW5vdGg="]
ALLOWED_HOSTS = env.words("GPUAAS_TEST_HOSTS", "*")
_ON_DEMAND = {"ENGINE": "deploy.embedded.on_demand", "NAME": "postgres"}
_database = (
    env.database("GPUAAS_TEST_DATABASE_URL") if env.text("GPUAAS_TEST_DATABASE_URL", "") else _ON_DEMAND
)
DATABASES = {
    "default": {
        **_database,
        # Transactional tests empty all tables at their end, the append-only audit log included.
        "OPTIONS": {
            "options": f"{PLANNED_ONCE} -c gpuaas.allow_truncate=on",
            "pool": DATABASE_POOL if env.boolean("GPUAAS_TEST_POOL", default=False) else False,
        },
        "TEST": {"NAME": "test_gpuaas" + env.text("GPUAAS_TEST_DB_SUFFIX", "")},
    },
}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
ACCOUNT_RATE_LIMITS = False  # many tests sign in from one address; the limits have a test of their own
API_PER_MINUTE = 0  # likewise
BROKER_URL = CELERY_BROKER_URL = "memory://"  # nobody listens; processes of their own are given a real one
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
# Services poke tasks on commit; in tests nobody listens and reconcilers are run by hand.
CELERY_TASK_ALWAYS_EAGER = False
QUEUE_ENABLED = env.boolean("GPUAAS_TEST_QUEUE", default=False)
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True  # no collected static files in tests
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
MAILS_ENABLED = env.boolean("GPUAAS_TEST_MAILS", default=True)
SITES_ON_LOOPBACK = True  # the lab is here
LOGGING["root"]["level"] = "WARNING"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
