import pytest
from django.core.cache import cache

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.providers.sandbox.models import SandboxNode
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project, User
from tests.clusters.burst_stage import burst_offered, cloud_made, ready_both
from tests.clusters.slurm_stage import slurm_ready
from tests.clusters.stage import SLIM, offered, ready
from tests.lasting import lasting


@pytest.fixture(autouse=True)
def _no_head_was_refused() -> None:
    cache.clear()


@pytest.fixture
@lasting
def template(as_olga: Actor, site: Site) -> ClusterTemplate:
    """`k8s` at `ber-1`, for everybody: a pool `gpu` of one worker with two H100, and `small` of none."""
    return offered(as_olga, site)


@pytest.fixture
@lasting
def cluster(template: ClusterTemplate, as_alice: Actor, project: Project) -> Cluster:
    """Of `template`, and ready."""
    return ready(as_alice, project)


@pytest.fixture
@lasting
def of_two(template: ClusterTemplate, as_alice: Actor, project: Project) -> Cluster:
    """With two workers of its pool `gpu`."""
    return ready(as_alice, project, gpus=2)


@pytest.fixture
@lasting
def slurm(site: Site, as_olga: Actor, as_alice: Actor, project: Project, bob: User) -> Cluster:
    """Ready, at a site whose driver reaches Slurm itself."""
    return slurm_ready(as_alice, as_olga, project, site)


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
@lasting
def bursting(as_olga: Actor, site: Site, cloud: Site) -> ClusterTemplate:
    """`k8s` at `ber-1`: a pool `gpu` of one worker there, and `far` of none, which is at `cloud-1`."""
    return burst_offered(as_olga, site)


@pytest.fixture
@lasting
def at_home(bursting: ClusterTemplate, as_alice: Actor, project: Project) -> Cluster:
    """With no worker at `cloud-1` yet."""
    return ready_both(as_alice, project, far=0)


@pytest.fixture
@lasting
def at_both(bursting: ClusterTemplate, as_alice: Actor, project: Project) -> Cluster:
    """With a worker at each site."""
    return ready_both(as_alice, project)
