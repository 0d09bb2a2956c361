"""A simulated cloud with 2 hosts of 8 H100, and a ready workspace of 2 machines there; bob may edit in it."""

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import member_set
from tenants.actors import Actor
from tenants.models import Project, User
from tests.lasting import lasting
from tests.workspaces.stage import ready, run_now


@pytest.fixture
def site(site: Site) -> Site:
    Site.objects.filter(pk=site.pk).update(driver="sandbox-cloud")
    Flavor.objects.filter(pool__site=site).update(disk_gib=14)
    site.refresh_from_db()
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("h", 2, H100, 8),))
    dials_set(site.pk, machine_ms=0)
    return site


@pytest.fixture
@lasting
def workspace(as_alice: Actor, bob: User, project: Project, site: Site) -> Workspace:
    made = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=made, username="bob", role="edit")
    made = run_now(made)
    assert visit(made.pk)
    return made
