"""The pictures of the guides are taken of the demo's data, in both themes; `make pictures` puts them where the guides show them.

GPUAAS_PICTURES names the folder that they are written to; without it they are taken and thrown away.
"""

import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from deploy.embedded import offers, seed
from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import site_preflight
from gpuaas.clusters.models import ClusterTemplate, ParametersImport
from gpuaas.clusters.services import cluster_order, template_create, template_version_add
from gpuaas.core import clock
from gpuaas.core.connections import returning
from gpuaas.core.models import Process, ProcessKind
from gpuaas.metering.models import CrossCheck, SiteMeter
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.system.work import claimables
from gpuaas.workspaces.machines.services import MachineOrder, machine_order
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tenants.selectors import actor_for
from tests.api.cluster_stage import import_stage, warm_stage
from tests.clusters import stage as clusters
from tests.clusters.policy_stage import recorded, scaled_by
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.trouble import drift_of
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.pictures import PICTURES, THEMES, Picture, file_of
from tests.frontend.pages.scene import busy
from tests.frontend.pages.server import served
from tests.frontend.pages.working import working
from tests.workspaces import stage as workspaces

pytestmark = NEEDED
WIDTH, HEIGHT, TALLEST = 1280, 800, 1500
MOST_BYTES = 150_000
H100 = "h100-sxm-80gb.1"
MOMENT = datetime(2026, 11, 23, 15, 12, tzinfo=UTC)


@pytest.fixture
def staged(settings: Any) -> Iterator[dict[str, object]]:
    """The demo's people, site, prices and past; besides it, one of each of what the guides show."""
    settings.PROVIDER_NAME = "Meridian Cloud"
    settings.DOOR_DOMAIN, settings.DOOR_SSH = "apps.gpu.example.org", ("ssh.gpu.example.org", 2222)
    settings.AUTH_PASSWORD_VALIDATORS = []  # as the demo has it, whose people sign in with a short one
    with time_machine.travel(MOMENT, tick=True):
        seed.people()
        seed.sandbox()
        seed.cloud()
        offers.offer(since := seed.last_month())
        seed.past(since)
        seed.limits()
        seed.clusters()
        for site in Site.objects.all():
            workspaces.fast(site)
            dials_set(site.pk, machine_ms=0)
        yield _made(Project.objects.get(slug="weather-lm"), User.objects.get(username="alice"))


def _made(project: Project, alice: User) -> dict[str, object]:
    workspace = _workspace(project, alice, "llama-tune", H100)
    busy(workspace)
    _workspace(Project.objects.get(slug="downscale"), alice, "era5-eval", H100)
    room = _room(project, alice)
    cluster = clusters.settle(
        cluster_order(
            actor=actor_for(user=alice),
            project=project,
            template="kubernetes",
            name="fold-farm",
            document={"release": "1.35.6", "pools": {"gpu": {"count": 1}}},
        )
    )
    held_sync()
    policy = scaled_by(actor_for(user=alice), cluster, enabled=False)
    recorded(policy, [2, 4, 9, 7] * 8)
    template = ClusterTemplate.objects.get(slug="kubernetes")
    _imported(template)
    drift_of(room)
    _processes()
    _heard()
    return {
        **_apart(lambda: working(actor_for(user=alice), project)),
        "workspace": workspace.pk,
        "room": room.pk,
        "cluster": cluster.pk,
        "policy": policy.pk,
        "plan": plan_at(workspace.site, project, alice, blocked=True).pk,
        "warm": warm_stage(template, project, alice, name="usual", wanted=2).pk,
    }


