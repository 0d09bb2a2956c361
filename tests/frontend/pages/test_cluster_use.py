"""A cluster's page says what each person's jobs used, this month and the last, and their share of the cost."""

from datetime import date

import pytest
import time_machine

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster, ClusterLogin, ClusterUse
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc
from tests.clusters.stage import offered, order
from tests.factories.quotas import limits_give
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in

pytestmark = pytest.mark.django_db


@time_machine.travel("2026-11-20 10:00:00Z", tick=False)
def test_people_see_what_each_used(
    as_olga: Actor, as_alice: Actor, project: Project, site: Site, bob: User, h100: Flavor
) -> None:
    limits_give(project)
    offered(as_olga, site)
    cluster = order(as_alice, project)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    interval_make(cluster, h100, utc("2026-10-05 08:00:00"), utc("2026-10-05 18:00:00"))
    login = ClusterLogin.objects.create(project=project, user=bob, name="bob-2", uid=20_001)
    ClusterUse.objects.create(cluster=cluster, login=login, day=date(2026, 10, 5), gpu_seconds=5400)
    at, client = f"/p/weather-lm/clusters/{cluster.pk}/", signed_in(bob)
    assert "Use by person" not in words(client.get(at)), "all members share one account"
    Cluster.objects.filter(pk=cluster.pk).update(logins=["bob-2"])
    page = words(client.get(at))
    for part in (
        "October 2026",
        "1.5 GPU-hours, €3.75",
        "Not used by jobs",
        "€21.25",
        "The cluster",
        "€25.00",
    ):
        assert part in page
    assert "November 2026" not in page
    ClusterUse.objects.create(cluster=cluster, login=login, day=date(2026, 11, 20), gpu_seconds=3600)
    assert "November 2026" in words(client.get(at))
