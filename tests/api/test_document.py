"""The API's document: committed, complete, and shown on a page that our own content policy allows."""

import re
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from gpuaas.api.schema import operation
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
        for found in operations.values():
            seen += 1
            assert found["summary"]
            assert {"400", "401", "403", "404"} <= found["responses"].keys()
            for status, answer in found["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/json"]
    assert seen == sum(len(address.methods) for address in addresses())


def test_every_operation_has_a_text_of_its_own() -> None:
    """Not that of its class, which is for us; two operations at one address say two things."""
    for address in addresses():
        texts = [address.handler(method).__doc__ for method in address.methods]
        assert all(texts), address.name
        assert len(set(texts)) == len(texts), address.name

    def silent(self: object, request: object) -> None: ...

    with pytest.raises(TypeError, match="silent_one needs a docstring"):
        operation("silent_one", "Says nothing")(silent)


def test_what_can_be_written_can_be_read_at_its_address() -> None:
    document = yaml.safe_load(SNAPSHOT.read_text("utf-8"))
    written = {
        path: operations
        for path, operations in document["paths"].items()
        if operations.keys() & {"put", "patch", "delete"}
    }
    assert len(written) > 30
    assert [path for path, operations in written.items() if "get" not in operations] == []


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
