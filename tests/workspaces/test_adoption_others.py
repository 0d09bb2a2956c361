"""Adoption beside others: GPUs that were in other hands until then, and a worker that is late."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe
from gpuaas.core import claims, clock
from gpuaas.core.claims import ClaimLost
from gpuaas.core.errors import Conflict, NoCapacity
from gpuaas.providers.sandbox.fleet import node_set
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create
from gpuaas.workspaces.models import Adoption, Workspace
from gpuaas.workspaces.reconcile import adoption
from gpuaas.workspaces.reconcile.job import job_load
from gpuaas.workspaces.services import adoption_confirm, workspace_request
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import counters_must_match
from tests.workspaces.stage import settle
from tests.workspaces.test_adoption import old_lab, planned

pytestmark = pytest.mark.django_db

__all__ = ["old_lab"]  # found by pytest here


def test_what_it_has_is_not_for_sale_and_becomes_its_own(
    as_olga: Actor, as_alice: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    """Another namespace has all other GPUs: nothing is free, and the two that it has are not wanted twice."""
    foreign_namespace(site.pk, "newer-lab")
    node_set(site.pk, name="l-01", cordoned=True)
    for name, count in (("most", 8), ("more", 6)):
        pod_create(site.pk, "newer-lab", name, count)
    site_probe(site.pk)
    capacity_sync(str(site.pk))
    with pytest.raises(NoCapacity):
        workspace_request(actor=as_alice, project=project, name="any", items=[("h100.1", 1)])
    workspace = settle(adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site)))
    assert workspace.state == "ready"
    with pytest.raises(NoCapacity):
        workspace_request(actor=as_alice, project=project, name="any", items=[("h100.1", 1)])
    site_probe(site.pk)
    capacity_sync(str(site.pk))
    row = SiteCapacity.objects.get(site=site, resource="gpu:h100-sxm-80gb")
    assert (row.hard, row.used) == (2, 2)
    counters_must_match()


def test_a_worker_that_wakes_too_late_deletes_nothing(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    """It stood still while it compared the plan, and another one has taken the namespace over meanwhile, which its answer differs
    by."""
    workspace = adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site))
    claimed = claims.claim(Workspace, workspace.pk, now=clock.now(), seconds=30)
    assert claimed is not None
    late = job_load(claimed)
    Workspace.objects.filter(pk=workspace.pk).update(claim_until=clock.now())
    assert settle(workspace).state == "ready"
    with pytest.raises(ClaimLost):
        adoption.refused(late, Conflict(adoption.CHANGED))
    row = settle(workspace)
    assert (row.state, Adoption.objects.get().state) == ("ready", "done")
    assert SandboxPod.objects.get(pk=old_lab.pk).finished_at is None
    counters_must_match()
