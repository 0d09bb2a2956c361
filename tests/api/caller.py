"""A program or a browser that speaks to the API, as tests write it."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.test import Client
from django.utils.crypto import get_random_string

from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.roles import TOKEN_SCOPES
from tenants.selectors import actor_for
from tenants.services import token_create

V1 = "/api/v1"


class Answer:
    """Status, headers and the parsed body; a refusal is checked to have the one shape."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.headers = response.headers
        self.content: bytes = response.getvalue()
        self.is_json = response.headers.get("Content-Type", "").startswith("application/json")
        self.json: Any = json.loads(response.content) if self.content and self.is_json else None
        if self.status >= 400:
            self._check_shape()

    def _check_shape(self) -> None:
        assert self.is_json, self.content[:300]
        assert set(self.json) == {"error"}
        error = self.json["error"]
        assert (
            {"code", "message", "detail", "request_id"}
            <= set(error)
            <= {
                "code",
                "message",
                "detail",
                "request_id",
                "fields",
            }
        )
        assert error["message"]
        assert error["request_id"] == self.headers["X-Request-ID"]

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.json["error"])


class Caller:
    """`Caller(user)` is a signed-in browser, `Caller(token=…)` a program, `Caller()` nobody."""

    def __init__(self, user: User | None = None, *, token: str | None = None) -> None:
        self.client = Client(raise_request_exception=False)
        if user is not None:
            self.client.force_login(user)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """`path` below /api/v1, or a whole address; header names with _ for -."""
        parts = urlsplit(path)
        whole = parts.path if parts.path.startswith("/api") else V1 + parts.path
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        response = self.client.generic(
            method,
            f"{whole}?{parts.query}" if parts.query else whole,
            raw,
            content_type="application/json",
            headers={**self.headers, **named},
        )
        return Answer(response)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("PATCH", path, body, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.ask("DELETE", path, **headers)


def token_for(user: User, project: Project, *, scopes: list[str] | None = None, days: int = 30) -> str:
    actor: Actor = actor_for(user=user)
    held = actor.on_project(project.pk, project.organization_id)
    wanted = scopes or sorted(scope.value for scope in TOKEN_SCOPES if scope in held)
    expires = clock.now() + timedelta(days=days)
    _, raw = token_create(
        actor=actor, project=project, name=f"test {get_random_string(6)}", scopes=wanted, expires_at=expires
    )
    return raw
