"""Whoever stands before the views of /api/ answers programs in the one error shape, through the real server."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import get_resolver
from pytest_django import Settings

from gpuaas.api.middleware import ApiAnswersMiddleware
from tenants.models import User
from tests.web.process import Web, web_process

pytestmark = pytest.mark.django_db(transaction=True)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


@pytest.fixture
def web() -> Iterator[Web]:
    """Of a portal that has a name, so that others are refused."""
    with web_process(GPUAAS_TEST_HOSTS="127.0.0.1") as found:
        yield found


def ask(web: Web, method: str, path: str, body: bytes = b"{}", **headers: str) -> tuple[int, Any]:
    """Status and the checked error, or None where it was no refusal."""
    named = {"Content-Type": "application/json"} | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    with contextlib.closing(http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=30)) as connection:
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, error_of(answer.status, dict(answer.getheaders()), answer.read())


def error_of(status: int, headers: dict[str, str], content: bytes) -> Any:
    named = {name.lower(): text for name, text in headers.items()}
    if status < 400:
        return None
    assert named["content-type"].startswith("application/json"), content[:300]
    body = json.loads(content)
    assert set(body) == {"error"}
    assert {"code", "message", "detail", "request_id"} <= set(body["error"])
    assert body["error"]["request_id"] == named["x-request-id"]
    if status == 401:
        assert named["www-authenticate"].startswith("Bearer")
    return body["error"]


def test_nobody_at_addresses_that_are_not_there(web: Web) -> None:
    for method in METHODS:
        status, error = ask(web, method, "/api/v1/nothing/here")
        assert (status, error["code"]) == (404, "not_found"), method
    for path in ("/api/", "/api/v2/me", "/api/v1/projects/%00/workspaces", "/api/v1/projects/%FF"):
        status, error = ask(web, "POST", path)
        assert 400 <= status < 500, path
        assert error["code"] in {"not_found", "unauthorized", "method_not_allowed"}, path


def test_a_dead_session_is_no_session(web: Web, alice: User) -> None:
    client = Client()
    client.force_login(alice)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    status, error = ask(web, "POST", "/api/v1/projects/weather-lm/workspaces", Cookie=cookie)
    assert (status, error["code"]) == (403, "csrf_failed")
    client.logout()
    for dead in (cookie, f"{settings.SESSION_COOKIE_NAME}=x", f"{settings.SESSION_COOKIE_NAME}={'é' * 40}"):
        status, error = ask(web, "POST", "/api/v1/projects/weather-lm/workspaces", Cookie=dead)
        assert (status, error["code"]) == (401, "unauthorized")


def test_hosts_methods_and_forms_that_are_not_ours(web: Web) -> None:
    status, error = ask(web, "GET", "/api/v1/me", Host="evil.example.org")
    assert (status, error["code"]) == (400, "malformed")
    status, error = ask(web, "GET", "/api/v1/me", Accept="text/html")
    assert (status, error["code"]) == (406, "not_acceptable")
    status, error = ask(web, "POST", "/api/schema")
    assert (status, error["code"]) == (405, "method_not_allowed")
    status, error = ask(web, "GET", "/api/schema", Accept="image/png")
    assert (status, error["code"]) == (406, "not_acceptable")


def test_every_view_below_api_asks_for_no_csrf_token_of_the_framework() -> None:
    """It would refuse before the view learns who asks; browsers' sessions are checked by the API itself."""
    (below,) = [row for row in get_resolver().url_patterns if str(row.pattern) == "api/"]
    rows: list[Any] = list(getattr(below, "url_patterns", []))
    seen = 0
    while rows:
        row = rows.pop()
        if hasattr(row, "url_patterns"):
            rows.extend(row.url_patterns)
            continue
        seen += 1
        assert getattr(row.callback, "csrf_exempt", False), row
    assert seen > 100


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (HttpResponse("<h1>Forbidden</h1>", status=403), 403, "forbidden"),
        (HttpResponse("<h1>Bad Request</h1>", status=400), 400, "malformed"),
        (HttpResponse("too much", status=413), 413, "too_large"),
        (HttpResponse("<h1>Server Error</h1>", status=500), 500, "internal_error"),
        (HttpResponse("<h1>Teapot</h1>", status=418), 418, "malformed"),
        (
            HttpResponse(status=302, headers={"Location": "/accounts/login/?next=/api/v1/me"}),
            401,
            "unauthorized",
        ),
        (HttpResponse(status=302, headers={"Location": "https://elsewhere.example.org/"}), 302, None),
        (HttpResponse("<h1>Docs</h1>"), 200, None),
    ],
)
def test_what_a_middleware_says_is_translated(answer: HttpResponse, status: int, code: str | None) -> None:
    def inner(request: HttpRequest) -> HttpResponse:
        del request
        return answer

    said = ApiAnswersMiddleware(inner)(RequestFactory().get("/api/v1/me"))
    assert said.status_code == status
    if code is not None:
        assert json.loads(said.getvalue())["error"]["code"] == code
    page = ApiAnswersMiddleware(inner)(RequestFactory().get("/p/weather-lm/"))
    assert page is answer


def test_a_middleware_that_breaks(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("secret inner words")

    monkeypatch.setattr("frontend.middleware.ConsoleMiddleware.process_view", broken)
    client.raise_request_exception = False
    client.handler.load_middleware()
    said = client.get("/api/v1/me")
    assert said.status_code == 500
    assert error_of(500, dict(said.headers), said.content)["code"] == "internal_error"
    assert "secret" not in said.content.decode()


@pytest.mark.parametrize("path", ["/api/v1/me", "/api/v1/nothing", "/api/", "/api"])
def test_what_is_sent_without_tls_is_refused_and_not_redirected(
    client: Client, settings: Settings, path: str
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    client.handler.load_middleware()
    for method in ("post", "put", "patch", "delete", "options"):
        said = getattr(client, method)(path)
        assert (said.status_code, error_of(403, dict(said.headers), said.content)["code"]) == (
            403,
            "https_required",
        )
    assert client.get(path)["Location"] == f"https://testserver{path}"
    assert client.post("/accounts/login/").status_code == 301


def test_the_address_without_its_slash(client: Client) -> None:
    for method in ("get", "post", "delete"):
        said = getattr(client, method)("/api")
        assert (said.status_code, error_of(404, dict(said.headers), said.content)["code"]) == (
            404,
            "not_found",
        )
    assert client.get("/apis").status_code == 404
    assert client.get("/apis")["Content-Type"].startswith("text/html")
