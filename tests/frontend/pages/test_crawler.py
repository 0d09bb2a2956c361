"""A browser goes through the whole console: every link once for each kind of address, every dialog, four widths, both themes."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from urllib.parse import parse_qsl, urldefrag, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from axe_playwright_python.sync_playwright import Axe
from django.db import transaction
from django.urls import Resolver404, resolve
from playwright.sync_api import Browser, Page, expect

from billing.models import Budget, Invoice
from billing.services import rate_draft_open
from billing.services.payments import payment_record
from gpuaas.catalog.models import Flavor, GpuPool, Node, Site
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import Project, Tries, User
from tests.api.cluster_stage import warm_stage
from tests.billing.stage import (
    grant_stage,
    interval_make,
    pool_stage,
    usage_import_stage,
    usage_write_off_stage,
    workspace_make,
    write_off_stage,
)
from tests.clusters.host_stage import host_at
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.trouble import trouble_at
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED

WIDTHS = (390, 768, 1280, 1920)
HEIGHT = 900
FILES = re.compile(r"\.(csv|pdf)($|\?)|[?&](\w+-)?(csv|format)=")
# other rooms, and the way out
ELSEWHERE = ("/api/", "/static/", "/accounts/", "/healthz")
ROW = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-?\d+$")

DISABLED = """() => [...document.querySelectorAll('button:disabled, [aria-disabled=true]')]
  .filter(each => each.checkVisibility())
  .filter(each => {
    const by = (each.getAttribute('aria-describedby') ?? '').split(' ').map(id => document.getElementById(id)?.innerText ?? '');
    const beside = each.parentElement?.querySelector('.g-reason')?.innerText ?? '';
    return ![...by, beside].join('').trim();
  })
  .map(each => each.outerHTML.replace(/\\s+/g, ' ').slice(0, 140))"""
TOO_WIDE = """() => document.documentElement.scrollWidth > innerWidth ?
  [...document.querySelectorAll('main *')].filter(each => each.getBoundingClientRect().right > innerWidth + 1
    && !each.closest('.g-scroll, .visually-hidden')).slice(0, 2)
    .map(each => each.outerHTML.replace(/\\s+/g, ' ').slice(0, 120)).join(' | ') || 'something' : ''"""

# a change of color that is under way is no color of the theme
ENDED = """() => document.getAnimations().filter(each => Number.isFinite(each.effect.getComputedTiming().endTime))
  .forEach(each => each.finish())"""


@dataclass
class Crawl:
    """One reader's way through the console. `inside`: what addresses begin with that are followed."""

    page: Page
    address: str
    complaints: list[str]
    inside: tuple[str, ...]
    axe: bool
    seen: set[tuple[str, str]] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    dialogs: int = 0

    def through(self, *starts: str) -> None:
        left = deque(starts)
        while left:
            path = left.popleft()
            kinds = self.kinds_of(path)
            if kinds <= self.seen:
                continue
            self.seen |= kinds
            left.extend(self.visit(path, min(kinds)[0]))

    def kinds_of(self, path: str) -> set[tuple[str, str]]:
        """The pattern of an address, and with it each name in its query: one of each is opened."""
        parts = urlsplit(path)
        if not parts.path.startswith(self.inside) or parts.path.startswith(ELSEWHERE):
            return set()
        try:
            name = resolve(parts.path).view_name
        except Resolver404:
            name = parts.path
        return {(name, ""), *((name, asked) for asked, _ in parse_qsl(parts.query))}

    def visit(self, path: str, name: str) -> list[str]:
        """Looked at in every way, with another query only for what it says; what it links to."""
        if FILES.search(path):
            answer = self.page.request.get(self.address + path)
            if answer.status >= 400 and answer.status != 503:  # a document may still be in the making
                self.found.append(f"{path}: {answer.status}")
            return []
        response = self.page.goto(self.address + path)
        if response is None or response.status >= 400:
            self.found.append(f"{path}: {response and response.status}")
            return []
        is_new = name not in self.names
        self.names.append(name)
        expect(self.page.locator("html[data-assets]")).to_have_count(1)
        if is_new:
            self.wide(path)
        if is_new and self.axe:
            self.sound(path)
        self.found += [f"{path} does not say why: {html}" for html in self.page.evaluate(DISABLED)]
        links = self.page.evaluate("[...document.querySelectorAll('a[href]')].map(each => each.href)")
        if is_new:
            self.open_dialogs(path)
        self.told(path)
        return [
            urldefrag(link.removeprefix(self.address))[0] for link in links if link.startswith(self.address)
        ]

    def told(self, path: str) -> None:
        self.found += [f"{path} complains: {text}" for text in self.complaints]
        self.complaints.clear()

    def wide(self, path: str) -> None:
        """The same page at every width, the last one is where the rest is done."""
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            if what := self.page.evaluate(TOO_WIDE):
                self.found.append(f"{path} scrolls sideways at {width}: {what}")
        self.page.set_viewport_size({"width": 1280, "height": HEIGHT})

    def sound(self, path: str) -> None:
        """All that axe knows in light; in dark what colors change."""
        themes: list[tuple[Literal["light", "dark"], dict[str, list[str]] | None]] = [
            ("light", None),
            ("dark", {"runOnly": ["color-contrast"]}),
        ]
        for theme, options in themes:
            self.page.emulate_media(color_scheme=theme)
            self.page.evaluate(ENDED)
            found = Axe().run(self.page, options=options).response["violations"]
            self.found += [f"{path} in {theme}: {v['id']} {v['nodes'][0]['html'][:140]}" for v in found]
        self.page.emulate_media(color_scheme="light")

    def open_dialogs(self, path: str) -> None:
        """One of each kind of row; whatever is opened closes."""
        shown = "[...document.querySelectorAll('[data-dialog]')].filter(e => e.checkVisibility()).map(e => e.dataset.dialog)"
        once = {ROW.sub("", name): name for name in self.page.evaluate(shown)}
        for name in once.values():
            self.page.locator(f'[data-dialog="{name}"]:visible').first.click()
            dialog = self.page.locator(f"dialog[id='{name}']")
            expect(dialog).to_be_visible()
            self.found += [
                f"{path} #{name} does not say why: {html}"
                for html in self.page.evaluate(DISABLED)
                if "btn-delete" not in html  # beside it stands what to type
            ]
            self.page.keyboard.press("Escape")
            expect(dialog).not_to_be_visible()
            self.dialogs += 1


