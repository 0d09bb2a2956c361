"""The API's document: committed, complete, and shown on a page that our own content policy allows."""

import re
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from tests.api.addresses import addresses

SNAPSHOT = Path(settings.BASE_DIR) / "docs" / "openapi.v1.yaml"


def test_the_committed_document_is_current(tmp_path: Path) -> None:
    """Refresh with `make openapi`; the difference belongs into the commit that changes the API."""
    fresh = tmp_path / "openapi.yaml"
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(fresh))
    assert fresh.read_text("utf-8") == SNAPSHOT.read_text("utf-8"), (
        "docs/openapi.v1.yaml is not what the code says: run `make openapi`"
    )


def test_every_operation_says_how_it_refuses() -> None:
    document = yaml.safe_load(SNAPSHOT.read_text("utf-8"))
    seen = 0
    for operations in document["paths"].values():
        for operation in operations.values():
            seen += 1
            assert operation["summary"]
            assert {"400", "401", "403", "404"} <= operation["responses"].keys()
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/json"]
    assert seen == sum(len(address.methods) for address in addresses())


@pytest.mark.django_db
def test_the_page_needs_nothing_that_the_content_policy_forbids() -> None:
    client = Client()
    page = client.get("/api/docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "'unsafe-inline'" not in page.headers["Content-Security-Policy"]
    assert not re.findall(r"<script(?![^>]*src=)", text)
    assert "<style" not in text
    assert " style=" not in text
    assert " onload=" not in text
    for address in re.findall(r'(?:src|href)="([^"]+)"', text):
        assert address.startswith("/"), address
    script = client.get("/api/docs/?script=")
    assert script.headers["Content-Type"].startswith("application/javascript")
    assert "/api/schema" in script.content.decode()
    assert client.get("/api/schema").status_code == 200
