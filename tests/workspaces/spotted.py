"""A spot flavor at ber-1, what may be borrowed of it, and a workspace that does."""

from datetime import timedelta

from gpuaas.catalog.models import Flavor, Site
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from quotas.models import SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import limits_give
from tests.workspaces.stage import fast, ready, settle

NOTICE = 120
SPOT = "spot:h100-sxm-80gb"
DEVICES = 8  # of the site's only node
OVER = timedelta(seconds=NOTICE + 1)


def spot_flavor(h100: Flavor, *, lendable: int = DEVICES) -> Flavor:
    pool = h100.pool
    SiteCapacity.objects.create(site=pool.site, resource=SPOT, healthy=lendable, hard=lendable)
    return FlavorFactory.create(
        pool=pool, slug="h100.spot", name="H100, spot", price_class="spot", notice_seconds=NOTICE
    )


def one_node(site: Site) -> None:
    fleet_seed(site.pk, racks=(Rack("gpu", 1, H100, DEVICES),))
    dials_set(site.pk, environment_ms=0)


def borrows(actor: Actor, project: Project, *, name: str = "borrowed", h100s: int = 4) -> Workspace:
    limits_give(project, {SPOT: 4})
    return workspace_request(
        actor=actor, project=project, name=name, items=[("h100.spot", h100s)], storage_gib=100
    )


def borrower_ready(actor: Actor, project: Project, site: Site) -> Workspace:
    fast(site)
    workspace = settle(borrows(actor, project))
    assert workspace.state == "ready", workspace.failure
    return workspace


def buyer_ready(actor: Actor, project: Project, site: Site) -> Workspace:
    return ready(actor, project, site, name="bought", h100s=DEVICES)


def needs_all(buyer: Workspace) -> SandboxPod:
    """Of the only node."""
    return pod_create(buyer.site_id, buyer.external_name, "all", DEVICES)
