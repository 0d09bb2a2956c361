import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.providers.sandbox.models import SandboxNode
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tests.clusters.burst_stage import burst_offered, cloud_made
from tests.clusters.stage import SLIM, offered


@pytest.fixture
def template(as_olga: Actor, site: Site) -> ClusterTemplate:
    """`k8s` at `ber-1`, for everybody: a pool `gpu` of one worker with two H100, and `small` of none."""
    return offered(as_olga, site)


@pytest.fixture
def roomy(as_olga: Actor, site: Site) -> ClusterTemplate:
    """`k8s` of few steps, and a site with room for all that killed workers have begun."""
    made = offered(as_olga, site, words=SLIM)
    SandboxNode.objects.filter(site=site.pk).update(capacity=10_000)
    SiteCapacity.objects.update(hard=None)
    return made


@pytest.fixture
def cloud(site: Site) -> Site:
    """`cloud-1`, beside `ber-1`, which may promise 8 H100."""
    return cloud_made()


@pytest.fixture
def bursting(as_olga: Actor, site: Site, cloud: Site) -> ClusterTemplate:
    """`k8s` at `ber-1`: a pool `gpu` of one worker there, and `far` of none, which is at `cloud-1`."""
    return burst_offered(as_olga, site)
