"""Settings that hold everywhere. What differs comes from the environment, typed by `gpuaas.core.env`.

`production` is strict and complete by environment; `demo` and `test` bring embedded services and safe defaults.
`#: group: words` above a setting is what docs/reference/settings.md says of it (tests/architecture/reference.py).
"""

from pathlib import Path
from typing import Any

from celery.schedules import crontab
from kombu import Queue

from gpuaas.core import env, pool
from gpuaas.core.logs import logging_config
from gpuaas.settings.door import *  # noqa: F403  Django's own way to layer settings
from gpuaas.settings.door import DOOR_DOMAIN
from tenants.signin import RATE_LIMITS, oidc_origins, oidc_providers

BASE_DIR = Path(__file__).resolve().parent.parent.parent

#: Web: whether Django's debug pages are shown; refused in production
DEBUG = env.boolean("GPUAAS_DEBUG", default=False)
SECRET_KEY = env.text("GPUAAS_SECRET_KEY", "")
#: Needed in production: host names that the portal answers to
ALLOWED_HOSTS = env.words("GPUAAS_ALLOWED_HOSTS")
#: Web: further origins that may send forms, with their scheme
CSRF_TRUSTED_ORIGINS = env.words("GPUAAS_CSRF_TRUSTED_ORIGINS")
#: Needed in production: the https address that people use; stands in mails and documents. Production refuses the default
PUBLIC_URL = env.text("GPUAAS_PUBLIC_URL", "http://127.0.0.1:8000")

#: Web: the proxies in front of the portal; only they are believed in `X-Forwarded-For` and `X-Forwarded-Proto`
TRUSTED_PROXIES = env.networks("GPUAAS_TRUSTED_PROXIES")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # which nobody else can send

# Keys for credentials at rest, newest first: the first encrypts, all decrypt (cryptography's MultiFernet).
ENCRYPTION_KEYS = env.words("GPUAAS_ENCRYPTION_KEYS")

#: Processes, logs and metrics: the token with which Prometheus reads `/metrics`; without it the address does not exist
METRICS_TOKEN = env.text("GPUAAS_METRICS_TOKEN", "")
#: Processes, logs and metrics: where worker, scheduler, meter and door answer Prometheus, with the same token
METRICS_BIND = env.address("GPUAAS_METRICS_BIND")

#: Processes, logs and metrics: the collector that takes [traces](../operators/watching.md#traces)
TRACES_ENDPOINT = env.collector("OTEL_EXPORTER_OTLP_ENDPOINT")

#: Sites, workspaces and clusters: whether sites on the portal's own machine are allowed; addresses of cloud metadata are
#: never called
SITES_ON_LOOPBACK = env.boolean("GPUAAS_SITES_ON_LOOPBACK", default=False)

#: Processes, logs and metrics: a file that is touched at each heartbeat, for supervisors
ALIVE_FILE = env.text("GPUAAS_ALIVE_FILE", "")

#: Web: how often one person or token may ask each web process by REST; 0 for no limit
API_PER_MINUTE = env.integer("GPUAAS_API_PER_MINUTE", default=3000)

