"""olga operates, ada audits; a site with nodes, two organizations with limits, a workspace, prices."""

from datetime import timedelta

import pytest
from django.test import Client

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, GpuPool, Node, Site
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.factories.quotas import limits_give
from tests.factories.tenants import UserFactory
from tests.lasting import lasting


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
@lasting
def ada(db: None) -> User:
    found: User = UserFactory.create(username="ada", platform_role="auditor")
    return found


@pytest.fixture
def olga_at(olga: User) -> Client:
    return signed_in(olga)


@pytest.fixture
def ada_at(ada: User) -> Client:
    return signed_in(ada)


@pytest.fixture
@lasting
def nodes(site: Site) -> None:
    """Two H100 nodes (one cordoned), two L40S nodes (one not ready)."""
    for pool in GpuPool.objects.filter(site=site):
        kind = pool.gpu_type.slug.partition("-")[0]
        size = pool.capacity // 2
        for number in (1, 2):
            Node.objects.create(
                site=site,
                pool=pool,
                name=f"{kind}-0{number}",
                ready=not (kind == "l40s" and number == 2),
                cordoned=kind == "h100" and number == 2,
                reason="the kubelet is silent" if kind == "l40s" and number == 2 else "",
                capacity=size,
                allocated=number,
                vcpus=128,
                memory_gib=1024,
                observed_at=clock.now(),
            )


@pytest.fixture
@lasting
def priced(h100: Flavor, l40s: Flavor) -> None:
    start = clock.now() - timedelta(days=1)
    for flavor, price in ((h100, "2.40"), (l40s, "0.95")):
        rate_set(actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=start)


@pytest.fixture
@lasting
def workspace(
    as_alice: Actor, project: Project, other_project: Project, priced: None, nodes: None
) -> Workspace:
    """2 × H100 in alice's project, whose limit is 8; charlie's project has limits, too."""
    limits_give(project, {"gpu:h100-sxm-80gb": 8})
    limits_give(other_project, {"gpu:l40s-48gb": 4})
    return workspace_request(
        actor=as_alice, project=project, name="era5-finetune", items=[("h100.1", 2)], storage_gib=500
    )
