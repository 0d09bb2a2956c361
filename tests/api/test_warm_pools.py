"""Warm pools by API: said by operators, claimed by whoever orders the same, unknown to everybody else."""

import uuid
from typing import Any

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate, WarmPool
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.clusters.stage import offered
from tests.clusters.warm_stage import CHOICE, H100, kept
from tests.factories.quotas import limits_give

pytestmark = pytest.mark.django_db
POOLS = "/platform/cluster-templates/k8s/warm-pools"
HOME = "/projects/weather-lm/clusters"
ASKED: dict[str, Any] = {"name": "small", "project": "protein-fold", "document": CHOICE, "wanted": 1}


@pytest.fixture
def template(as_olga: Any, site: Site) -> ClusterTemplate:
    return offered(as_olga, site)


@pytest.mark.usefixtures("template")
def test_from_the_wish_to_the_claim(
    olga: User, alice: User, project: Project, other_project: Project
) -> None:
    limits_give(project)
    limits_give(other_project, {H100: 2})
    olgas, hers = Caller(olga), Caller(alice)
    made = olgas.post(POOLS, ASKED)
    assert made.status == 201, made.json
    assert (made.json["ready"], made.json["claimed"], made.json["making_most"]) == (0, 0, 1)
    kept(WarmPool.objects.get())
    (row,) = olgas.get(POOLS).json["results"]
    assert (row["ready"], row["making"], row["trouble"]) == (1, 0, "")
    asked = {"template": "k8s", "document": CHOICE}
    assert hers.post(f"{HOME}/plan", asked).json["waiting"] == 1
    other = {**asked, "document": {**CHOICE, "control_plane": 3}}
    assert hers.post(f"{HOME}/plan", other).json["waiting"] == 0
    ordered = hers.post(HOME, {**asked, "name": "train"})
    assert (ordered.status, ordered.json["state"]) == (202, "provisioning")
    one = olgas.get(f"{POOLS}/{made.json['id']}")
    assert (one.json["ready"], one.json["claimed"]) == (0, 1)
    assert one.json["claimed_last"] is not None


@pytest.mark.usefixtures("template")
def test_changed_by_its_version_and_ended(olga: User, other_project: Project) -> None:
    limits_give(other_project)
    olgas = Caller(olga)
    made = olgas.post(POOLS, ASKED)
    address = f"{POOLS}/{made.json['id']}"
    changed = olgas.patch(address, {"wanted": 2}, if_match=made.headers["ETag"])
    assert (changed.status, changed.json["wanted"]) == (200, 2)
    assert olgas.patch(address, {"wanted": 3}, if_match=made.headers["ETag"]).status == 412
    assert olgas.patch(address, {}).status == 400
    wrong = olgas.patch(address, {"document": {"release": "0.1"}})
    assert (wrong.status, list(wrong.error["fields"])) == (400, ["release"])
    assert olgas.post(POOLS, ASKED).status == 409
    nowhere = olgas.post(POOLS, {**ASKED, "name": "more", "project": "nowhere"})
    assert list(nowhere.error["fields"]) == ["project"]
    assert olgas.delete(address).status == 204
    assert olgas.get(address).status == olgas.get(f"{POOLS}/{uuid.uuid4()}").status == 404


@pytest.mark.usefixtures("template")
def test_tenants_find_no_pools(olga: User, alice: User, other_project: Project) -> None:
    limits_give(other_project)
    made = Caller(olga).post(POOLS, ASKED)
    hers = Caller(alice)
    for answer in (hers.get(POOLS), hers.post(POOLS, ASKED), hers.get(f"{POOLS}/{made.json['id']}")):
        assert answer.status == 404
