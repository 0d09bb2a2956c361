"""Headers of every page and of every refusal, through the URL conf: what is added there is met here."""

import gzip
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_network
from typing import Any

import pytest
from allauth.urls import urlpatterns as door_patterns
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import NoReverseMatch, include, path, reverse
from pytest_django import Settings

from frontend.operator_urls import urlpatterns as operator_patterns
from gpuaas.urls import urlpatterns as portal_patterns
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.apart import each_apart
from tests.api.addresses import addresses
from tests.frontend.operator.test_doors import QUERY, standing
from tests.frontend.operator.test_doors import address as operator_address
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_outsiders import POSTED, SCOPED, known_of, names
from tests.frontend.pages.test_outsiders import address as scoped_address

OPERATORS = sorted(str(pattern.name) for pattern in operator_patterns)
DOORS = sorted({name for name in names(door_patterns) if name != "None"})
YEAR = 31_536_000
UNSAFE = ("unsafe-inline", "unsafe-eval", "unsafe-hashes", "http:", "https:", "*", "blob:")


def fails(_request: HttpRequest) -> HttpResponse:
    raise RuntimeError("as a fault of ours would")


urlpatterns = [path("fails/", fails), path("api/v1/fails", fails), path("", include(portal_patterns))]


@pytest.fixture(autouse=True)
def _as_in_production(settings: Settings) -> None:
    settings.TRUSTED_PROXIES = [ip_network("127.0.0.1")]
    settings.SECURE_HSTS_SECONDS = YEAR
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = (
        True
    )


def policy(answer: Any) -> dict[str, list[str]]:
    rows = [row.split() for row in answer["Content-Security-Policy"].split(";") if row.strip()]
    return {name: values for name, *values in rows}


def hardened(answer: Any) -> None:
    """What every answer has, whatever it is an answer to."""
    found = policy(answer)
    assert found["default-src"] == found["script-src"] == found["style-src"] == ["'self'"]
    assert found["frame-ancestors"] == found["object-src"] == ["'none'"]
    assert found["base-uri"] == found["form-action"] == found["connect-src"] == ["'self'"]
    assert not [word for values in found.values() for word in values if any(bad in word for bad in UNSAFE)]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer["Strict-Transport-Security"] == f"max-age={YEAR}; includeSubDomains"
    for cookie in (one for one in answer.cookies.values() if one["max-age"] != 0):  # a deleted one is empty
        assert cookie["secure"]
        assert cookie["samesite"] == "Lax"
        assert not cookie["domain"]
        assert cookie["httponly"] or cookie.key == "csrftoken"
    assert "Server" not in answer.headers
    assert "X-Powered-By" not in answer.headers


def personal(answer: Any) -> None:
    hardened(answer)
    if answer.status_code not in {302, 405}:  # which say nothing of the reader
        assert "no-store" in answer["Cache-Control"]


def over_tls(client: Client) -> Client:
    client.defaults["HTTP_X_FORWARDED_PROTO"] = "https"
    client.raise_request_exception = False
    return client


def each(subtests: pytest.Subtests, cases: Iterable[str], check: Callable[[str], None]) -> None:
    each_apart(subtests, ((name, (name,)) for name in cases), check)


def test_pages_of_tenants(subtests: pytest.Subtests, workspace: Workspace, alice: User, bob: User) -> None:
    client, known = over_tls(signed_in(alice)), known_of(workspace, bob)

    def check(name: str) -> None:
        url = scoped_address(name, workspace, known)
        personal(client.post(url) if name in POSTED else client.get(url))

    each(subtests, SCOPED, check)


def test_pages_of_operators(subtests: pytest.Subtests, workspace: Workspace, olga: User, bob: User) -> None:
    client, found = over_tls(signed_in(olga)), standing(workspace, bob)

    def check(name: str) -> None:
        url = operator_address(name, workspace, found)
        personal(client.get(url, QUERY))

    each(subtests, OPERATORS, check)


@pytest.mark.parametrize("who", ["alice", "nobody"])
def test_doors(subtests: pytest.Subtests, alice: User, who: str) -> None:
    client = over_tls(signed_in(alice) if who == "alice" else Client())

    def check(name: str) -> None:
        for given in ((), ("x",), ("x", "y-z")):
            try:
                url = reverse(name, args=given)
            except NoReverseMatch:
                continue
            hardened(client.get(url))
            hardened(client.post(url))
            return

    each(subtests, DOORS, check)


def test_the_api(subtests: pytest.Subtests, alice: User) -> None:
    """As somebody who finds little there; its 200s have the same frame."""
    client, stranger = over_tls(signed_in(alice)), over_tls(Client())
    whole = {"month": "2026-11", "version": 1, "entry": 1, "number": "INV-2026-0001"}
    paths = {"/api/v1/", "/api/nothing", "/api/v1/projects"}
    for address in addresses():
        for word in ("x", alice.pk):
            with suppress(NoReverseMatch):
                paths.add(address.path(**{**dict.fromkeys(address.parameters, word), **whole}))
    assert len(paths) > 100

    def check(url: str) -> None:
        for answer in (client.get(url), stranger.post(url)):
            hardened(answer)
            assert "no-store" in answer.headers.get("Cache-Control", "") or not url.startswith("/api/v1/")

    each(subtests, sorted(paths), check)


@pytest.mark.parametrize("url", ["/fails/", "/api/v1/fails"])
def test_a_fault_of_ours(url: str, alice: User, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    answer = over_tls(signed_in(alice)).get(url)
    assert answer.status_code == 500
    hardened(answer)
    assert "as a fault of ours would" not in answer.content.decode()


def test_refusals(workspace: Workspace, alice: User, dora: User, settings: Settings) -> None:
    place = [workspace.project.slug, workspace.pk]
    viewer, owner = over_tls(signed_in(dora)), over_tls(signed_in(alice))
    forbidden = viewer.post(reverse("frontend:workspace_delete", args=place))
    missing = owner.get("/nothing/here/")
    wrong_method = owner.post("/health/live")
    unchecked = Client(enforce_csrf_checks=True)
    unchecked.force_login(alice)
    no_token = over_tls(unchecked).post(reverse("frontend:workspace_delete", args=place))
    settings.ALLOWED_HOSTS = ["gpu.example.org"]
    no_host = over_tls(Client()).get("/", headers={"host": "evil.example.org"})
    answers = (forbidden, missing, wrong_method, no_token, no_host)
    assert [answer.status_code for answer in answers] == [403, 404, 405, 302, 400]
    for answer in answers:
        hardened(answer)
        assert "evil.example.org" not in answer.content.decode()


@pytest.mark.parametrize(
    "url", ["/health/live", "/health/ready", "/health/parts", "/metrics", "/static/none.js"]
)
def test_addresses_for_machines(url: str, db: None) -> None:
    hardened(over_tls(Client()).get(url))


def test_pages_are_compressed_and_downloads_are_not(alice_at: Client, project: Project) -> None:
    takes = {"accept-encoding": "gzip, br"}
    page = alice_at.get(reverse("frontend:home", args=[project.slug]), headers=takes)
    assert page["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in page["Vary"]
    assert b"</html>" in gzip.decompress(page.content)
    for address in (reverse("frontend:costs_csv", args=[project.slug]), f"/api/v1/projects/{project.slug}"):
        answer = alice_at.get(address, headers=takes)
        assert answer.status_code == 200
        assert not answer.has_header("Content-Encoding")
