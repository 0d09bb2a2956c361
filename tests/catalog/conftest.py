"""A simulated site that is attached, and its fleet."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_create
from gpuaas.providers.sandbox.fleet import fleet_seed
from tenants.actors import Actor
from tests.lasting import lasting


@pytest.fixture
@lasting
def attached(as_olga: Actor) -> Site:
    site = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="sandbox")
    fleet_seed(site.pk, slug="lab-1")
    return site
