"""Whatever is wrong with a request: the one error shape, 4xx, nothing changed."""

import bz2
import json
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.core import clock
from gpuaas.core.ids import uuid7
from gpuaas.workspaces.models import Operation, Workspace
from quotas.models import Limit, Reservation
from tenants.models import ApiToken, AuditEntry, Project, User
from tests.api.caller import Answer, Caller, token_for

pytestmark = pytest.mark.django_db

HOME = "/projects/weather-lm/workspaces"
GOOD: dict[str, Any] = {"name": "train-7b", "items": [{"flavor": "h100.1", "count": 2}], "storage_gib": 100}


def snapshot() -> tuple[Any, ...]:
    return (
        Workspace.objects.count(),
        Operation.objects.count(),
        Reservation.objects.count(),
        AuditEntry.objects.exclude(action__startswith="token.").count(),
        list(Limit.objects.order_by("pk").values_list("pk", "hard", "used", "version")),
    )


def count(value: Any) -> dict[str, Any]:
    return GOOD | {"items": [{"flavor": "h100.1", "count": value}]}


def named(value: Any) -> dict[str, Any]:
    return GOOD | {"name": value}


BAD: dict[str, Any] = {
    "unknown flavor": GOOD | {"items": [{"flavor": "b300.8", "count": 1}]},
    "count zero": count(0),
    "count negative": count(-1),
    "count fractional": count(1.5),
    "count a whole float": count(2.0),
    "count in quotes": count("2"),
    "count true": count(True),
    "count 1e30": count(1e30),
    "count huge": count(10**30),
    "count beyond 64 bits": count(2**63),
    "count null": count(None),
    "count a list": count([2]),
    "count missing": GOOD | {"items": [{"flavor": "h100.1"}]},
    "items empty": GOOD | {"items": []},
    "items null": GOOD | {"items": None},
    "items an object": GOOD | {"items": {"flavor": "h100.1", "count": 1}},
    "items of numbers": GOOD | {"items": [1, 2]},
    "items too many": GOOD | {"items": [{"flavor": f"f{n}", "count": 1} for n in range(500)]},
    "items twice the same": GOOD | {"items": [{"flavor": "h100.1", "count": 1}] * 2},
    "flavor a number": GOOD | {"items": [{"flavor": 1, "count": 1}]},
    "flavor with NUL": GOOD | {"items": [{"flavor": "h100\x00", "count": 1}]},
    "name of 300 characters": named("a" * 300),
    "name unicode": named("größe"),
    "name emoji": named("🚀"),
    "name right-to-left": named("\u202eevil"),
    "name empty": named(""),
    "name of blanks": named("   "),
    "name upper case": named("Train"),
    "name with a slash": named("a/b"),
    "name with NUL": named("a\x00b"),
    "name a lone surrogate": named("\ud800"),
    "name a number": named(7),
    "name null": named(None),
    "name missing": {"items": GOOD["items"]},
    "storage negative": GOOD | {"storage_gib": -1},
    "storage huge": GOOD | {"storage_gib": 10**12},
    "storage null": GOOD | {"storage_gib": None},
    "storage true": GOOD | {"storage_gib": True},
    "lease in the past": GOOD | {"lease_ends_at": "2001-01-01T00:00:00Z"},
    "lease far ahead": GOOD | {"lease_ends_at": "9999-12-31T23:59:59Z"},
    "lease beyond time": GOOD | {"lease_ends_at": "9999-12-31T23:59:59-14:00"},
    "lease without zone": GOOD | {"lease_ends_at": "2026-12-01T00:00:00"},
    "lease a date and a time that looks like an offset": GOOD
    | {"lease_ends_at": f"{clock.now() + timedelta(days=9):%Y-%m-%d}-05:00"},
    "lease a date": GOOD | {"lease_ends_at": "2026-12-01"},
    "lease a number": GOOD | {"lease_ends_at": 1764547200},
    "lease nonsense": GOOD | {"lease_ends_at": "tomorrow"},
    "unknown field": GOOD | {"colour": "red"},
    "unknown field in an item": GOOD | {"items": [{"flavor": "h100.1", "count": 1, "price": 0}]},
    "unknown field with odd name": GOOD | {"\ud800": 1},
    "another project in the body": GOOD | {"project": "protein-fold"},
    "another owner in the body": GOOD | {"created_by": "charlie"},
    "member an outsider": GOOD | {"members": [{"username": "charlie", "role": "edit"}]},
    "member unknown": GOOD | {"members": [{"username": "nobody", "role": "edit"}]},
    "member with odd role": GOOD | {"members": [{"username": "alice", "role": "root"}]},
    "members a string": GOOD | {"members": "alice"},
    "a list": [GOOD],
    "a string": "train",
    "a number": 5,
    "null": None,
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_a_bad_request_changes_nothing(
    program: Caller, limits: None, charlie: User, body: dict[str, Any]
) -> None:
    before = snapshot()
    refused = program.post(HOME, json.dumps(body).encode())
    assert refused.status == 400, refused.json
    assert refused.code in {"invalid", "malformed"}
    assert snapshot() == before


RAW = {
    "not JSON": b"name=train",
    "half of it": b'{"name": ',
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "NaN": b'{"name": "a", "storage_gib": NaN}',
    "infinite": b'{"name": "a", "storage_gib": 1e999}',
    "nested deeply": b"[" * 50_000,
    "nested deeply and closed": b"[" * 30_000 + b"]" * 30_000,
    "a number of 50,000 digits": b'{"storage_gib": ' + b"9" * 50_000 + b"}",
    "nothing": b"",
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
def test_a_malformed_body_changes_nothing(program: Caller, limits: None, raw: bytes) -> None:
    before = snapshot()
    assert program.post(HOME, raw).status == 400
    assert snapshot() == before


def test_a_body_that_is_too_large(program: Caller, limits: None) -> None:
    refused = program.post(HOME, b'{"name": "' + b"a" * 70_000 + b'"}')
    assert (refused.status, refused.code) == (413, "too_large")


def test_another_content_type(program: Caller, limits: None) -> None:
    response = program.client.post(
        f"/api/v1{HOME}", GOOD["name"], content_type="text/plain", headers=program.headers
    )
    refused = Answer(response)
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


def test_another_answer_type(program: Caller) -> None:
    refused = program.get("/me", Accept="application/xml")
    assert (refused.status, refused.code) == (406, "not_acceptable")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "OPTIONS", "TRACE", "BREW"])
