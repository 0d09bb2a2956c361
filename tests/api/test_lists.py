"""Lists: every row once, in order, in as many queries at 30 rows as at 3."""

import json
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import (
    Budget,
    Discount,
    Grant,
    Invoice,
    MonthClose,
    RateCard,
    RateCardVersion,
    RateDraft,
    RateDraftLine,
    UsageWriteOff,
)
from gpuaas.catalog.models import Flavor, GpuPool, NodeCheck, Site, StorageClass
from gpuaas.core import clock
from gpuaas.environments.models import Environment, EnvironmentKind
from gpuaas.environments.services import kind_version_add
from gpuaas.metering.models import CrossCheck, Meter, MeterGap, UsageImport, UsageInterval
from gpuaas.providers.base import Belonging, ForeignWorkspace, MachineImage
from gpuaas.workspaces.adoption_plan import found_stored
from gpuaas.workspaces.machines.models import Machine, MachineLook, PublicKey
from gpuaas.workspaces.models import (
    AccessGrant,
    Adoption,
    AdoptionScan,
    Drift,
    Robot,
    Workspace,
    WorkspaceFlavor,
)
from gpuaas.workspaces.services import member_set, workspace_request
from quotas.models import Limit, PoolReservation
from tenants.actors import SYSTEM, Actor
from tenants.models import ApiToken, Organization, Project, User
from tests.api.addresses import addresses
from tests.api.caller import Caller, token_for
from tests.api.cluster_stage import cluster_rows, named_of_clusters, policy_rows
from tests.api.unpaged import UNPAGED
from tests.billing.stage import (
    budget_stage,
    card_stage,
    payout_stage,
    pool_stage,
    rate_make,
    usage_import_stage,
    usage_write_off_stage,
    utc,
    write_off_stage,
)
from tests.clusters.host_stage import host_at
from tests.environments.stage import DOCUMENT as NOTEBOOK
from tests.environments.stage import at_site, kind, row_in
from tests.factories.billing import invoice_make
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, GpuTypeFactory, SiteFactory
from tests.factories.tenants import (
    OrganizationFactory,
    OrganizationMembershipFactory,
    ProjectFactory,
    ProjectMembershipFactory,
    UserFactory,
)
from tests.jobs import stage as jobs

pytestmark = pytest.mark.django_db

BASELINE = Path(__file__).with_name("query_counts.json")
SINGLE = {"me", "usage-totals", "workspace-sign-in-kubeconfig"}  # lists inside, but computed ones; no page
SINGLE |= {"key", "platform-cluster-template-organization"}  # one row without anything below it
FILES = ("statement", "costs", "focus", "invoice-csv", "intervals-csv", "invoice-pdf", "file-content")
MONEY = {name for name in (each.name for each in addresses()) if any(word in name for word in FILES)}