#: Money: who rents out the GPUs; on pages, invoices and in FOCUS
PROVIDER_NAME = env.text("GPUAAS_PROVIDER_NAME", "gpuaas")
#: Money: ISO 4217; organizations may have another one
CURRENCY = env.text("GPUAAS_CURRENCY", "EUR")
#: Sites, workspaces and clusters: days of suspension between the end of a lease and deletion
LEASE_GRACE_DAYS = env.integer("GPUAAS_LEASE_GRACE_DAYS", default=7, minimum=0)
#: Sites, workspaces and clusters: hours that a kubeconfig may be valid, at most 24
ACCESS_HOURS_MAX = min(env.integer("GPUAAS_ACCESS_HOURS_MAX", default=24, minimum=1), 24)
#: Sites, workspaces and clusters: the image of what moves files before and after jobs; it has `sh` and `rclone`
MOVER_IMAGE = env.text("GPUAAS_MOVER_IMAGE", "docker.io/rclone/rclone:1.69")
#: Sites, workspaces and clusters: days for which the script of a job is [kept](../operators/job-retention.md) after its end; 0 for good
JOB_SCRIPT_DAYS = env.integer("GPUAAS_JOB_SCRIPT_DAYS", default=365, minimum=0, maximum=36_500)
#: Money: the zone in which months and days begin
BILLING_TIME_ZONE = env.text("GPUAAS_BILLING_TIME_ZONE", "Europe/Berlin")
#: Money: hours after the end of a month before it can be closed
BILLING_GRACE_HOURS = env.integer("GPUAAS_BILLING_GRACE_HOURS", default=48, minimum=0)
#: Money: days in which an invoice has to be paid
BILLING_DUE_DAYS = env.integer("GPUAAS_BILLING_DUE_DAYS", default=30, minimum=0)
#: Money: months after which a closed month may become final and its usage move into
#: [files](../operators/retention.md); at least 3, or 0 for never
USAGE_RETENTION_MONTHS = env.integer("GPUAAS_USAGE_RETENTION_MONTHS", default=0, minimum=0)
#: Money: days for which the portal keeps what each GPU did, minute by minute
GPU_SAMPLES_DAYS = env.integer("GPUAAS_GPU_SAMPLES_DAYS", default=3, minimum=1)
#: Money: days for which it keeps the sums of each hour and workspace
GPU_HOURS_DAYS = env.integer("GPUAAS_GPU_HOURS_DAYS", default=400, minimum=31)
#: Money: the address on invoices; `\n` separates its lines
BILLING_PROVIDER_ADDRESS = env.text("GPUAAS_BILLING_PROVIDER_ADDRESS", "").replace("\\n", "\n")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "django_prometheus",
    "channels",
    "gpuaas.core",
    "gpuaas.providers.sandbox",
    "gpuaas.providers.baremetal",
    "tenants",
    "gpuaas.catalog",
    "quotas",
    "gpuaas.workspaces",
    "gpuaas.environments",
    "gpuaas.jobs",
    "gpuaas.clusters",
    "gpuaas.metering",
    "gpuaas.gpustats",
    "billing",
    "gpuaas.backup",
    "gpuaas.system",
    "gpuaas.sample",
    "gpuaas.api",
    "gpuaas.live",
    "frontend",
]

MIDDLEWARE = [
    "gpuaas.core.clients.ClientMiddleware",
    "gpuaas.core.streams.StreamMiddleware",
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "gpuaas.core.middleware.RequestIdMiddleware",
    "gpuaas.core.traces.TraceMiddleware",
    "gpuaas.api.middleware.ApiAnswersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "gpuaas.core.assets.AssetsMiddleware",
    "frontend.middleware.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "frontend.outage.OutageMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "frontend.middleware.ConsoleMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

ROOT_URLCONF = "gpuaas.urls"
CSRF_FAILURE_VIEW = "gpuaas.urls.csrf_failure"
ASGI_APPLICATION = "gpuaas.asgi.application"
WSGI_APPLICATION = "gpuaas.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "frontend" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "frontend.context.console",
            ],
        },
    },
]

DATABASES: dict[str, Any] = {}
DATABASE_POOL: dict[str, Any] = {
    "min_size": 1,
    #: Processes, logs and metrics: connections of each process to PostgreSQL, at most
    "max_size": env.integer("GPUAAS_DATABASE_POOL", default=10, minimum=1),
    "timeout": pool.USUAL_SECONDS,
    "reconnect_timeout": pool.GIVES_UP_SECONDS,
    "reconnect_failed": pool.away,
}
#: Backups: whether an archive is made every night, so that its absence is reported (GpuaasBackupOld)
BACKUPS_EXPECTED = env.boolean("GPUAAS_BACKUPS_EXPECTED", default=True)
#: Backups: the folder of `pg_dump`, `pg_restore` and `psql`, for [backups](../operators/backup.md); else those in `PATH`
POSTGRES_PROGRAMS = env.text("GPUAAS_POSTGRES_PROGRAMS", "")
# What is prepared (gpuaas/core/sql.py) is planned once for each connection; PostgreSQL would prefer to plan it anew each time.
PLANNED_ONCE = "-c plan_cache_mode=force_generic_plan"
# A host that hangs inside a transaction keeps its connection, and with it the rows that others wait for; PostgreSQL ends
# such a transaction after this.
DATABASE_OPTIONS = {
    "pool": DATABASE_POOL,
    "options": f"{PLANNED_ONCE} -c idle_in_transaction_session_timeout=60s",
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "tenants.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_REDIRECT_URL = "/"
ACCOUNT_RATE_LIMITS: dict[str, str | None] | bool = RATE_LIMITS
ACCOUNT_FORMS = {
    "change_password": "tenants.forms.PasswordChange",
    "reset_password": "tenants.forms.PasswordReset",
    "reset_password_from_key": "tenants.forms.PasswordResetKey",
}
MFA_FORMS = {
    "authenticate": "tenants.forms.SecondFactor",
    "reauthenticate": "tenants.forms.SecondFactorAgain",
}
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # nobody mails strangers by us
ACCOUNT_SESSION_REMEMBER = False
SOCIALACCOUNT_ADAPTER = "tenants.adapter.SocialAccountAdapter"
MFA_ADAPTER = "tenants.adapter.SecondFactorAdapter"
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = oidc_providers()
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False

# What several web processes must agree on (requests for mails, refused reports of nodes), and may lose. The table is made
# by core's migration.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "core_cache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
#: Web: the folder that `collectstatic` writes; else `staticfiles` beside the code
STATIC_ROOT = env.text("GPUAAS_STATIC_ROOT", str(BASE_DIR / "staticfiles"))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}