def test_another_method(program: Caller, method: str) -> None:
    refused = program.ask(method, "/me")
    assert (refused.status, refused.code) == (405, "method_not_allowed")


PATHS = [
    "/nothing/here",
    "/projects/Weather-LM",
    "/projects/%00",
    "/projects/..%2f..%2fetc",
    "/projects/" + "a" * 300,
    "/projects/gr%C3%B6%C3%9Fe/workspaces",
    "/projects/weather-lm/workspaces/1",
    "/projects/weather-lm/workspaces/0193fb00-0000-7000-8000-00000000000g",
    "/projects/weather-lm/statements/2026-13",
    "/projects/weather-lm/statements/26-1",
    "/projects/weather-lm/members/%00",
    "/me/",
    "/projects/weather-lm/",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_malformed_address_is_404(program: Caller, path: str) -> None:
    refused = program.get(path)
    assert (refused.status, refused.code) == (404, "not_found")


@pytest.mark.parametrize("address", ["/api/", "/api/v2/me", "/api/v1", "/api/v1/"])
def test_below_api_nothing_else_answers(nobody: Caller, address: str) -> None:
    assert nobody.get(address).code == "not_found"


def test_nobody_is_told_how_to_sign_in(nobody: Caller) -> None:
    refused = nobody.get("/me")
    assert (refused.status, refused.code) == (401, "unauthorized")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")


TOKENS = [
    "",
    "gpa_x",
    "gpa_0123456789ab_wrong",
    "gpa_a_b_c",
    "gpa_\u00e4_b",
    "x" * 5000,
    "gpa_0123456789ab_\x7f",
]


@pytest.mark.parametrize("raw", TOKENS)
def test_a_wrong_token_is_401(nobody: Caller, raw: str) -> None:
    refused = nobody.get("/me", Authorization=f"Bearer {raw}")
    assert (refused.status, refused.code) == (401, "unauthorized")


def test_another_scheme_is_401(nobody: Caller) -> None:
    assert nobody.get("/me", Authorization="Basic YWxpY2U6cGFzcw==").status == 401


def test_a_wrong_token_is_not_helped_by_a_session(alice: User) -> None:
    assert Caller(alice).get("/me", Authorization="Bearer gpa_0123456789ab_wrong").status == 401


@pytest.mark.parametrize("change", ["expired", "revoked", "disabled"])
def test_a_token_that_is_over_is_401_and_changes_nothing(
    alice: User, project: Project, limits: None, change: str
) -> None:
    raw = token_for(alice, project)
    now = clock.now()
    if change == "expired":
        ApiToken.objects.update(expires_at=now - timedelta(seconds=1))
    elif change == "revoked":
        ApiToken.objects.update(revoked_at=now)
    else:
        User.objects.filter(pk=alice.pk).update(is_active=False)
    before = snapshot()
    refused = Caller(token=raw).post(HOME, GOOD)
    assert (refused.status, refused.code) == (401, "unauthorized")
    assert "WWW-Authenticate" in refused.headers
    assert snapshot() == before


def test_another_projects_id(program: Caller, other_project: Project, limits: None) -> None:
    before = snapshot()
    assert program.post(f"/projects/{other_project.slug}/workspaces", GOOD).status == 404
    assert program.get(f"/projects/{other_project.pk}").status == 404
    assert program.delete(f"{HOME}/{uuid7()}").status == 404
    assert snapshot() == before


@pytest.mark.parametrize("charset", ["bz2", "zlib", "rot13", "hex", "utf-16", "utf-7", "latin-1"])
@pytest.mark.parametrize("path", [HOME, "/node-reports", "/queue-reports"])
def test_json_is_utf_8(program: Caller, charset: str, path: str) -> None:
    """bz2 would make a gigabyte of a few hundred bytes, of which the limit knows nothing. Two addresses parse before they know who
    asks."""
    body = bz2.compress(b'"' + b"a" * 10**6 + b'"') if charset == "bz2" else b"{}"
    headers = program.headers if path == HOME else {"Authorization": "Bearer x"}

    def sent(charset: str) -> Answer:
        named = f"application/json; charset={charset}"
        return Answer(
            program.client.generic("POST", f"/api/v1{path}", body, content_type=named, headers=headers)
        )

    assert (sent(charset).status, sent(charset).code) == (415, "unsupported_media_type")
    assert sent("UTF-8").status in {400, 401}


def test_a_browser_without_the_csrf_token_is_refused(alice: User, limits: None) -> None:
    caller = Caller(alice)
    caller.client.handler.enforce_csrf_checks = True
    refused = caller.post(HOME, GOOD)
    assert (refused.status, refused.code) == (403, "csrf_failed")
    assert not Workspace.objects.exists()


def test_what_breaks_inside_is_said_in_the_shape(
    program: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> None:
        raise ZeroDivisionError("secret inner words")

    monkeypatch.setattr("gpuaas.api.v1.tenants.projects.projects_for", broken)
    refused = program.get("/projects")
    assert (refused.status, refused.code) == (500, "internal_error")
    assert "secret" not in refused.content.decode()
