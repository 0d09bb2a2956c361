"""What may be asked for when the offer, or the site, has changed since: said at once, beside the field."""

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Invalid
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request, workspace_resize
from gpuaas.workspaces.spec import spec_of
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.stage import ready, run_now, settle

pytestmark = pytest.mark.django_db


def items_refused(error: pytest.ExceptionInfo[Invalid]) -> str:
    return str(error.value.detail["fields"]["items"])


def test_a_retired_gpu_type_takes_its_flavors_with_it(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    limits_give(project)
    held = ready(as_alice, project, site, h100s=2)
    h100.pool.gpu_type.state = OfferState.RETIRED
    h100.pool.gpu_type.save()

    with pytest.raises(Invalid) as error:
        workspace_request(actor=as_alice, project=project, name="late", items=[("h100.1", 1)])
    assert "on offer" in items_refused(error)
    with pytest.raises(Invalid):
        workspace_resize(actor=as_alice, workspace=held, items=[("h100.1", 3)])
    workspace_resize(actor=as_alice, workspace=held, items=[("h100.1", 1)])
    assert settle(held).state == "ready"
    assert Workspace.objects.count() == 1


def test_a_disabled_site_takes_no_more_but_gives_back(as_alice: Actor, project: Project, site: Site) -> None:
    held = ready(as_alice, project, site, h100s=4)
    Site.objects.filter(pk=site.pk).update(enabled=False)

    with pytest.raises(Invalid) as error:
        workspace_request(actor=as_alice, project=project, name="late", items=[("h100.1", 1)])
    assert "no new requests" in items_refused(error)
    with pytest.raises(Invalid):
        workspace_resize(actor=as_alice, workspace=held, items=[("h100.1", 5)])
    with pytest.raises(Invalid):
        workspace_resize(actor=as_alice, workspace=held, items=[("h100.1", 3)], storage_gib=101)

    workspace_resize(actor=as_alice, workspace=held, items=[("h100.1", 3)], storage_gib=50)
    assert settle(held).state == "ready"
    counters_must_match()


def test_machines_that_only_clusters_get_are_no_workspaces(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    limits_give(project)
    assert h100.slug in {flavor.slug for flavor in flavors_for(actor=as_alice)}
    Site.objects.filter(pk=site.pk).update(driver="bare-metal")
    assert not flavors_for(actor=as_alice).exists()
    with pytest.raises(Invalid) as error:
        workspace_request(actor=as_alice, project=project, name="late", items=[(h100.slug, 1)])
    assert "order a cluster instead" in items_refused(error)
    counters_must_match()


def test_what_is_counted_by_one_name_cannot_be_swapped_under_running_pods(
    as_alice: Actor, project: Project, site: Site
) -> None:
    """The site would go on counting the old GPUs' pods as the new GPUs'."""
    held = ready(as_alice, project, site, h100s=2)

    with pytest.raises(Invalid) as error:
        workspace_resize(actor=as_alice, workspace=held, items=[("l40s.1", 2)])

    assert "nvidia.com/gpu" in items_refused(error)
    assert run_now(held).state == "ready"


def test_the_way_back_from_a_failed_resize_is_open_for_retired_flavors(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    held = ready(as_alice, project, site, h100s=2)
    FlavorFactory.create(pool=h100.pool, slug="h100.2", gpus=2)
    workspace_resize(actor=as_alice, workspace=held, items=[("h100.2", 2)])
    held.operations.filter(finished_at__isnull=True).update(finished_at=held.created_at, succeeded=False)
    Workspace.objects.filter(pk=held.pk).update(state="failed", ensured_digest="")
    Flavor.objects.filter(pk=h100.pk).update(state=OfferState.RETIRED)

    workspace_resize(actor=as_alice, workspace=held, items=[("h100.1", 2)])

    assert settle(held).state == "ready"
    counters_must_match()


def test_a_site_is_told_which_names_mean_one_pool(
    as_alice: Actor, project: Project, site: Site, l40s: Flavor
) -> None:
    held = ready(as_alice, project, site, h100s=2)
    assert [gpu.exclusive for gpu in spec_of(held).gpus] == [False]
    l40s.pool.resource_name = "nvidia.com/l40s"
    l40s.pool.save()
    assert [gpu.exclusive for gpu in spec_of(held).gpus] == [True]
