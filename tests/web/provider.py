"""A provider of OpenID Connect in a process of its own, and a person with a browser's cookies who signs in there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests

from tests.e2e.portal import wait_until
from tests.frontend.pages.server import free_port

LIMIT = 60


@dataclass(frozen=True)
class Provider:
    url: str

    def knows(self, sub: str, **claims: Any) -> None:
        requests.put(f"{self.url}/users/{sub}", json=claims, timeout=LIMIT).raise_for_status()

    def variables(self) -> dict[str, str]:
        """What makes a portal ask it."""
        return {
            "GPUAAS_OIDC_ISSUER": self.url,
            "GPUAAS_OIDC_CLIENT_ID": "portal",
            "GPUAAS_OIDC_CLIENT_SECRET": "secret",
        }


@contextmanager
def provider() -> Iterator[Provider]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found = Provider(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        assert process.poll() is None, "the provider has ended; is oidc-provider-mock installed?"
        try:
            return requests.get(f"{found.url}/.well-known/openid-configuration", timeout=LIMIT).ok
        except requests.ConnectionError:
            return False

    try:
        wait_until("the provider", answers, seconds=LIMIT)
        yield found
    finally:
        process.kill()
        process.wait()


@dataclass
class Person:
    portal: str
    session: requests.Session = field(default_factory=requests.Session)

    def enters(self, sub: str, query: str = "") -> requests.Response:
        """Presses the button of the sign-in page, and is `sub` at the provider; the page where that ends."""
        page = self.session.get(f"{self.portal}/accounts/login/", timeout=LIMIT)
        sent = {"csrfmiddlewaretoken": _token(page)}
        button = f"{self.portal}/accounts/oidc/oidc/login/{query}"
        asked = self.session.post(button, sent, headers={"Referer": page.url}, timeout=LIMIT)
        assert urlsplit(asked.url).path == "/oauth2/authorize", asked.text
        return self.session.post(asked.url, {"sub": sub}, timeout=LIMIT)

    def is_in(self) -> str:
        """The name under which, or ""."""
        answer = self.session.get(f"{self.portal}/api/v1/me", timeout=LIMIT)
        return str(answer.json()["username"]) if answer.ok else ""


def _token(page: requests.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert found, page.text
    return found[1]