@pytest.fixture
def everything(known: dict[str, object], people: dict[str, User], workspace: Workspace) -> Workspace:
    """Besides the project in use: what operators have, one of each."""
    project, site, alice, bob = workspace.project, workspace.site, people["alice"], people["bob"]
    flavor = workspace.flavors.get().flavor
    now = clock.now()
    for pool in GpuPool.objects.filter(site=site):
        name = f"{pool.gpu_type.slug.partition('-')[0]}-01"
        common = {"vcpus": 128, "memory_gib": 1024, "observed_at": now, "capacity": 8, "allocated": 1}
        Node.objects.create(site=site, pool=pool, name=name, ready=True, **common)
    GpuPoolFactory.create(
        site=site, gpu_type__slug="unsold", gpu_type__name="Unsold", resource_name="x/unsold", capacity=4
    )
    trouble_at(site)
    plan_at(site, project, bob)
    interval_make(workspace, flavor, now - timedelta(hours=5), now)
    racked = SiteFactory.create(slug="rack-1", driver="bare-metal")
    host_at(racked)
    machines_at(project, alice)
    cluster = Cluster.objects.get()
    warm_stage(cluster.template_version.template, project, bob, name="usual", wanted=2)
    rate_draft_open(actor=SYSTEM)
    pool_stage(project, flavor)
    usage_import_stage(project)
    usage_write_off_stage()
    organization = project.organization
    payment_record(actor=SYSTEM, organization=organization, amount="5")
    grant_stage(organization)
    with transaction.atomic():
        write_off_stage(Invoice.objects.get())
    Tries.objects.create(account=str(bob.pk), user=bob, network="192.0.2.1")
    SocialAccount.objects.create(user=bob, provider="oidc", uid=str(bob.pk))
    assert Budget.objects.exists()
    return workspace


def machines_at(project: Project, user: User) -> None:
    site: Site = SiteFactory.create(slug="ham-1", driver="sandbox-cloud")
    flavor: Flavor = FlavorFactory.create(
        pool=GpuPoolFactory.create(site=site, capacity=8, healthy=8), disk_gib=14
    )
    room = workspace_make(project, flavor, user, name="rooms")
    room.flavors.create(flavor=flavor, count=2)
    Workspace.objects.filter(pk=room.pk).update(state="ready", ready_at=clock.now())
    Machine.objects.create(workspace=room, name="train", created_at=clock.now())


@pytest.fixture
def address(everything: Workspace) -> Iterator[str]:
    with served() as url:
        yield url


OPERATORS = ("/operator/",)
TENANTS = ("/p/", "/o/", "/account/")


@pytest.mark.parametrize(
    ("reader", "start", "inside", "axe", "pages", "dialogs"),
    [
        ("alice", "/p/weather-lm/", TENANTS, True, 60, 14),
        ("bob", "/p/weather-lm/", TENANTS, False, 35, 7),
        ("olga", "/operator/", OPERATORS, True, 60, 18),
        ("olga", "/p/weather-lm/", TENANTS, False, 60, 13),
    ],
    ids=["alice", "bob", "olga", "olga-visits"],
)
def test_nothing_is_a_dead_end(
    reader: str,
    start: str,
    inside: tuple[str, ...],
    axe: bool,
    pages: int,
    dialogs: int,
    chromium: Browser,
    address: str,
    people: dict[str, User],
) -> None:
    page, complaints = opened(context_for(chromium, address, people[reader]))
    crawl = Crawl(page, address, complaints, inside, axe)
    crawl.through(start, "/account/")
    assert crawl.found == []
    assert len(crawl.names) >= pages, sorted(crawl.names)
    assert crawl.dialogs >= dialogs
