"""/metrics is for whoever holds its token, and is not there where no token is set."""

from typing import Any

import pytest
from django.test import Client

from tenants.models import User

pytestmark = pytest.mark.django_db
TOKEN = "a token for Prometheus alone"


def test_without_a_setting_there_is_nothing(client: Client, olga: User, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    client.force_login(olga)
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
def test_others_are_refused(client: Client, olga: User, settings: Any, given: str) -> None:
    settings.METRICS_TOKEN = TOKEN
    client.force_login(olga)
    said = client.get("/metrics", headers={"Authorization": given} if given else {})
    assert said.status_code == 401
    assert said["WWW-Authenticate"].startswith("Bearer")
    assert b"django_http" not in said.content


def test_its_token_reads_it(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN
    said = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert said.status_code == 200
    assert b"django_http_requests_total_by_method_total" in said.content
    assert "no-store" in said["Cache-Control"]