def _apart(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """In a thread without the loop of the browser, since environments are asked by one of their own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(returning(work)).result()


def _workspace(project: Project, user: User, name: str, flavor: str) -> Workspace:
    items = [(flavor, 2)]
    actor = actor_for(user=user)
    return workspaces.settle(
        workspace_request(actor=actor, project=project, name=name, items=items, storage_gib=500)
    )


def _room(project: Project, user: User) -> Workspace:
    """With a machine that runs."""
    flavor = Flavor.objects.get(pool__site__slug="ham-1")
    Flavor.objects.filter(pk=flavor.pk).update(disk_gib=14)
    room = _workspace(project, user, "vm-lab", flavor.slug)
    assert visit(room.pk)
    order = MachineOrder("train-vm", flavor.slug, "img-debian-12")
    machine_order(actor=actor_for(user=user), workspace=room, order=order)
    assert visit(room.pk)
    return room


def _imported(template: ClusterTemplate) -> None:
    """Of the same document, whose class has lost a network and has two variables more."""
    document = template.versions.get().document
    made = template_create(
        actor=SYSTEM,
        slug="k8s",
        name="Kubernetes by class",
        kind="kubernetes",
        site=template.site,
        driver="sandbox",
    )
    template_version_add(actor=SYSTEM, template=made, document=document)
    network = {**document["parameters"]["properties"]["pod_network"], "enum": ["cilium", "kube-ovn"]}
    more = {
        "boot_seconds": {"type": "integer", "minimum": 60, "maximum": 600},
        "zone": {"type": "string", "enum": ["a", "b"]},
    }
    row = import_stage(made.versions.get())
    parameters = {"type": "object", "properties": {"pod_network": network, **more}}
    ParametersImport.objects.filter(pk=row.pk).update(parameters=parameters)
    ClusterTemplate.objects.filter(pk=made.pk).update(driver="cluster-api", state="active")


def _processes() -> None:
    """One of each kind, and a worker that was killed."""
    now = clock.now()
    for kind, host, seen in (
        *((str(kind), "portal-1", 2) for kind in ProcessKind),
        ("worker", "portal-2", 60),
    ):
        Process.objects.create(
            kind=kind,
            host=host,
            pid=7,
            version="0.2.0",
            started_at=now - timedelta(days=2),
            seen_at=now - timedelta(seconds=seen),
            skew_seconds=0,
        )


def _heard() -> None:
    """The meter of every site, which has compared what it counts."""
    since, now = clock.now() - timedelta(days=9), clock.now()
    for site in Site.objects.all():
        assert site_preflight(site.pk)
        times = {"first_proof_at": since, "watching_since": since, "last_event_at": now}
        SiteMeter.objects.update_or_create(site=site, defaults=times)
        CrossCheck.objects.create(site=site, checked_at=now, compared=3)


def _alive() -> None:
    """As a portal that runs is: its processes beat, and nothing waits for them."""
    now = clock.now()
    Process.objects.filter(host="portal-1").update(seen_at=now)
    SiteMeter.objects.update(last_proof_at=now)
    for model in claimables():
        model._default_manager.filter(due_at__isnull=False).update(due_at=now + timedelta(hours=1))


@pytest.fixture
def address(staged: dict[str, object]) -> Iterator[str]:
    with served() as url:
        yield url


def _small(png: bytes) -> bytes:
    """With a palette of its own, which a page of few colors does not show."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def _taken(page: Page, picture: Picture) -> bytes:
    for name in picture.press:
        page.get_by_role("button", name=name).first.click()
    if picture.type:
        page.locator("main input[data-inline]").fill(picture.type)
    if picture.fill:
        _filled(page, picture)
    expect(page.locator("main")).to_contain_text(picture.shows)
    expect(page.locator("html[data-assets]")).to_have_count(1)
    expect(page.locator("main .g-skeleton, main [aria-busy=true], main .htmx-request")).to_have_count(0)
    tall = min(int(page.evaluate("document.documentElement.scrollHeight")), TALLEST)
    page.set_viewport_size({"width": WIDTH, "height": max(tall, HEIGHT)})
    # to hide the caret Playwright gives each field a style, and htmx copies it where a part refreshes itself meanwhile: our policy
    # refuses that, and the browser complains
    return _small(page.screenshot(animations="disabled", caret="initial"))


def _filled(page: Page, picture: Picture) -> None:
    """The form says at first what it lacks, once its end is seen, and nothing in the end."""
    why = page.locator("main #why")
    page.locator("main form").get_by_role("link", name="Cancel").scroll_into_view_if_needed()
    expect(why).not_to_be_empty()
    for field, text in picture.fill:
        page.locator(f"main form [name={field}]").fill(text)
    expect(why).to_be_empty()
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


def test_pictures_of_the_guides(
    chromium: Browser, address: str, staged: dict[str, object], tmp_path: Path
) -> None:
    folder = Path(os.environ.get("GPUAAS_PICTURES", "") or tmp_path)
    for theme in THEMES:
        pages = {}
        for name in ("alice", "olga"):
            context = context_for(chromium, address, User.objects.get(username=name), theme=theme)
            pages[name] = opened(context)
        for name, picture in PICTURES.items():
            page, complaints = pages[picture.reader]
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            _alive()
            page.goto(address + picture.path.format(**staged))
            data = _taken(page, picture)
            assert len(data) <= MOST_BYTES, name
            (folder / file_of(name, theme)).write_bytes(data)
            assert complaints == [], name
