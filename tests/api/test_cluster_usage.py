"""Use of a cluster by person, by REST: of the month that is asked for, with shares for callers who may see prices."""

from datetime import date

import pytest

from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster, ClusterLogin, ClusterUse
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.billing.stage import cluster_make, interval_make, utc

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(project: Project, h100: Flavor, alice: User, bob: User, as_olga: Actor) -> Cluster:
    """A GPU for ten hours of October, of which bob used one."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    made = cluster_make(project, h100, alice)
    interval_make(made, h100, utc("2026-10-05 08:00:00"), utc("2026-10-05 18:00:00"))
    login = ClusterLogin.objects.create(project=project, user=bob, name="bob-2", uid=20_001)
    ClusterUse.objects.create(cluster=made, login=login, day=date(2026, 10, 5), gpu_seconds=3600)
    return made


def test_who_used_what_and_its_share(
    cluster: Cluster, program: Caller, alice: User, charlie: User, project: Project
) -> None:
    path = f"/projects/weather-lm/clusters/{cluster.pk}/usage"
    person = {"username": "bob", "login": "bob-2", "gpu_seconds": 3600, "amount": "2.50"}
    assert program.get(f"{path}?month=2026-10").json == {
        "month": "2026-10",
        "currency": "EUR",
        "total": "25.00",
        "unused": "22.50",
        "people": [person],
    }
    assert program.get(f"{path}?month=2026-09").json["people"] == []
    assert "month" in program.get(f"{path}?month=2026-13").error["fields"]
    blind = Caller(token=token_for(alice, project, scopes=["workspace:view"]))
    found = blind.get(f"{path}?month=2026-10").json
    assert (found["total"], found["unused"], found["people"]) == (None, None, [{**person, "amount": None}])
    assert Caller(charlie).get(path).status == 404
