"""Typed settings from the environment; each may also come from a file (`NAME_FILE`).

A wrong value stops the start with the variable's name, because running with a guess is worse than not running.
"""

import os
import re
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.Env()
_WORD = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
DOMAIN = re.compile(rf"{_WORD}(\.{_WORD})+(:[1-9][0-9]{{0,4}})?")


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
    raw = text(name, str(default))
    if raw.lower() in {"1", "true", "yes", "on"}:
        return True
    if raw.lower() in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is not a boolean: use true or false")


def integer(name: str, *, default: int, minimum: int = 0, maximum: int | None = None) -> int:
    raw = text(name, str(default))
    try:
        value = int(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number") from error
    if value < minimum:
        raise ImproperlyConfigured(f"{name}={value} is below {minimum}")
    if maximum is not None and value > maximum:
        raise ImproperlyConfigured(f"{name}={value} is above {maximum}")
    return value


def address(name: str, default: str = "") -> tuple[str, int] | None:
    """HOST:PORT to listen on; None where the variable is not set or empty."""
    raw = text(name, default)
    host, _, port = raw.rpartition(":")
    if raw and not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ImproperlyConfigured(f"{name}={raw!r} is not HOST:PORT")
    return (host.strip("[]"), int(port)) if raw else None


def domain(name: str) -> str:
    """A DNS name in lower case, with a port behind a colon if it has one of its own; "" where the variable is not set."""
    raw = text(name, "")
    if raw and not DOMAIN.fullmatch(raw):
        raise ImproperlyConfigured(f"{name}={raw!r} is not a domain in lower case, such as apps.example.org")
    return raw


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """A comma-separated list of addresses and networks, none of them wider than /8."""
    found = []
    for word in words(name):
        try:
            network = ip_network(word)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name}: {word!r} is no address and no network such as 10.0.0.0/24: {error}"
            ) from error
        if network.prefixlen < 8:
            raise ImproperlyConfigured(f"{name}: {word!r} is nearly everybody; name the proxies alone")
        found.append(network)
    return found


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list; surrounding blanks and empty entries are dropped."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def database(name: str, default: str | None = None) -> dict[str, Any]:
    """Django's DATABASES entry from a postgres:// URL (see django-environ for its forms)."""
    return database_of(text(name, default), name=name)


def database_of(url: str, *, name: str = "the database") -> dict[str, Any]:
    """The same from the URL itself; errors mention `name`."""
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
    values: dict[str, Any] = dict(_env.email_url_config(url))
    return {key: value for key, value in values.items() if key.startswith("EMAIL_")}


def collector(name: str) -> str:
    """The http:// or https:// URL below which a collector takes OpenTelemetry's traces; "" where there is none."""
    url = text(name, "").rstrip("/")
    if url and not url.startswith(("http://", "https://")):
        raise ImproperlyConfigured(f"{name} is not an http:// or https:// URL")
    if url and not _has_exporter():
        raise ImproperlyConfigured(
            f"{name} needs the packages of the extra gpuaas[traces], which are not installed"
        )
    return url


def _has_exporter() -> bool:
    with suppress(ModuleNotFoundError):  # of one of its parents
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    return False
