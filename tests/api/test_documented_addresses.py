"""Each address of the API that a guide, a README or a page names is there, as it is written."""

import html
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import resolve, reverse

from gpuaas.api.errors import not_found
from gpuaas.core.ids import uuid7
from tenants.models import ApiToken, Project, User
from tests.frontend.pages.conftest import signed_in

ROOT = Path(settings.BASE_DIR)
ADDRESS = re.compile(r"(?<!gpuaas)/api/v1/[A-Za-z0-9_{}$/.%-]+")
GIVEN = {".md", ".yaml", ".yml", ".json", ".tpl", ".txt", ".example", ".service", ".timer", ".sh"}
FOLDER = re.compile(r"^([A-Z])=\S*?(/api/v1/\S+)$", re.MULTILINE)


def texts() -> list[Path]:
    rooms = [path.parent / "README.md" for path in ROOT.glob("*/**/apps.py") if ".venv" not in path.parts]
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("frontend/templates/**/*.html")]
    # programs of deploy/ speak to Kubernetes, whose API has the same path
    given = [
        path for path in ROOT.glob("deploy/**/*") if path.suffix in GIVEN or path.name == "Containerfile"
    ]
    return [ROOT / "README.md", *pages, *given, *(path for path in rooms if path.exists())]


def named(text: str) -> Iterator[str]:
    """Below /api/v1/, with the variables of shell examples (`C=$PORTAL/api/v1/…`) filled in."""
    folders = dict(FOLDER.findall(text))
    whole = re.sub(r"\$([A-Z])(?=/)", lambda match: folders.get(match[1], match[0]), text)
    yield from (found.rstrip(".,") for found in ADDRESS.findall(whole))


def filled(address: str) -> Iterator[str]:
    """Placeholders as a name or as an id, whichever the address takes."""
    for value in ("weather-lm", str(uuid7()), "2026-11", "1"):
        yield re.sub(r"\{\w+\}|\$\w+", value, address)


def is_there(address: str) -> bool:
    return any(resolve(path).func is not not_found for path in filled(address))


def test_every_address_is_there() -> None:
    found = {address for path in texts() for address in named(path.read_text("utf-8"))}
    assert len(found) > 45
    assert [address for address in sorted(found) if not is_there(address)] == []


@pytest.mark.django_db(transaction=True)
def test_the_command_beside_a_new_token_works(alice: User, project: Project, live_server: Any) -> None:
    browser = signed_in(alice)
    made = {"name": "laptop", "scopes": ["workspace:view"], "expires_at": "2027-01-01T00:00"}
    host = live_server.url.partition("://")[2]
    page = browser.post(reverse("frontend:tokens", args=[project.slug]), made, headers={"host": host})
    assert ApiToken.objects.count() == 1, page.content
    copied = [html.unescape(text) for text in re.findall(r'data-copy="([^"]+)"', page.content.decode())]
    (command,) = [text for text in copied if text.startswith("curl ")]
    said = subprocess.run(
        [*shlex.split(command), "-sS"], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(said.stdout)["username"] == "alice"
