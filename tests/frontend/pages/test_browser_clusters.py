"""Clusters in a real browser: from the order to the proof that nothing is left, and every page in both themes and on a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.reconcile import run
from gpuaas.clusters.services import cluster_credential
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.metering.services import held_sync
from gpuaas.providers.baremetal.hosts import host_bind, host_take_out
from quotas.models import Limit
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.api.cluster_stage import warm_stage
from tests.clusters.host_stage import host_at
from tests.clusters.policy_stage import recorded, scaled_by
from tests.clusters.stage import offered, ready
from tests.factories.catalog import SiteFactory
from tests.factories.quotas import limits_give
from tests.frontend.pages.browsing import NEEDED, SIZES, beside, context_for, looked_at, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED


@pytest.fixture
def address(as_olga: Actor, site: Site, project: Project) -> Iterator[str]:
    """A template on offer, with limits and prices."""
    offered(as_olga, site)
    limits_give(project)
    rate_set(actor=SYSTEM, flavor=Flavor.objects.get(slug="h100.2"), meter=Meter.GPU_HELD, price="2.40")
    with served() as url:
        yield url


@pytest.fixture
def worker(address: str) -> Iterator[None]:
    """What brings wishes to the site and meters what is held there, beside the browser."""

    def work() -> None:
        for pk in Cluster.objects.exclude(state="deleted").values_list("pk", flat=True):
            Cluster.objects.filter(pk=pk, claim_until=None).update(due_at=clock.now())
            run(pk)
        held_sync()

    with beside(work) as start:
        start()
        yield


def state_is(page: Page, word: str) -> None:
    expect(page.locator(".g-head .badge")).to_have_text(word)


def ordered(page: Page, address: str) -> None:
    page.goto(f"{address}/p/weather-lm/clusters/")
    expect(page.get_by_text("No clusters yet")).to_be_visible()
    page.get_by_role("link", name="Order a cluster").first.click()
    page.get_by_role("link", name="Kubernetes").click()
    answer = page.locator("#answer")
    expect(answer).to_contain_text("Available now")
    workers = page.get_by_label("GPU workers: workers")
    workers.fill("9")
    expect(answer).to_contain_text("a whole number of at most 8", ignore_case=True)
    workers.fill("2")
    page.get_by_label("Name", exact=True).fill("train")
    expect(answer).to_contain_text("3 machines")
    expect(answer).to_contain_text("€9.60")
    page.get_by_role("button", name="Order cluster").click()
    state_is(page, "Ready")


def scaled(page: Page) -> None:
    page.get_by_role("link", name="Scale").first.click()
    page.get_by_label("GPU workers: workers").fill("1")
    expect(page.locator("#effect")).to_contain_text("−€4.80")
    page.get_by_role("button", name="Scale", exact=True).click()
    state_is(page, "Ready")
    expect(page.get_by_role("row", name="gpu GPU workers")).to_contain_text("1 of 1 ready")


def test_from_the_order_to_the_proof(
    chromium: Browser, address: str, alice: User, charlie: User, worker: None
) -> None:
    page, complaints = opened(context_for(chromium, address, alice))
    ordered(page, address)
    outsider, _ = opened(context_for(chromium, address, charlie))
    answer = outsider.goto(page.url)
    assert answer is not None
    assert answer.status == 404
    scaled(page)
    page.get_by_role("button", name="Get kubeconfig").click()
    expect(page.locator("#drawer pre")).to_contain_text("apiVersion")
    page.reload()
    expect(page.locator("body")).not_to_contain_text("apiVersion")
    page.get_by_role("link", name="Revoke the credentials of alice").click()
    page.locator("#drawer").get_by_role("button", name="Revoke credentials").click()
    expect(page.get_by_role("list", name="Who has credentials")).to_contain_text("being revoked")
    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.locator("#delete").get_by_role("button", name="Delete cluster")
    expect(confirm).to_be_disabled()
    page.locator("#delete-name").fill("train")
    confirm.click()
    state_is(page, "Deleted")
    expect(page.locator("section[aria-labelledby=ledger-title]")).to_contain_text("are confirmed gone")
    cluster = Cluster.objects.get()
    assert cluster.state == "deleted"
    assert not cluster.ledger.filter(gone_at=None).exists()
    assert complaints == []


def test_what_has_no_room_is_refused_beside_its_field_and_not_pressed(
    chromium: Browser, address: str, alice: User, as_alice: Actor, project: Project
) -> None:
    cluster = ready(as_alice, project)
    Limit.objects.filter(project=project, resource="gpu:h100-sxm-80gb").update(hard=4)
    page, complaints = opened(context_for(chromium, address, alice))
    page.goto(f"{address}/p/weather-lm/clusters/{cluster.pk}/scale/")
    workers, press = (
        page.get_by_label("GPU workers: workers"),
        page.get_by_role("button", name="Scale", exact=True),
    )
    beside, why = page.locator("[id='id_pools.gpu-help']"), page.locator("#change-button .g-reason")
    expect(why).to_have_text("Nothing has changed yet.")
    workers.fill("3")
    expect(beside).to_contain_text("weather-lm may hold at most 4")
    expect(workers).to_have_attribute("aria-invalid", "true")
    expect(press).to_be_disabled()
    expect(why).to_have_text("It exceeds the limit.")
    for size in SIZES:
        page.set_viewport_size(SIZES[size])
        looked_at(page, size, picture="cluster-scale-refused")
    workers.fill("2")
    expect(workers).not_to_have_attribute("aria-invalid", "true")
    expect(press).to_be_enabled()
    press.click()
    state_is(page, "Scaling")
    assert complaints == []


TENANT = {
    "{home}/": "clusters",
    "{home}/new/k8s/": "cluster-order",
    "{at}/": "cluster",
    "{at}/credentials/{alice}/revoke/": "cluster-revoke",
    "{at}/scale/": "cluster-scale",
    "{at}/policies/": "cluster-policies",
    "{at}/policies/new/?kind=schedule": "cluster-policy-new",
}
OPERATOR = {
    "{supply}/": "operator-cluster-templates",
    "{supply}/of/k8s/": "operator-cluster-template",
    "{supply}/of/k8s/warm-pools/": "operator-warm-pools",
    "{supply}/of/k8s/warm-pools/{warm}/": "operator-warm-pool",
    "{operator}/clusters/": "operator-clusters",
    "{operator}/clusters/without-proof/": "operator-orphans",
    "{operator}/sites/at/rack-1/hosts/": "operator-hosts",
    "{operator}/sites/at/rack-1/hosts/at/dgx-7/": "operator-host",
}


@pytest.mark.parametrize(("theme", "size"), [("light", "desk"), ("dark", "desk"), ("dark", "phone")])
def test_every_page_reads_well(
    chromium: Browser,
    address: str,
    alice: User,
    olga: User,
    as_alice: Actor,
    project: Project,
    theme: str,
    size: str,
) -> None:
    cluster = ready(as_alice, project)
    policy = scaled_by(as_alice, cluster, enabled=False)
    recorded(policy, [2, 4, 9, 7] * 8)
    cluster_credential(actor=as_alice, cluster=cluster)
    racked(cluster)
    warm = warm_stage(cluster.template_version.template, project, olga, name="usual", wanted=2)
    home, supply = f"{address}/p/weather-lm/clusters", f"{address}/operator/cluster-templates"
    at = f"{home}/{cluster.pk}"
    known = {"alice": alice.pk, "warm": warm.pk, "operator": f"{address}/operator"}
    places = {alice: TENANT, olga: OPERATOR}
    for user, urls in places.items():
        page, complaints = opened(context_for(chromium, address, user, size=size, theme=theme))
        for path, picture in urls.items():
            page.goto(path.format(**{**known, "home": home, "at": at, "supply": supply}))
            page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true })")
            looked_at(page, size, picture=f"{picture}-{theme}")
        if user == alice:
            tried(page, f"{at}/policies/{policy.pk}/")
            looked_at(page, size, picture=f"cluster-policy-{theme}")
        assert complaints == []


def racked(cluster: Cluster) -> None:
    """A rack of three: one that the cluster holds, one that is out, one without GPUs."""
    rack = SiteFactory.create(slug="rack-1", driver="bare-metal")
    held = host_at(rack, 7)
    host_bind(
        site_id=rack.pk,
        cluster_id=cluster.pk,
        pool="gpu",
        slot="gpu-1",
        resource_name=held.resource_name,
        gpus=held.gpus,
    )
    host_at(rack, 8)
    host_take_out(site_id=rack.pk, name="dgx-8", reason="a fan has failed")
    host_at(rack, 9, gpus=0, product="")


def tried(page: Page, url: str) -> None:
    """A policy's dry run, drawn."""
    page.goto(url)
    page.get_by_role("button", name="Test on the last 7 days").click()
    expect(page.get_by_role("heading", name="Workers and pending GPUs")).to_be_visible()
