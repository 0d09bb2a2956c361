"""What flavors require of nodes reaches the site with the workspace."""

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import Placement, Tuning
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.spec import spec_digest, spec_of
from quotas.models import Reservation
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import limits_give


def tuned(pool: GpuPool, slug: str, **more: object) -> Flavor:
    return FlavorFactory.create(pool=pool, slug=slug, vcpus=16, memory_gib=128, **more)


@pytest.fixture
def h100(site: Site, project: Project) -> GpuPool:
    limits_give(project)
    return GpuPool.objects.get(site=site, gpu_type__slug="h100-sxm-80gb")


@pytest.fixture
def l40s(site: Site) -> GpuPool:
    return GpuPool.objects.get(site=site, gpu_type__slug="l40s-48gb")


def test_hugepages_add_up_and_are_a_part_of_the_memory(
    h100: GpuPool, project: Project, as_alice: Actor
) -> None:
    tuned(
        h100,
        "h100.pages",
        hugepages_size="1Gi",
        hugepages_gib=32,
        exclusive_cpus=True,
        sysctls=["net.core.somaxconn"],
        profile="hpc",
    )
    tuned(h100, "h100.small", hugepages_size="2Mi", hugepages_gib=4, sysctls=["kernel.sem"])
    made = workspace_request(
        actor=as_alice,
        project=project,
        name="tuned",
        items=[("h100.pages", 2), ("h100.small", 1)],
        placement="nvlink-domain",
    )
    spec = spec_of(Workspace.objects.select_related("project__organization", "site").get(pk=made.pk))
    assert spec.tuning == Tuning(
        hugepages={"1Gi": 64, "2Mi": 4},
        exclusive_cpus=True,
        sysctls=("kernel.sem", "net.core.somaxconn"),
        profile="hpc",
    )
    assert (spec.vcpus, spec.memory_gib) == (48, 3 * 128 - 68)
    assert spec.placement is Placement.NVLINK_DOMAIN
    assert Reservation.objects.get(resource="memory").amount == 3 * 128, "what is sold does not change by it"


def test_nothing_is_asked_of_nodes_without_a_word(h100: GpuPool, project: Project, as_alice: Actor) -> None:
    made = workspace_request(actor=as_alice, project=project, name="plain", items=[("h100.1", 1)])
    before = spec_of(Workspace.objects.select_related("project__organization", "site").get(pk=made.pk))
    assert before.tuning == Tuning()
    Flavor.objects.filter(slug="h100.1").update(exclusive_cpus=True)
    after = spec_of(Workspace.objects.select_related("project__organization", "site").get(pk=made.pk))
    assert spec_digest(before) != spec_digest(after), "the site is told when a flavor changes"
    assert h100.flavors.count() == 1


@pytest.mark.parametrize("profile", ["hpc", ""])
def test_a_workspace_has_one_profile(
    profile: str, h100: GpuPool, l40s: GpuPool, project: Project, as_alice: Actor
) -> None:
    tuned(h100, "h100.web", profile="web")
    GpuPool.objects.filter(pk=l40s.pk).update(resource_name="nvidia.com/l40s")
    tuned(l40s, "l40s.other", profile=profile)
    with pytest.raises(Invalid, match="different profiles"):
        workspace_request(
            actor=as_alice, project=project, name="both", items=[("h100.web", 1), ("l40s.other", 1)]
        )
    assert not Workspace.objects.exists()


def test_flavors_of_one_pool_may_differ(h100: GpuPool, project: Project, as_alice: Actor) -> None:
    tuned(h100, "h100.web", profile="web")
    made = workspace_request(
        actor=as_alice, project=project, name="both", items=[("h100.web", 1), ("h100.1", 1)]
    )
    assert made.flavors.count() == 2


def test_names_of_the_site_that_are_no_pool_are_closed(
    h100: GpuPool, site: Site, project: Project, as_alice: Actor
) -> None:
    Site.objects.filter(pk=site.pk).update(gpu_names=["nvidia.com/gpu", "nvidia.com/mig-7g.80gb"])
    made = workspace_request(actor=as_alice, project=project, name="closed", items=[("h100.1", 1)])
    spec = spec_of(Workspace.objects.select_related("project__organization", "site").get(pk=made.pk))
    assert [gpu.resource_name for gpu in spec.gpus] == [h100.resource_name]
    assert spec.closed == ("nvidia.com/mig-7g.80gb",)


@pytest.mark.parametrize("placement", ["moon", "NODE", " node", None, 1])
def test_a_place_that_is_none_is_refused(
    placement: str, h100: GpuPool, project: Project, as_alice: Actor
) -> None:
    del h100
    with pytest.raises(Invalid) as caught:
        workspace_request(
            actor=as_alice, project=project, name="x", items=[("h100.1", 1)], placement=placement
        )
    assert "placement" in caught.value.fields
