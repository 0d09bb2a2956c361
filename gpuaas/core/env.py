"""Typed settings from the environment; every secret may also come from a file (`NAME_FILE`).

A wrong value stops the start with the variable's name: a portal that guesses is worse than one that is down.
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.Env()


def text(name: str, default: str | None = None) -> str:
    """The variable, or the stripped content of the file that `NAME_FILE` names; both at once is an error."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        if name in os.environ:
            raise ImproperlyConfigured(f"set {name} or {name}_FILE, not both")
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE: {path} cannot be read: {error.strerror}") from error
    value = os.environ.get(name, default)
    if value is None:
        raise ImproperlyConfigured(f"{name} (or {name}_FILE) is not set")
    return value


def boolean(name: str, *, default: bool) -> bool:
    raw = os.environ.get(name)
    if raw is None:
        return default
    if raw.lower() in {"1", "true", "yes", "on"}:
        return True
    if raw.lower() in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is not a boolean: use true or false")


def integer(name: str, *, default: int, minimum: int = 0) -> int:
    raw = os.environ.get(name)
    if raw is None:
        return default
    try:
        value = int(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number") from error
    if value < minimum:
        raise ImproperlyConfigured(f"{name}={value} is below {minimum}")
    return value


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list; blanks around and empty entries are dropped."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def database(name: str, default: str | None = None) -> dict[str, Any]:
    """Django's DATABASES entry from a postgres:// URL (see django-environ for its forms)."""
    url = text(name, default)
    try:
        config: dict[str, Any] = dict(_env.db_url_config(url))
    except (ValueError, ImproperlyConfigured) as error:
        raise ImproperlyConfigured(f"{name} is not a database URL") from error
    if config.get("ENGINE") != "django.db.backends.postgresql":
        raise ImproperlyConfigured(
            f"{name}: PostgreSQL 15 or newer is required, the URL names another database"
        )
    config["HOST"] = unquote(config.get("HOST", ""))  # a socket's folder travels percent-encoded
    return config


def mail(name: str) -> dict[str, Any]:
    """Django's EMAIL_* settings from an smtp://, smtp+tls:// or smtp+ssl:// URL."""
    url = text(name)
    if not url.startswith(("smtp://", "smtp+tls://", "smtp+ssl://")):
        raise ImproperlyConfigured(f"{name} is not an smtp://, smtp+tls:// or smtp+ssl:// URL")
    found: dict[str, Any] = dict(_env.email_url_config(url))
    return {key: value for key, value in found.items() if key.startswith("EMAIL_")}
