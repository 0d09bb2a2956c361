"""A driver that nobody should rely on yet says so where it is chosen: on the page, in the API, in the guide."""

from pathlib import Path

from django.test import Client

from gpuaas.providers.registry import cluster_kinds
from tenants.models import User
from tests.api.caller import Caller

NAME = "openshift-bare-metal"
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "operators" / "clusters-bare-metal.md"


def reason() -> str:
    return next(kind.experimental for kind in cluster_kinds() if kind.name == NAME)


def test_the_page_says_it(olga_at: Client) -> None:
    page = olga_at.get("/operator/cluster-templates/new/").content.decode()
    assert f'<option value="{NAME}">OpenShift on bare metal (experimental)</option>' in page
    assert reason() in page


def test_the_api_says_it(olga: User) -> None:
    rows = {row["name"]: row for row in Caller(olga).get("/platform/drivers").json["results"]}
    assert rows[NAME]["experimental"] == reason()
    assert (rows[NAME]["provisions"], rows[NAME]["attaches"]) == (["clusters"], False)
    assert [name for name, row in rows.items() if row["experimental"]] == [NAME]


def test_the_guide_says_it() -> None:
    assert "**Experimental**" in GUIDE.read_text("utf-8")
