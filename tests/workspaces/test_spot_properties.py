"""Whatever is bought, borrowed, started and ended, in any order: no buyer notices borrowers for longer than their notice, nobody passes
a limit, and what ran of either adds up apart."""

import uuid
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gpuaas.core.clock import whole_second
from gpuaas.core.errors import Conflict, QuotaRefused
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import usage_apply
from gpuaas.providers.base import Connection
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.providers.sandbox.models import NOTICE, SandboxNamespace, SandboxPod, SandboxQuota
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from gpuaas.providers.sandbox.watch import usage_stream
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from quotas.models import SiteCapacity
from quotas.selectors import counters_mismatches
from quotas.services import reservation_grow, reservation_release, reservation_reserve
from tenants.models import User
from tests.examples import FEW
from tests.factories.catalog import FlavorFactory, stock_site
from tests.factories.quotas import limits_give
from tests.factories.tenants import ProjectFactory
from tests.metering.stage import utc, workspace_make

BEGIN = utc("2026-11-20 08:00:00")
GPU, TYPE = "nvidia.com/gpu", "h100-sxm-80gb"
SIZE, LIMIT, LENT = (
    4,
    4,
    3,
)  # GPUs of the only node, so few that they soon meet; what the project may hold, and borrow
SECONDS = 30  # of notice
FIRST = {
    "buys-1": 3,
    "buys-2": 1,
    "borrows-1": 2,
    "borrows-2": 1,
}  # GPUs that each holds at first; borrowers use them
WHO = tuple(FIRST)


