"""/metrics is for whoever holds its token, and is not there where no token is set."""

from typing import Any

import pytest
from django.test import Client

from tenants.models import User

pytestmark = pytest.mark.django_db
TOKEN = "a token for Prometheus alone"


@pytest.mark.parametrize("address", ["/metrics", "/metrics/portal", "/health/parts"])
@pytest.mark.parametrize("given", ["", "Bearer ", f"Bearer {TOKEN}"])
def test_without_a_setting_there_is_nothing(
    client: Client, olga: User, settings: Any, address: str, given: str
) -> None:
    """In the words of a scraper, who reads no pages; and nothing that a page for people would tell beside."""
    settings.METRICS_TOKEN = ""
    client.force_login(olga)
    said = client.get(address, headers={"Authorization": given} if given else {})
    assert (said.status_code, said.content) == (404, b"not found\n")
    assert said["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_others_are_refused(client: Client, olga: User, settings: Any, given: str) -> None:
    settings.METRICS_TOKEN = TOKEN
    client.force_login(olga)
    said = client.get("/metrics", headers={"Authorization": given} if given else {})
    assert said.status_code == 401
    assert said["WWW-Authenticate"].startswith("Bearer")
    assert said["Content-Type"] == "text/plain; charset=utf-8"
    assert b"django_http" not in said.content


def test_its_token_reads_it(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN
    said = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert said.status_code == 200
    assert b"django_http_requests_total_by_method_total" in said.content
    assert "no-store" in said["Cache-Control"]
