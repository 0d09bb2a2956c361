"""Unsafe production values stop the start."""

from ipaddress import ip_network

import pytest
from cryptography.fernet import Fernet
from pytest_django import Settings
from structlog.testing import CapturingLogger

from gpuaas.core import checks
from gpuaas.core.checks import production_hosts, production_values, refuse_unsafe


@pytest.fixture
def safe(settings: Settings) -> Settings:
    settings.DEBUG = False
    settings.SECRET_KEY = "x" * 50
    settings.ALLOWED_HOSTS = ["gpu.example.org"]
    settings.PUBLIC_URL = "https://gpu.example.org"
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    return settings


def found() -> set[str | None]:
    return {check.id for check in (*production_values(None), *production_hosts(None))}


def test_safe_values_pass(safe: Settings) -> None:
    assert found() == set()


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("SECRET_KEY", "short", "gpuaas.E001"),
        ("ALLOWED_HOSTS", [], "gpuaas.E002"),
        ("DEBUG", True, "gpuaas.E003"),
        ("ALLOWED_HOSTS", ["*"], "gpuaas.E004"),
        ("PUBLIC_URL", "http://gpu.example.org", "gpuaas.E005"),
        ("ENCRYPTION_KEYS", [], "gpuaas.E006"),
        ("ENCRYPTION_KEYS", ["malformed"], "gpuaas.E007"),
        ("MAILS_ENABLED", False, "gpuaas.W001"),
        ("SECURE_SSL_REDIRECT", True, "gpuaas.W002"),
    ],
)
def test_unsafe_values_are_named(safe: Settings, name: str, value: object, error: str) -> None:
    setattr(safe, name, value)
    assert error in found()


def test_what_is_doubtful_starts_and_is_logged(safe: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = CapturingLogger()
    monkeypatch.setattr(checks, "log", heard)
    safe.MAILS_ENABLED = False
    safe.SECURE_SSL_REDIRECT = True
    refuse_unsafe()
    assert [call.kwargs["setting"] for call in heard.calls] == [
        "GPUAAS_MAIL_URL is not set",
        "GPUAAS_TRUSTED_PROXIES is empty",
    ]
    heard.calls.clear()
    safe.MAILS_ENABLED = True
    safe.TRUSTED_PROXIES = [ip_network("10.0.0.1")]
    refuse_unsafe()
    assert heard.calls == []


def test_demo_carries_what_it_needs(safe: Settings) -> None:
    safe.DEMO = True
    safe.SECRET_KEY = "short"
    assert production_values(None) == []