class Site(RuleBasedStateMachine):
    """`held` and `pods` are the model: GPUs by workspace, and what it started."""

    @initialize()
    def stock(self) -> None:
        self.now = BEGIN
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.traveller = time_machine.travel(self.now, tick=False)
        self.clock = self.traveller.start()
        self.site = stock_site(h100s=SIZE)
        fleet_seed(self.site.pk, racks=(Rack("gpu", 1, H100, SIZE),))
        SiteCapacity.objects.create(site=self.site, resource=f"spot:{TYPE}", healthy=SIZE, hard=SIZE)
        self.project = ProjectFactory.create()
        limits_give(self.project, {f"gpu:{TYPE}": LIMIT, f"spot:{TYPE}": LENT})
        pool = self.site.pools.get(gpu_type__slug=TYPE)
        user = User.objects.create(username="alice")
        bought = pool.flavors.get()
        lent = FlavorFactory.create(pool=pool, slug="h100.spot", price_class="spot", notice_seconds=SECONDS)
        self.flavors = {True: lent, False: bought}
        self.rooms = {name: self.room(name, user) for name in WHO}
        self.held, self.cursor = Counter[str](), ""
        for name, count in FIRST.items():
            self.hold(name, count)
            if name.startswith("borrows"):
                self.start(name, count, None)

    def room(self, name: str, user: User) -> tuple[Workspace, SandboxNamespace]:
        spot = name.startswith("borrows")
        row = workspace_make(self.project, self.flavors[spot], user, name=name)
        WorkspaceFlavor.objects.filter(workspace=row).update(count=SIZE, confirmed=SIZE)
        labels = {NOTICE: str(SECONDS)} if spot else {}
        space = SandboxNamespace.objects.create(
            site_id=self.site.pk, name=row.external_name, owner=row.pk, labels=labels
        )
        SandboxQuota.objects.create(namespace=space, resource=GPU, wanted=0, hard=0)
        return row, space

    def teardown(self) -> None:
        if hasattr(self, "transaction"):
            self.traveller.stop()
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)

    def of(self, kind: str) -> int:
        return sum(count for name, count in self.held.items() if name.startswith(kind))

    @rule(name=st.sampled_from(WHO), more=st.integers(1, 3))
    def holds_more(self, name: str, more: int) -> None:
        """By the books of buyers alone, or of borrowers alone: neither stands in the other's way."""
        kind = name.partition("-")[0]
        top = min(LIMIT if kind == "buys" else LENT, SIZE)
        fits = self.of(kind) + more <= top
        try:
            self.hold(name, more)
        except Conflict:
            assert not fits, f"{name} was refused {more} more of {self.held}"
            return
        assert fits, f"{name} got {more} more than it may hold: {self.held}"

    def hold(self, name: str, more: int) -> None:
        row, space = self.rooms[name]
        holder: Any = {"holder_kind": "workspace", "holder_id": row.pk}
        wanted = {f"{'gpu' if name.startswith('buys') else 'spot'}:{TYPE}": self.held[name] + more}
        if self.held[name]:
            reservation_grow(**holder, amounts=wanted)
        else:
            reservation_reserve(**holder, project=self.project, site=self.site, amounts=wanted)
        self.held[name] += more
        SandboxQuota.objects.filter(namespace=space).update(wanted=self.held[name], hard=self.held[name])

    @rule(name=st.sampled_from(WHO))
    def gives_back(self, name: str) -> None:
        row, space = self.rooms[name]
        if name not in self.held or space.pods.filter(finished_at=None).exists():
            return
        reservation_release(holder_kind="workspace", holder_id=row.pk)
        del self.held[name]
        SandboxQuota.objects.filter(namespace=space).update(wanted=0, hard=0)

    @rule(name=st.sampled_from(WHO), gpus=st.integers(1, 3), seconds=st.sampled_from([None, 5, 40, 200]))
    def starts(self, name: str, gpus: int, seconds: int | None) -> None:
        try:
            self.start(name, gpus, seconds)
        except QuotaRefused:
            used = SandboxQuota.objects.get(namespace=self.rooms[name][1]).used
            assert used + gpus > self.held[name]

    def start(self, name: str, gpus: int, seconds: int | None) -> None:
        pod_create(
            self.site.pk,
            self.rooms[name][1].name,
            f"pod-{uuid.uuid4().hex[:8]}",
            gpus,
            seconds,
            resource_name=GPU,
            vcpus=0,
            memory_gib=0,
        )

    @rule(number=st.integers(0, 7))
    def ends(self, number: int) -> None:
        """Drawn without a look at the site, where chance decides between pods of the same moment."""
        pods = SandboxPod.objects.filter(site=self.site.pk, gone_at=None).select_related("namespace")
        if live := list(pods.order_by("created_at", "name")):
            pod = live[number % len(live)]
            pod_delete(self.site.pk, pod.namespace.name, pod.name)

    @rule(seconds=st.sampled_from([1, 20, 45, 120]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.clock.move_to(self.now, tick=False)
        self.metered()
        self.what_ran_adds_up_apart()
        assert counters_mismatches() == []

    def metered(self) -> None:
        connection = Connection(site_id=self.site.pk, site_slug="ber-1", endpoint="", credentials={})
        events = list(usage_stream(connection, self.cursor, seconds=0))
        usage_apply(site_id=self.site.pk, events=events)
        self.cursor = events[-1].cursor

    @invariant()
    def no_buyer_waits_for_longer_than_the_notice(self) -> None:
        if not hasattr(self, "rooms"):
            return
        for pod in SandboxPod.objects.filter(namespace__labels={}, site=self.site.pk):
            began: datetime | None = pod.scheduled_at
            if began is None and pod.gone_at is None:
                assert self.now - pod.created_at <= timedelta(seconds=SECONDS), pod.waiting_for
            if began is not None:
                assert began - pod.created_at <= timedelta(seconds=SECONDS)

    @invariant()
    def nobody_uses_more_than_there_is_or_than_is_held(self) -> None:
        if not hasattr(self, "rooms"):
            return
        running = SandboxPod.objects.filter(site=self.site.pk, scheduled_at__isnull=False, finished_at=None)
        used = Counter[str]()
        for pod in running.select_related("namespace"):
            used[pod.namespace.name] += pod.gpus
        assert used.total() <= SIZE
        for name, (_, space) in self.rooms.items():
            assert used[space.name] <= self.held[name]

    def what_ran_adds_up_apart(self) -> None:
        """Each second of a pod is metered once, as the flavor of its workspace; nothing that is merely held is."""
        rows = UsageInterval.objects.filter(site=self.site)
        assert set(rows.values_list("meter", flat=True)) <= {Meter.GPU_ALLOCATED}
        live = {str(pod.uid): pod for pod in SandboxPod.objects.filter(site=self.site.pk)}
        for row in rows.select_related("workspace"):
            assert row.flavor == self.flavors[row.holder.name.startswith("borrows")]
            pod = live.get(row.consumer_uid)
            if pod is not None:
                assert (row.started_at, row.quantity) == (second_of(pod.scheduled_at), pod.gpus)
                assert row.ended_at == second_of(pod.finished_at)
            else:
                assert row.ended_at is not None
        began = {uid for uid, pod in live.items() if pod.scheduled_at is not None}
        assert began <= set(rows.values_list("consumer_uid", flat=True))


def second_of(moment: datetime | None) -> datetime | None:
    """As it is metered: a pod that waits starts in the middle of a second where the grace of another one ends."""
    return whole_second(moment) if moment is not None else None


@pytest.mark.django_db
def test_borrowers_keep_nobody_waiting(examples: int) -> None:
    run_state_machine_as_test(
        Site,
        settings=settings(
            max_examples=FEW // 2 if examples == FEW else examples,  # it is costly
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
