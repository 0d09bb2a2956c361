"""What a first and a second visit cost, in a real browser, from the web process of the demo and of production."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.conf import settings as django_settings
from django.core.management import call_command
from playwright.sync_api import Page, Response

from billing.services import rate_set
from deploy import embedded
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.workspaces.services import workspace_request
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make
from tests.factories.quotas import limits_give
from tests.metering.meters import database_here
from tests.web.process import Web, web_process
from tests.web.test_streams import cookie_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

FIRST_LOAD = 130_000  # bytes; uncompressed it is 220,000
WITH_A_CHART = 150_000  # bytes of a page, its files and its parts
TEXT = (".js", ".css", ".svg")


def demo(folder: Path) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "gpuaas.settings.demo", "GPUAAS_DEMO_FOLDER": str(folder)}


def production(folder: Path) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "gpuaas.settings.production",
        "GPUAAS_SECRET_KEY": django_settings.SECRET_KEY,
        "GPUAAS_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
        "GPUAAS_ALLOWED_HOSTS": "127.0.0.1",
        "GPUAAS_PUBLIC_URL": "https://gpu.example.org",
        "GPUAAS_SSL_REDIRECT": "false",
        "GPUAAS_STATIC_ROOT": str(folder),
    }


@pytest.fixture(params=[demo, production])
def web(request: Any, tmp_path: Path, settings: Any) -> Iterator[Web]:
    changes = request.param(tmp_path)
    if request.param is production:
        settings.STATIC_ROOT = str(tmp_path)
        settings.STORAGES = {
            **settings.STORAGES,
            "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
        }
        call_command("collectstatic", "--no-input", "--ignore", "drf_spectacular_sidecar", verbosity=0)
    services = {"GPUAAS_DATABASE_URL": database_here(), "GPUAAS_BROKER_URL": embedded.test_redis_url()}
    with web_process(**services, **changes) as found:
        yield found


def visit(page: Page, web: Web) -> list[Response]:
    """The answers that came for files of the front end."""
    found: list[Response] = []
    page.on("response", lambda answer: found.append(answer) if "/static/" in answer.url else None)
    page.goto(f"{web.url}/accounts/login/", wait_until="networkidle")
    return found


def test_files_come_once_and_small(web: Web, chromium: Any) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        answers = visit(page, web)
        assert {Path(answer.url).suffix for answer in answers} >= {".js", ".css", ".woff2"}
        for answer in answers:
            assert answer.status == 200
            assert answer.header_value("cache-control") == "max-age=31536000, public, immutable", answer.url
            if answer.url.partition("#")[0].endswith(TEXT) and "favicon" not in answer.url:
                assert answer.header_value("content-encoding") == "br", answer.url
                assert "Accept-Encoding" in (answer.header_value("vary") or "")
        assert sum(answer.request.sizes()["responseBodySize"] for answer in answers) < FIRST_LOAD
        page.goto("about:blank")
        page.goto(f"{web.url}/accounts/login/?again", wait_until="networkidle")
        sizes: list[int] = page.evaluate(
            "performance.getEntriesByType('resource').filter(e => e.name.includes('/static/')).map(e => e.transferSize)"
        )
        assert sizes
        assert set(sizes) == {0}


def test_gzip_for_those_who_take_no_brotli(web: Web, chromium: Any) -> None:
    with chromium.new_context() as context:
        asset = next(answer.url for answer in visit(context.new_page(), web) if answer.url.endswith(".js"))
        for wanted in ("gzip", "identity"):
            answer = context.request.get(asset, headers={"Accept-Encoding": wanted})
            assert answer.ok
            assert answer.headers.get("content-encoding", "identity") == wanted
            assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("web", [production], indirect=True)
def test_the_first_page_with_a_chart_is_small(
    web: Web, chromium: Any, alice: User, as_alice: Actor, project: Project, h100: Flavor
) -> None:
    now = clock.now()
    limits_give(project, {"gpu:h100-sxm-80gb": 8})
    yesterday = now - timedelta(days=1)
    rate_set(actor=SYSTEM, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=yesterday)
    workspace = workspace_request(
        actor=as_alice, project=project, name="era5-finetune", items=[("h100.1", 2)]
    )
    interval_make(workspace, h100, now - timedelta(hours=2), now - timedelta(hours=1))
    name, _, value = cookie_of(alice).partition("=")
    with chromium.new_context() as context:
        context.add_cookies([{"name": name, "value": value, "url": web.url}])
        page = context.new_page()
        answers: dict[str, Response] = {}
        page.on("response", lambda answer: answers.update({answer.url: answer}))
        page.goto(f"{web.url}/p/weather-lm/", wait_until="networkidle")
        page.locator("#cost-by-day [data-chart-canvas] canvas").wait_for()
        weights = {url: answer.request.sizes()["responseBodySize"] for url, answer in answers.items()}
    assert any("chart-draw" in url for url in weights)
    assert sum(weights.values()) < WITH_A_CHART, weights
