"""The database is away: words and 503 everywhere, and nothing that was typed is lost."""

import html
import re
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.api.caller import V1, Caller
from tests.frontend.away import away_from_here
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_ways_back import console_paths

pytestmark = pytest.mark.django_db(transaction=True)
HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


def kept_by(answer: Any) -> list[tuple[str, str]]:
    return [
        (html.unescape(name), html.unescape(value)) for name, value in HIDDEN.findall(answer.content.decode())
    ]


def browser_of(user: User | None = None, *, strict: bool = False) -> Client:
    browser = Client(enforce_csrf_checks=strict, raise_request_exception=False)
    if user is not None:
        browser.force_login(user)
    return browser


def test_every_page_says_so_and_asks_again(olga: User, workspace: Workspace) -> None:
    browser, stranger = browser_of(olga), browser_of()
    with away_from_here():
        for path in sorted(set(console_paths())):
            each = browser.get(path)
            assert (each.status_code, each["Retry-After"], each["Refresh"]) == (503, "5", "5"), path
        said = browser.get("/p/weather-lm/costs/?month=2026-11&by=day")
        piece = browser.get("/", headers={"HX-Request": "true"})
        known = [stranger.get("/accounts/login/"), stranger.get("/p/weather-lm/")]
    text = said.content.decode()
    assert "The portal cannot reach its database" in text
    assert 'href="/p/weather-lm/costs/?month=2026-11&amp;by=day"' in text
    assert "no-store" in said["Cache-Control"]
    assert "default-src" in said["Content-Security-Policy"]
    assert (piece.status_code, piece.content, piece["Retry-After"]) == (503, b"", "5")
    assert "Refresh" not in piece
    assert {one.status_code for one in known} <= {200, 302, 503}
    assert browser.get("/").status_code == 302


def test_its_links_lead_to_no_other_host(olga: User) -> None:
    browser = browser_of(olga)
    with away_from_here():
        said = [getattr(browser, way)("http://testserver//evil.example.org/x?a=1") for way in ("get", "post")]
    for each in said:
        assert each.status_code == 503
        assert '="/%2Fevil.example.org/x?a=1"' in each.content.decode()
        assert '"//evil' not in each.content.decode()


def test_the_api_says_so_in_its_shape(alice: User, project: Project) -> None:
    caller, stranger = Caller(alice), browser_of()
    for client in (caller.client, browser_of(alice)):
        client.raise_request_exception = False
        for method in ("get", "post", "delete"):
            with away_from_here():
                said = getattr(client, method)(f"{V1}/projects/weather-lm/workspaces", headers=caller.headers)
            assert (said.status_code, said["Retry-After"], said.json()["error"]["code"]) == (
                503,
                "5",
                "unavailable",
            )
            assert "cannot reach its database" in said.json()["error"]["message"]
    with away_from_here():
        dead = {settings.SESSION_COOKIE_NAME: "x" * 32}
        stranger.cookies.load(dead)
        said = stranger.get(f"{V1}/me")
    assert (said.status_code, said.json()["error"]["code"]) == (503, "unavailable")


def test_what_was_typed_can_be_sent_again(alice: User) -> None:
    browser, page = browser_of(alice, strict=True), reverse("frontend:keys")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(page).content.decode())
    assert found
    typed = {
        "csrfmiddlewaretoken": found[1],
        "name": 'lap"top <b>',
        "public_key": "nonsense",
        "password": "unseen",
    }
    with away_from_here():
        said = browser.post(
            f"{page}?a=1&b=2", typed | {"file": SimpleUploadedFile("x.txt", b"inside"), "code": "123"}
        )
    assert (said.status_code, said["Retry-After"]) == (503, "5")
    assert "Refresh" not in said
    text = said.content.decode()
    assert f'action="{page}?a=1&amp;b=2"' in text
    assert not {"unseen", "inside", "123"} & set(re.findall(r"\w+", text))
    kept = dict(kept_by(said))
    assert kept == {name: value for name, value in typed.items() if name != "password"}
    again = browser.post(page, kept)
    assert again.status_code == 422
    assert "lap&quot;top &lt;b&gt;" in again.content.decode()


def test_several_values_are_kept_and_secrets_of_sites_are_not(olga: User) -> None:
    browser = signed_in(olga)
    browser.raise_request_exception = False
    with away_from_here():
        said = browser.post(
            reverse("frontend:operator_site_new"),
            {
                "slug": "ber-9",
                "kubeconfig": "apiVersion: v1",
                "application_credential_secret": "deep",
                "zone": ["a", "b"],
            },
        )
    assert kept_by(said) == [("slug", "ber-9"), ("zone", "a"), ("zone", "b")]


def test_no_token_is_made_for_a_form_of_another_site(alice: User) -> None:
    browser = browser_of(alice, strict=True)
    with away_from_here():
        said = browser.post(
            reverse("frontend:account"), {"time_zone": "Asia/Tokyo", "csrfmiddlewaretoken": "x" * 64}
        )
    if said.status_code == 503:
        assert dict(kept_by(said))["csrfmiddlewaretoken"] == "x" * 64
    assert browser.cookies.get(settings.CSRF_COOKIE_NAME) is None


def test_too_much_and_broken_forms_are_answered_too(alice: User, settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 3
    browser = browser_of(alice)
    with away_from_here():
        said = browser.post(reverse("frontend:account"), {f"f{n}": "x" for n in range(9)})
        broken = browser.post("/account/", b"--x\r\nbroken", content_type="multipart/form-data; boundary=")
    assert said.status_code in {400, 503}
    assert broken.status_code in {400, 503}


def test_other_errors_stay_what_they_are(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("frontend.middleware.ConsoleMiddleware.process_view", broken)
    browser = browser_of(alice)
    browser.handler.load_middleware()
    assert browser.get("/account/").status_code == 500