BROKER_URL = env.text("GPUAAS_BROKER_URL", "redis://127.0.0.1:6379/0")
#: Needed in production: a Redis for live updates; else the broker, if it is a Redis
CHANNELS_URL = env.text(
    "GPUAAS_CHANNELS_URL", BROKER_URL if BROKER_URL.startswith("redis") else "redis://127.0.0.1:6379/1"
)
CHANNEL_LAYERS: dict[str, Any] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [CHANNELS_URL]},
    }
}

CELERY_BROKER_URL = BROKER_URL
CELERY_TASK_DEFAULT_QUEUE = "celery"
SLOW_QUEUE = "slow"  # gpuaas/catalog/lanes.py
CELERY_TASK_QUEUES = [Queue(name, routing_key=name) for name in (CELERY_TASK_DEFAULT_QUEUE, SLOW_QUEUE)]
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 300
CELERY_TASK_SOFT_TIME_LIMIT = 240
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A broker that is silent, and not gone, would hold up requests and workers for as long as TCP hopes.
REDIS_PATIENCE = {"socket_connect_timeout": 2, "socket_timeout": 5, "socket_keepalive": True}
PATIENCE = REDIS_PATIENCE if BROKER_URL.startswith("redis") else {}
# A task that was taken by a worker that died comes back after visibility_timeout; the sweep is faster.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 600, **PATIENCE}
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 5  # of the connections by which a process sends tasks
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.1}
CELERY_BEAT_SCHEDULE: dict[str, Any] = {
    "workspaces-sweep": {"task": "workspaces.sweep", "schedule": 3.0, "options": {"expires": 3}},
    "workspaces-machines": {"task": "workspaces.machines_sweep", "schedule": 2.0, "options": {"expires": 2}},
    "workspaces-adoptions": {"task": "workspaces.adoptions", "schedule": 15.0, "options": {"expires": 15}},
    "workspaces-leases": {"task": "workspaces.leases", "schedule": 60.0, "options": {"expires": 60}},
    "environments-passes": {
        "task": "environments.passes_forget",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "environments-uses": {"task": "environments.uses", "schedule": 15.0, "options": {"expires": 15}},
    "environments-sweep": {"task": "environments.sweep", "schedule": 3.0, "options": {"expires": 3}},
    "jobs-mails": {"task": "jobs.mails", "schedule": 20.0, "options": {"expires": 20}},
    "jobs-sweep": {"task": "jobs.sweep", "schedule": 3.0, "options": {"expires": 3}},
    "clusters-sweep": {"task": "clusters.sweep", "schedule": 3.0, "options": {"expires": 3}},
    "clusters-leases": {"task": "clusters.leases", "schedule": 60.0, "options": {"expires": 60}},
    "clusters-policies": {"task": "clusters.policies", "schedule": 10.0, "options": {"expires": 10}},
    "clusters-revoke": {"task": "clusters.revoke", "schedule": 15.0, "options": {"expires": 15}},
    "clusters-jobs": {"task": "clusters.jobs", "schedule": 5.0, "options": {"expires": 5}},
    "clusters-warm": {"task": "clusters.warm", "schedule": 10.0, "options": {"expires": 10}},
    "clusters-imports": {
        "task": "clusters.parameters_imports",
        "schedule": 10.0,
        "options": {"expires": 10},
    },
    "clusters-samples": {"task": "clusters.samples", "schedule": 3600.0, "options": {"expires": 3600}},
    "catalog-probe": {"task": "catalog.probe_due", "schedule": 5.0, "options": {"expires": 5}},
    "catalog-rounds": {"task": "catalog.rounds_due", "schedule": 5.0, "options": {"expires": 5}},
    "catalog-node-checks": {"task": "catalog.node_checks", "schedule": 2.0, "options": {"expires": 2}},
    "metering-held": {"task": "metering.held_sync", "schedule": 10.0, "options": {"expires": 10}},
    "metering-held-all": {"task": "metering.held_sync_all", "schedule": crontab(hour="3", minute="0")},
    # as rarely as parts of today are added up: each round voids the sum of a day with new tokens
    "metering-tokens": {"task": "metering.tokens_sync", "schedule": 600.0, "options": {"expires": 600}},
    "metering-cross-checks": {
        "task": "metering.cross_checks_due",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "gpustats-keep": {"task": "gpustats.keep_due", "schedule": 15.0, "options": {"expires": 15}},
    "gpustats-forget": {"task": "gpustats.forget", "schedule": 3600.0, "options": {"expires": 3600}},
    "billing-closes": {"task": "billing.closes_due", "schedule": 30.0, "options": {"expires": 30}},
    "billing-pdfs": {"task": "billing.pdfs_due", "schedule": 30.0, "options": {"expires": 30}},
    "billing-grants": {"task": "billing.grants_expire", "schedule": 3600.0, "options": {"expires": 3600}},
    "billing-budgets": {"task": "billing.budgets_evaluate", "schedule": 300.0, "options": {"expires": 300}},
    "billing-usage-keep": {"task": "billing.usage_keep", "schedule": 60.0, "options": {"expires": 60}},
    # at an hour, not after one: a scheduler that is started anew each day would never come to the end of a day
    "billing-kept-check": {"task": "billing.kept_check", "schedule": crontab(hour="3", minute="10")},
    "api-keys": {"task": "api.keys_forget", "schedule": 3600.0, "options": {"expires": 3600}},
    "tenants-tries": {"task": "tenants.tries_forget", "schedule": 3600.0, "options": {"expires": 3600}},
    "core-processes": {"task": "core.processes_forget", "schedule": 3600.0, "options": {"expires": 3600}},
    "quotas-check": {"task": "quotas.counters_check", "schedule": crontab(hour="3", minute="20")},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "gpuaas.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "gpuaas.api.pagination.Cursor",
    "DEFAULT_SCHEMA_CLASS": "gpuaas.api.openapi.TaggedSchema",
    "EXCEPTION_HANDLER": "gpuaas.api.errors.exception_handler",
    "DEFAULT_VERSIONING_CLASS": None,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "gpuaas API",
    "DESCRIPTION": "Rent GPU workspaces: request, watch, resize, use, pay. Errors have one shape; lists are cursor-paginated.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
}

#: Signing in: the mail server, `smtp://`, `smtp+tls://` or `smtp+ssl://`, such as `smtp+tls://user:password@host:587`;
#: without it no mail is sent and no password can be reset by mail
MAIL_URL = env.text("GPUAAS_MAIL_URL", "")
MAILS_ENABLED = bool(MAIL_URL)
#: Signing in: the sender of mails
DEFAULT_FROM_EMAIL = env.text("GPUAAS_MAIL_FROM", "gpuaas@localhost")
if MAIL_URL:
    vars().update(env.mail("GPUAAS_MAIL_URL"))

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "style-src": ["'self'"],
        "script-src": ["'self'"],
        "connect-src": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'self'"],
        # browsers ask this of where a form leads, too: from the sign-in to an environment
        "form-action": ["'self'", *oidc_origins(), *([f"https://*.{DOOR_DOMAIN}"] if DOOR_DOMAIN else [])],
        "object-src": ["'none'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
# a note on an invoice has a field for each of its lines, of which a large organization has thousands
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600

LOGGING = logging_config(
    #: Processes, logs and metrics: the least severe messages that are logged
    level=env.text("GPUAAS_LOG_LEVEL", "INFO"),
    #: Processes, logs and metrics: whether each line is a JSON object, as in production; else lines are for reading
    as_json=env.boolean("GPUAAS_LOG_JSON", default=not DEBUG),
)
