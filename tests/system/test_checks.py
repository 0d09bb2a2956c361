"""`check --deploy` names each service that does not answer, and each site."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError

from deploy import embedded
from gpuaas.catalog.models import Site
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.system import checks, health
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db(transaction=True)
NOBODY = "127.0.0.1:9"  # the port of `discard`, where nobody listens


@pytest.fixture
def site(settings: Any) -> Site:
    settings.CELERY_BROKER_URL = embedded.test_redis_url()
    return SiteFactory.create(slug="ber-1", driver="sandbox")


def said() -> dict[str, str]:
    return {str(each.id): f"{each.msg} {each.hint}" for each in checks.services_answer(None)}


def test_where_all_answer_nothing_is_said(site: Site) -> None:
    assert said() == {}


def test_each_service_that_does_not_answer_is_named(
    site: Site, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CELERY_BROKER_URL = f"redis://:word@{NOBODY}/0"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = NOBODY.split(":")
    monkeypatch.setattr(checks, "clock_skew", lambda: -3.2)
    found = said()
    assert set(found) == {"gpuaas.broker", "gpuaas.mail", "gpuaas.clock"}
    assert "GPUAAS_MAIL_URL" in found["gpuaas.mail"]
    assert "by 3.2 seconds" in found["gpuaas.clock"]
    assert "word" not in str(found)
    settings.MAILS_ENABLED = False
    assert "gpuaas.mail" not in said(), "nobody wants mail"


def test_without_the_database_what_only_it_knows_is_not_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        raise OperationalError("connection refused")

    monkeypatch.setattr(health, "migrations_missing", away)
    dials_set(site.pk, down=True)
    assert set(said()) == {"gpuaas.database"}


def test_a_site_that_is_away_is_a_warning_and_one_that_is_off_is_not_asked(site: Site) -> None:
    dials_set(site.pk, down=True)
    (found,) = checks.services_answer(None)
    assert "ber-1" in found.msg
    assert not found.is_serious()
    Site.objects.update(enabled=False)
    assert said() == {}


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Probes that answer only when the test is over."""
    over = threading.Event()
    monkeypatch.setattr(SandboxDriver, "probe", lambda *_: over.wait(60))
    yield
    over.set()


@pytest.mark.usefixtures("stuck")
def test_a_site_that_never_answers_holds_nobody_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SITE_SECONDS", 0.1)
    assert "no answer within 0.1 seconds" in said()["gpuaas.site"]
