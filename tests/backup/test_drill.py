"""The drill: the portal is lost, restored as it was at the backup, and its site has moved on meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

import pytest
from django.db import connection

from billing.models import Invoice
from billing.months import month_span
from billing.rating import Cell, Slots, rate_usage
from billing.selectors.documents import invoice_rows, invoice_verify, pdf_of
from billing.services import rate_set
from billing.services.pdfs import pdfs_make
from gpuaas.backup.services import backup_check, backup_make, restore
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_scale
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json, encrypt_json
from gpuaas.metering.meter import Meters
from gpuaas.metering.models import Meter, SiteMeter, UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.models import SandboxClusterObject, SandboxNamespace, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_resize
from gpuaas.workspaces.tasks import lease_ends
from tenants.actors import Actor
from tenants.models import Project, User
from tests.backup.stage import elsewhere, site_carry
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.clusters import stage as clusters
from tests.factories.quotas import counters_must_match
from tests.metering.test_meter import wait_for
from tests.workspaces.stage import ready, settle

pytestmark = pytest.mark.django_db(transaction=True)
OCTOBER = date(2026, 10, 1)
SECRET = {"token": "a secret of the site"}
Document = tuple[str, str, bytes | None, list[tuple[str, ...]]]


@pytest.fixture
def billed(as_olga: Actor, project: Project, h100: Flavor, alice: User) -> None:
    """October is closed and on paper; usage goes on since then."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    row = workspace_make(project, h100, alice, name="counted")
    Workspace.objects.filter(pk=row.pk).update(state="deleted", due_at=None)
    interval_make(row, h100, utc("2026-10-02 00:00:00"), utc("2026-10-29 13:37:11"), quantity=2)
    interval_make(row, h100, utc("2026-11-01 07:00:00"), None, quantity=3)
    month_close(as_olga, OCTOBER)
    pdfs_make()


def documents() -> list[Document]:
    """Every invoice as tenants get it: number, fingerprint, the file on paper, the lines."""
    found = []
    for row in Invoice.objects.order_by("number"):
        assert invoice_verify(invoice=row)
        lines = [tuple(map(str, line)) for line in invoice_rows(invoice=row)]
        found.append((row.number, row.content_hash, pdf_of(invoice=row), lines))
    return found


def rated(until: datetime) -> list[Cell]:
    """What everybody owes for the open month up to then."""
    month = until.date().replace(day=1)
    slots = Slots(months=[month], spans=[month_span(month)])
    return sorted(rate_usage(slots=slots, now=until, projects=None), key=repr)


def spaces(site: Site) -> dict[str, int]:
    """The running pods of each namespace at the site."""
    rooms = SandboxNamespace.objects.filter(site=site.pk, gone_at=None)
    return {room.name: room.pods.filter(finished_at=None, gone_at=None).count() for room in rooms}


@contextmanager
def metered(known: SandboxPod) -> Iterator[None]:
    """The meter, with its warden, has listed the site, and goes on to hear from it."""
    stop = threading.Event()
    thread = threading.Thread(target=Meters(stop=stop).run, daemon=True)
    thread.start()
    try:
        wait_for(UsageInterval.objects.filter(consumer_uid=str(known.uid)).exists, seconds=60)
        yield
        heard = clock.now()
        wait_for(SiteMeter.objects.filter(last_proof_at__gt=heard).exists, seconds=60)
    finally:
        stop.set()
        thread.join(timeout=60)
    assert not thread.is_alive()


class Before:
    """The portal at the instant of the backup: three workspaces and a cluster, each with two H100."""

    def __init__(self, alice: Actor, project: Project, site: Site) -> None:
        self.kept, self.grown, self.deleted = (
            ready(alice, project, site, name=name) for name in ("kept", "grown", "deleted")
        )
        self.pod = pod_create(site.pk, self.kept.external_name, "known", 1)
        self.cluster = clusters.ready(alice, project, name="sim")
        held_sync()


class Since:
    """What is done after it, of which the restored portal knows nothing."""

    def __init__(self, before: Before, alice: Actor, project: Project, site: Site) -> None:
        self.made = ready(alice, project, site, name="made")
        self.pod = pod_create(site.pk, self.made.external_name, "unknown", 2)
        settle(workspace_resize(actor=alice, workspace=before.grown, items=[("h100.1", 4)]))
        settle(workspace_delete(actor=alice, workspace=before.deleted))
        self.ordered = clusters.ready(alice, project, name="later")
        clusters.settle(cluster_scale(actor=alice, cluster=before.cluster, counts={"gpu": 2}))
        held_sync()
        self.objects = self.objects_left()
        assert self.objects

    def objects_left(self) -> dict[str, object]:
        rows = SandboxClusterObject.objects.filter(tag=self.ordered.pk, gone_at=None)
        return dict(rows.values_list("name", "pk"))

    def untouched(self, site: Site) -> None:
        assert spaces(site)[self.made.external_name] == 1
        self.pod.refresh_from_db()
        assert (self.pod.finished_at, self.pod.gone_at) == (None, None)
        assert self.objects_left() == self.objects
        assert not UsageInterval.objects.filter(consumer_uid=str(self.pod.uid)).exists()


def reconciled(before: Before) -> None:
    """Everything that the portal knows has been seen to, beside a meter and the sweep of leases."""
    lease_ends()
    with metered(before.pod):
        for row in Workspace.objects.exclude(state="deleted"):
            assert settle(row).state == "ready", row.name
        for one in Cluster.objects.all():
            assert clusters.settle(one).state == "ready", one.name


def as_before(before: Before, site: Site) -> None:
    counters_must_match()
    for row in (before.kept, before.grown, before.deleted):
        room = SandboxNamespace.objects.get(owner=row.pk)
        assert room.quotas.get(resource="nvidia.com/gpu").hard == 2
    assert spaces(site)[before.kept.external_name] == 1
    assert len(clusters.workers(before.cluster)["gpu"]) == 1


def test_lost_and_restored(
    folder: Path,
    tmp_path: Path,
    empty: str,
    billed: None,
    as_alice: Actor,
    as_olga: Actor,
    project: Project,
    site: Site,
) -> None:
    clusters.offered(as_olga, site)
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json(SECRET))
    before = Before(as_alice, project, site)
    path = backup_make(folder=folder)
    manifest = backup_check(path=path)
    wanted, owed = documents(), rated(manifest.moment)
    assert wanted
    assert wanted[0][2]
    assert owed
    since = Since(before, as_alice, project, site)
    UsageInterval.objects.filter(consumer_name="pod").update(quantity=9)
    assert rated(manifest.moment) != owed
    with elsewhere(empty):
        restore(path=path)
    site_carry(str(connection.settings_dict["NAME"]), empty, tmp_path / "site.sql")
    with elsewhere(empty):
        assert documents() == wanted
        assert rated(manifest.moment) == owed
        assert decrypt_json(Site.objects.get().credentials) == SECRET
        counters_must_match()
        assert not Workspace.objects.filter(pk=since.made.pk).exists()
        reconciled(before)
        as_before(before, site)
        since.untouched(site)
