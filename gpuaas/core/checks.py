"""System checks that refuse unsafe production values. They run at every `manage.py` start and in the image's entry."""

from collections.abc import Sequence
from typing import Any

import structlog
from cryptography.fernet import Fernet
from django.conf import settings
from django.core.checks import ERROR, CheckMessage, Error, Tags, register
from django.core.checks import Warning as Doubt
from django.core.exceptions import ImproperlyConfigured

log = structlog.get_logger(__name__)


def _doubtful(message: str, hint: str, number: int) -> CheckMessage:
    return Doubt(message, hint=hint, id=f"gpuaas.W{number:03}")


def _unsafe(message: str, hint: str, number: int) -> Error:
    return Error(message, hint=hint, id=f"gpuaas.E{number:03}")


@register(Tags.security)
def production_values(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Does not apply to the demo and the tests, which set DEMO or DEBUG or use the test's key on purpose."""
    del app_configs, kwargs
    messages: list[CheckMessage] = list(_keys())
    if settings.DEBUG or getattr(settings, "DEMO", False):
        return messages
    if len(settings.SECRET_KEY) < 32:
        messages.append(
            _unsafe("GPUAAS_SECRET_KEY is shorter than 32 characters", "use 50 random characters", 1)
        )
    if not settings.ALLOWED_HOSTS:
        messages.append(_unsafe("GPUAAS_ALLOWED_HOSTS is empty", "name the portal's host names", 2))
    if not settings.MAILS_ENABLED:
        messages.append(
            _doubtful(
                "GPUAAS_MAIL_URL is not set",
                "nothing is mailed, and nobody can set a forgotten password anew",
                1,
            )
        )
    if settings.SECURE_SSL_REDIRECT and not settings.TRUSTED_PROXIES:
        messages.append(
            _doubtful(
                "GPUAAS_TRUSTED_PROXIES is empty",
                "name the proxy that ends TLS; without it every page leads to https again and again",
                2,
            )
        )
    return messages


@register(Tags.security, deploy=True)
def production_hosts(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    del app_configs, kwargs
    messages: list[CheckMessage] = []
    if settings.DEBUG:
        messages.append(_unsafe("GPUAAS_DEBUG is on", "debug pages show settings to strangers", 3))
    if "*" in settings.ALLOWED_HOSTS:
        messages.append(_unsafe("GPUAAS_ALLOWED_HOSTS has *", "name the portal's host names", 4))
    if not settings.PUBLIC_URL.startswith("https://"):
        messages.append(_unsafe("GPUAAS_PUBLIC_URL is not https", "tokens and cookies are sent over it", 5))
    return messages


def _keys() -> list[Error]:
    if not settings.ENCRYPTION_KEYS:
        return [
            _unsafe(
                "GPUAAS_ENCRYPTION_KEYS is empty",
                "create one with `openssl rand -base64 32 | tr '+/' '-_'`",
                6,
            )
        ]
    try:
        for key in settings.ENCRYPTION_KEYS:
            Fernet(key)
    except ValueError:
        return [
            _unsafe("GPUAAS_ENCRYPTION_KEYS has a malformed key", "each is 32 bytes in URL-safe base64", 7)
        ]
    return []


def refuse_unsafe() -> None:
    """For processes that run no system checks (web, worker, meter): an unsafe value stops the start and is named, a doubtful
    one is logged."""
    messages = [*production_values(None), *production_hosts(None)]
    unsafe = [check for check in messages if check.level >= ERROR]
    if unsafe:
        raise ImproperlyConfigured("; ".join(f"{check.msg}: {check.hint}" for check in unsafe))
    for check in messages:
        log.warning("a setting is doubtful", setting=check.msg, hint=check.hint)
