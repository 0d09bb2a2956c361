import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate
from tenants.actors import Actor
from tests.clusters.stage import offered


@pytest.fixture
def template(as_olga: Actor, site: Site) -> ClusterTemplate:
    """`k8s` at `ber-1`, for everybody: a pool `gpu` of one worker with two H100, and `small` of none."""
    return offered(as_olga, site)
