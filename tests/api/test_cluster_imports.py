"""What a class says that may be chosen, by the API: asked for, followed, published or dropped."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.reconcile.imports import parameters_import
from tenants.actors import Actor
from tenants.models import User
from tests.api.caller import Caller
from tests.clusters.class_stage import Classes
from tests.lab.fixtures import LabSite

pytestmark = pytest.mark.django_db
TEMPLATE = "/api/v1/platform/cluster-templates/k8s"
PATH = f"{TEMPLATE}/import"


@pytest.fixture
def olgas(olga: User, as_olga: Actor, site: Site, lab: LabSite) -> Caller:
    """A template whose class offers `boot_seconds` beside the zone."""
    Classes(lab).offered(as_olga, site)
    return Caller(olga)


def test_asked_followed_and_published(olgas: Caller) -> None:
    assert olgas.get(PATH).status == 404
    accepted = olgas.ask("POST", PATH, {})
    assert (accepted.status, accepted.headers["Location"]) == (202, PATH)
    assert accepted.json["pending"]
    assert not accepted.json["publishable"]
    again = olgas.ask("POST", PATH, {})
    assert (again.status, again.headers["ETag"]) == (202, accepted.headers["ETag"])
    refused = olgas.ask("POST", f"{PATH}/publish", {})
    assert (refused.status, refused.code) == (409, "conflict")

    assert parameters_import(ClusterTemplate.objects.get(slug="k8s").pk)
    found = olgas.get(PATH)
    assert (found.json["pending"], found.json["publishable"], found.json["base"]) == (False, True, 1)
    (change,) = found.json["changes"]
    assert (change["parameter"], change["kind"], change["breaking"]) == ("boot_seconds", "new", False)
    assert found.json["misfits"] == []
    stale = olgas.ask("POST", f"{PATH}/publish", {}, **{"If-Match": accepted.headers["ETag"]})
    assert stale.status == 412
    fresh = {"If-Match": found.headers["ETag"], "Idempotency-Key": "publish-1"}
    made = olgas.ask("POST", f"{PATH}/publish", {}, **fresh)
    assert (made.status, made.json["number"]) == (201, 2)
    repeated = olgas.ask("POST", f"{PATH}/publish", {}, **fresh)
    assert (repeated.status, repeated.json["number"]) == (201, 2)
    assert olgas.get(PATH).json["published"] == 2
    assert not olgas.get(PATH).json["publishable"]


def test_dropped(olgas: Caller) -> None:
    assert olgas.ask("DELETE", PATH).status == 404
    asked = olgas.ask("POST", PATH, {})
    assert olgas.ask("DELETE", PATH, **{"If-Match": '"999"'}).status == 412
    assert olgas.ask("DELETE", PATH, **{"If-Match": asked.headers["ETag"]}).status == 204
    assert olgas.get(PATH).status == 404