class World:
    """Adds n of everything that is listed anywhere."""

    def __init__(self, owner: User, actor: Actor, project: Project, site: Site) -> None:
        self.owner, self.actor, self.project, self.site = owner, actor, project, site
        self.number = 0
        self.card: dict[str, object] = {}

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self._tenants(self.number)
            self._catalog(self.number)
            self._workspace(self.number)
            token_for(self.owner, self.project)
            self._money(self.number)
            self._cards(self.number)
            cluster_rows(project=self.project, site=self.site, user=self.owner, number=self.number)
            policy_rows(project=self.project, number=self.number)

    def _money(self, n: int) -> None:
        month = date(2020 + n // 12, n % 12 + 1, 1)
        invoice = invoice_make(self.project, number=f"INV-2026-{n:04}", month=month, lines=n)
        for _ in range(n):
            write_off_stage(invoice)
        payout_stage(self.project.organization)
        usage_write_off_stage()
        usage_import_stage(self.project)
        MonthClose.objects.create(month=month, state="refused", requested_at=clock.now(), requested_by="olga")
        Grant.objects.create(
            organization=self.project.organization,
            currency="EUR",
            amount_minor=n,
            expires_at=clock.now(),
            created_at=clock.now(),
            created_by="olga",
        )

    def _cards(self, n: int) -> None:
        """A version with a price and a tier, a line of the draft, a discount that is over; and a card of its own."""
        flavor = Flavor.objects.get(slug=f"flavor-{n:03}")
        path = card_stage(self.project, flavor) if n == 1 else self.card
        self.card = path
        card = RateCard.objects.get(slug=str(path["card"]))
        rate_make(card, flavor, n, utc("2026-01-02") + timedelta(days=n), tier_mode="volume", tiers=[(n, n)])
        card.drafts.get().lines.create(flavor=flavor, meter="gpu_held", price_micro=n)
        RateCard.objects.create(
            organization=Organization.objects.get(slug=f"org-{n:03}"), slug=f"own-{n:03}", currency="EUR"
        )
        start = utc("2020-01-01") + timedelta(days=n)
        Discount.objects.create(
            organization=self.project.organization,
            flavor=flavor,
            basis_points=n,
            valid_from=start,
            valid_to=start + timedelta(days=1),
            created_by="olga",
        )

        pool_stage(self.project, Flavor.objects.get(slug="h100.1"), days=n)

    def _tenants(self, n: int) -> None:
        organization: Organization = OrganizationFactory.create(slug=f"org-{n:03}")
        ProjectFactory.create(organization=organization, slug=f"there-{n:03}")
        ProjectFactory.create(organization=self.project.organization, slug=f"here-{n:03}")
        user = UserFactory.create(username=f"person-{n:03}")
        ProjectMembershipFactory.create(project=self.project, user=user, role="member")
        OrganizationMembershipFactory.create(
            organization=self.project.organization, user=user, role="billing"
        )

    def _catalog(self, n: int) -> None:
        host_at(self.site, n)
        site = SiteFactory.create(slug=f"site-{n:03}")
        gpu_type = GpuTypeFactory.create(slug=f"gpu-{n:03}")
        pool: GpuPool = GpuPoolFactory.create(site=site, gpu_type=gpu_type)
        FlavorFactory.create(pool=pool, slug=f"flavor-{n:03}")
        StorageClass.objects.create(
            site=self.site,
            name=f"class-{n:03}",
            slug=f"class-{n:03}",
            state="active",
            observed_at=clock.now(),
        )
        Limit.objects.create(project=self.project, resource=f"gpu:gpu-{n:03}", hard=n)
        NodeCheck.objects.create(
            site=self.site, node=f"node-{n:03}", requested_by="olga", requested_at=clock.now()
        )

    def _workspace(self, n: int) -> None:
        row = workspace_request(
            actor=self.actor, project=self.project, name=f"w-{n:03}", items=[("l40s.1", 1)]
        )
        member_set(actor=self.actor, workspace=row, username=f"person-{n:03}", role="edit")
        first = Workspace.objects.order_by("pk")[0]
        if row != first:
            member_set(actor=self.actor, workspace=first, username=f"person-{n:03}", role="edit")
        volume = {"name": f"v-{n:03}", "gib": n, "storage_class": f"class-{n:03}", "bound": True}
        volume["created_at"] = clock.now().isoformat()
        first.observed = {
            "at": clock.now().isoformat(),
            "volumes": [*first.observed.get("volumes", []), volume],
        }
        first.save(update_fields=["observed"])
        self._access(first, n)
        self._machine(first, n)
        self._environment(first, n)
        jobs.row_in(first, f"j-{n:03}")
        jobs.credential_in(first, f"c-{n:03}")
        jobs.template_in(first, f"t-{n:03}")
        self._adoption(n)
        Drift.objects.create(workspace=first, found_at=clock.now(), digest=f"{n}", state="repaired")
        self._meter(n)
        budget_stage(self.project, name=f"budget {n:03}")
        now = clock.whole_second(clock.now())
        UsageInterval.objects.create(
            site=self.site,
            project=self.project,
            workspace=row,
            flavor=Flavor.objects.get(slug="l40s.1"),
            consumer_uid=str(row.pk),
            consumer_name=row.name,
            meter=Meter.GPU_HELD,
            resource_name="nvidia.com/gpu",
            quantity=1,
            started_at=now,
            last_seen_at=now,
        )

    def _access(self, first: Workspace, n: int) -> None:
        now = clock.now()
        by = {"workspace": first, "created_by": "alice", "created_at": now}
        robot = Robot.objects.create(name=f"ci-{n:03}", role="edit", **by) if n <= 15 else None
        person = None if robot and n % 2 else self.owner
        AccessGrant.objects.create(
            workspace=first,
            user=person,
            robot=None if person else robot,
            issued_by="alice",
            issued_at=now,
            expires_at=now + timedelta(hours=1),
        )

    def _machine(self, first: Workspace, n: int) -> None:
        now = clock.now()
        Machine.objects.create(workspace=first, name=f"m-{n:03}", created_at=now)
        PublicKey.objects.create(
            user=self.owner,
            name=f"key-{n:03}",
            public_key="ssh-ed25519 A",
            fingerprint=f"{n}",
            created_at=now,
        )
        flavor = Flavor.objects.get(slug=f"flavor-{n:03}")
        WorkspaceFlavor.objects.create(workspace=first, flavor=flavor, count=1, confirmed=1)
        look, _ = MachineLook.objects.get_or_create(workspace=first)
        look.images = [*look.images, asdict(MachineImage(f"i-{n:03}", "Debian"))]
        look.belongings = [*look.belongings, asdict(Belonging("network", f"b-{n:03}", "workspace"))]
        look.save()

    def _environment(self, first: Workspace, n: int) -> None:
        now = clock.now()
        at_site(row_in(first, f"e-{n:03}"), *(f"{number}.txt" for number in range(n)))
        more = {"kind": "restart", "requested_by": "alice", "requested_at": now, "finished_at": now}
        oldest = Environment.objects.earliest("pk")
        oldest.token_days.create(
            day=date(2026, 1, 1) + timedelta(days=n), requests=n, tokens_in=n, tokens_out=n
        )
        operation = oldest.operations.create(**more)
        operation.steps.create(position=0, key="stop", label="End what runs of it")
        kind(f"kind-{n:03}")
        kind_version_add(actor=SYSTEM, kind=EnvironmentKind.objects.get(slug="kind-001"), document=NOTEBOOK)

    def _meter(self, n: int) -> None:
        now = clock.whole_second(clock.now()) - timedelta(hours=n)
        MeterGap.objects.create(site=self.site, starts_at=now, ends_at=now + timedelta(seconds=9))
        CrossCheck.objects.create(site=self.site, checked_at=now, compared=n)

    def _adoption(self, n: int) -> None:
        now = clock.now()
        wishes = {"project": self.project, "requested_by": self.owner, "requested_at": now}
        Adoption.objects.create(site=self.site, external_name=f"old-{n:03}", **wishes)
        scan, _ = AdoptionScan.objects.get_or_create(site=self.site, defaults={"requested_at": now})
        held = {"nvidia.com/gpu": 1}
        found = ForeignWorkspace(
            f"old-{n:03}", now, gpus=held, vcpus=1, memory_gib=1, storage_gib=0, consumers=1
        )
        scan.found = [*scan.found, *found_stored([found])]
        scan.save()


@pytest.fixture
def world(alice: User, as_alice: Actor, project: Project, site: Site, limits: None, olga: User) -> World:
    Limit.objects.update(hard=None)
    GpuPool.objects.update(healthy=1000)
    site.sellable.update(hard=None)
    return World(alice, as_alice, project, site)


def lists() -> list[str]:
    return sorted(
        each.name for each in addresses() if "GET" in each.methods and each.name not in SINGLE | MONEY
    )


def paths() -> dict[str, str]:
    """Of all lists, as the world is now."""
    values: dict[str, Any] = {
        "project": "weather-lm",
        "organization": "climate",
        "workspace": Workspace.objects.earliest("pk").pk,
        "site": "ber-1",
        "host": "dgx-1",
        "robot": "ci-001",
        "username": "person-002",
        "token": ApiToken.objects.order_by("pk")[0].pk,
        "flavor": "flavor-001",
        "gpu_type": "gpu-001",
        "resource": "vcpu",
        "discount": Discount.objects.order_by("pk")[0].pk,
        "line": RateDraftLine.objects.order_by("pk")[0].pk,
        "budget": Budget.objects.order_by("pk")[0].pk,
        "machine": Machine.objects.order_by("pk")[0].pk,
        "environment": (environment := Environment.objects.earliest("pk")).pk,
        "door_key": environment.keys.earliest("pk").pk,
        "kind": "kind-001",
        **jobs.first(),
        "adoption": Adoption.objects.order_by("pk")[0].pk,
        "check": NodeCheck.objects.order_by("pk")[0].pk,
        "unpriced": UsageWriteOff.objects.order_by("pk")[0].pk,
        "usage_import": UsageImport.objects.order_by("-pk")[0].pk,
        "number": Invoice.objects.order_by("-number")[0].number,
        "month": "2026-10",
        "card": "standard",
        "version": RateCardVersion.objects.order_by("-valid_from")[0].number,
        "draft": RateDraft.objects.get().pk,
        "reservation": PoolReservation.objects.order_by("pk")[0].pk,
        "storage_class": StorageClass.objects.order_by("pk")[0].pk,
        **named_of_clusters(),
    }
    known = set(lists())
    return {each.name: each.path(**values) for each in addresses() if each.name in known}


def counted(caller: Caller, path: str) -> tuple[int, Any]:
    with CaptureQueriesContext(connection) as queries:
        answer = caller.get(path)
    assert answer.status == 200, answer.json
    return len(queries), answer.json


def test_query_counts(world: World, olga: User, request: pytest.FixtureRequest) -> None:
    """As in query_counts.json, and the same at 3 rows and at 12. Delete the file to have it written anew."""
    callers = {True: Caller(olga), False: Caller(world.owner)}
    found: dict[str, int] = {}
    world.grow(3)
    for name, path in paths().items():
        caller = callers[name.startswith("platform")]
        caller.get(path)  # what Django caches at first use
        found[name] = counted(caller, path)[0]
    world.grow(9)
    for name, path in paths().items():
        count, answer = counted(callers[name.startswith("platform")], path)
        assert count == found[name], f"{name}: {found[name]} queries at 3 rows, {count} at 12: {len(answer)}"
    if not BASELINE.exists():
        BASELINE.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", "utf-8")
    assert found == json.loads(BASELINE.read_text("utf-8"))


PAGED = sorted(set(lists()) - UNPAGED)


def test_every_list_pages_without_gaps_or_repetitions(world: World, olga: User) -> None:
    world.grow(5)
    found, callers = paths(), {True: Caller(olga), False: Caller(world.owner)}
    for name in PAGED:
        caller = callers[name.startswith("platform")]
        whole = caller.get(found[name] + "?page_size=200").json
        assert whole["next"] is None, name
        rows, following = [], found[name] + "?page_size=2"
        while following:
            page = caller.get(following).json
            assert len(page["results"]) <= 2
            rows += page["results"]
            following = page["next"]
        assert still(rows) == still(whole["results"]), name


def still(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what grows from one moment to the next."""
    return [{key: value for key, value in row.items() if key not in {"spent", "forecast"}} for row in rows]


def test_a_row_that_comes_meanwhile_shifts_nothing(world: World) -> None:
    world.grow(3)
    caller = Caller(world.owner)
    first = caller.get("/projects/weather-lm/workspaces?page_size=2").json
    world.grow(1)
    rest = caller.get(first["next"]).json
    assert [row["name"] for row in first["results"] + rest["results"]] == ["w-003", "w-002", "w-001"]


def test_a_cursor_of_another_list_is_refused(world: World) -> None:
    world.grow(3)
    caller = Caller(world.owner)
    following = caller.get("/projects/weather-lm/workspaces?page_size=1").json["next"]
    cursor = following.split("cursor=")[1].split("&")[0]
    for path in ("/projects", "/projects/weather-lm/tokens", "/projects/weather-lm/usage"):
        assert caller.get(f"{path}?cursor={cursor}").code == "invalid"
