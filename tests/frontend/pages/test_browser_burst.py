"""A cluster with a pool at another site, in a real browser: where each pool is, said before the order and after it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.metering.models import Meter
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.clusters.burst_stage import GPUS, burst_offered, cloud_made, ready_both
from tests.factories.quotas import limits_give
from tests.frontend.pages.browsing import NEEDED, context_for, looked_at, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(as_olga: Actor, site: Site, project: Project) -> Iterator[str]:
    cloud_made()
    burst_offered(as_olga, site)
    limits_give(project, {GPUS: None})
    for slug, price in (("h100.2", "2.40"), ("far.2", "4.10")):
        rate_set(actor=SYSTEM, flavor=Flavor.objects.get(slug=slug), meter=Meter.GPU_HELD, price=price)
    with served() as url:
        yield url


@pytest.mark.parametrize(("theme", "size"), [("light", "desk"), ("dark", "phone")])
def test_where_each_pool_is_and_what_it_costs(
    chromium: Browser, address: str, alice: User, as_alice: Actor, project: Project, theme: str, size: str
) -> None:
    page, complaints = opened(context_for(chromium, address, alice, size=size, theme=theme))
    page.goto(f"{address}/p/weather-lm/clusters/new/k8s/")
    page.get_by_label("Cloud workers: workers").fill("1")
    answer = page.locator("#answer")
    expect(answer).to_contain_text("Capacity of cloud-1")
    expect(answer).to_contain_text("€13.00")
    expect(page.get_by_label("Cloud workers: flavor")).to_contain_text("at cloud-1")
    looked_at(page, size, picture=f"burst-order-{theme}")
    cluster = ready_both(as_alice, project)
    at = f"{address}/p/weather-lm/clusters/{cluster.pk}/"
    page.goto(at)
    expect(page.get_by_role("row", name="far Cloud workers")).to_contain_text("cloud-1")
    looked_at(page, size, picture=f"burst-cluster-{theme}")
    page.goto(f"{at}policies/new/?kind=pending")
    expect(page.get_by_label("Only after")).to_be_visible()
    looked_at(page, size, picture=f"burst-policy-{theme}")
    assert complaints == []
