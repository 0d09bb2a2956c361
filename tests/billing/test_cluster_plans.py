"""The plan of a cluster says its price in the same call: workers by their flavors, the control plane by its sizes."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from billing.clusters import cluster_plan_priced
from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tests.billing.stage import utc
from tests.clusters.stage import offered
from tests.factories.quotas import limits_give
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
JANUARY = utc("2026-01-01")
WANTED = {"control_plane": 3, "pools": {"gpu": {"count": 2}}}


@pytest.fixture
@lasting
def priced(as_olga: Actor, project: Project, site: Site) -> None:
    offered(as_olga, site)
    limits_give(project)
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=JANUARY)
    rate_set(actor=as_olga, flavor=None, meter=Meter.VCPU_HELD, price="0.01", valid_from=JANUARY)


@pytest.mark.usefixtures("priced")
def test_workers_and_control_plane_are_priced(as_alice: Actor, project: Project) -> None:
    ends = now() + timedelta(hours=10)
    found = cluster_plan_priced(
        actor=as_alice, project=project, template="k8s", document=WANTED, lease_ends_at=ends
    )
    assert found.plan.fits
    assert found.quote is not None
    # 2 workers of 2 GPUs and 32 cores, 3 machines of 4 cores
    assert found.quote.per_hour == 4 * Decimal("2.50") + (2 * 32 + 3 * 4) * Decimal("0.01")
    assert found.quote.complete
    whole_hours = found.quote.per_hour * 10
    assert found.quote.to_lease_end is not None
    assert abs(found.quote.to_lease_end - whole_hours) <= whole_hours / 100


@pytest.mark.usefixtures("priced")
def test_who_may_see_no_prices_gets_the_plan_alone(as_alice: Actor, project: Project) -> None:
    scopes = frozenset(one.value for one in Permission if one is not Permission.BILLING_VIEW)
    blind = replace(as_alice, scopes=scopes)
    found = cluster_plan_priced(actor=blind, project=project, template="k8s", document=WANTED)
    assert (found.plan.fits, found.quote) == (True, None)
