"""What is free can be had: not where nothing new is placed, and not what cannot be sold."""

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, Site
from quotas.gpus import cards_held, everywhere, gpus_of_pools
from quotas.models import SiteCapacity
from quotas.services import reservation_reserve
from tenants.models import Project, User
from tests.billing.stage import workspace_make
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.quotas import limits_give

H100 = "gpu:h100-sxm-80gb"


@pytest.fixture
def elsewhere(h100: Flavor) -> GpuPool:
    """Four more at another site."""
    site = SiteFactory.create(slug="fra-1")
    pool: GpuPool = GpuPoolFactory.create(site=site, gpu_type=h100.pool.gpu_type, capacity=4, healthy=4)
    SiteCapacity.objects.create(site=site, resource=H100, healthy=4, hard=4)
    return pool


@pytest.mark.parametrize("change", [{"enabled": False}, {"fit": False}, {"trouble": "two products"}, {}])
def test_free_is_what_can_be_had(h100: Flavor, elsewhere: GpuPool, change: dict[str, object]) -> None:
    model = (
        GpuPool.objects.filter(pk=elsewhere.pk) if "trouble" in change else Site.objects.filter(slug="fra-1")
    )
    if change:
        model.update(**change)
    here = 0 if change else 4
    gpus = gpus_of_pools()
    assert (gpus[elsewhere.pk].free, gpus[elsewhere.pk].sellable) == (here, 4)
    assert (everywhere()[H100].free, everywhere()[H100].sellable) == (16 + here, 20)
    assert everywhere()["gpu:l40s-48gb"].free == 8
    assert sum(gpus[pool.pk].free for pool in GpuPool.objects.filter(gpu_type__slug=H100[4:])) == 16 + here


def test_a_site_that_sells_despite_failed_checks_has_free_gpus(h100: Flavor, elsewhere: GpuPool) -> None:
    Site.objects.filter(slug="fra-1").update(fit=False, sell_unfit=True)
    assert (gpus_of_pools()[elsewhere.pk].free, everywhere()[H100].free) == (4, 20)


def test_what_a_project_holds_is_told_in_cards(project: Project, h100: Flavor, alice: User) -> None:
    """Three of seven slices at one site and two whole cards."""
    pool = GpuPoolFactory.create(
        site=h100.pool.site, gpu_type__slug="slice", capacity=7, healthy=7, card_share="0.142857142857"
    )
    FlavorFactory.create(pool=pool, slug="slice.1")
    SiteCapacity.objects.create(site=h100.pool.site, resource="gpu:slice", healthy=7, hard=7)
    limits_give(project, {"gpu:slice": 7})
    assert cards_held(project=project) == 0
    row = workspace_make(project, h100, alice)
    reservation_reserve(
        holder_kind="workspace",
        holder_id=row.pk,
        project=project,
        site=row.site,
        amounts={H100: 2, "gpu:slice": 3, "storage": 5},
    )
    assert float(cards_held(project=project)) == pytest.approx(2 + 3 / 7, abs=1e-4)
