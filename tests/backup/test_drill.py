"""The drill: the portal is lost, restored as it was at the backup, and its site has moved on meanwhile."""

from pathlib import Path

import pytest
from django.db import connection

from gpuaas.backup.services import backup_check, backup_make, restore
from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import site_probe, site_update
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_scale
from gpuaas.core.crypto import decrypt_json, encrypt_json
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.models import SandboxClusterObject, SandboxNamespace
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import drifts_at
from gpuaas.workspaces.services import workspace_delete, workspace_resize
from gpuaas.workspaces.tasks import lease_ends
from tenants.actors import Actor
from tenants.models import Project, User
from tests.backup.stage import bill, documents, elsewhere, metered, rated, site_carry
from tests.clusters import stage as clusters
from tests.factories.quotas import counters_must_match
from tests.workspaces.stage import ready, request, run_now, settle

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = {"token": "a secret of the site"}


def spaces(site: Site) -> dict[str, int]:
    """The running pods of each namespace at the site."""
    rooms = SandboxNamespace.objects.filter(site=site.pk, gone_at=None)
    return {room.name: room.pods.filter(finished_at=None, gone_at=None).count() for room in rooms}


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

    def found(self, site: Site) -> None:
        """Listed on the page of the site, which is not confirmed; what is gone is listed as drift."""
        assert site_probe(site.pk)
        site.refresh_from_db()
        shown = site.conditions["Confirmed"]
        assert (shown["status"], shown["reason"]) == ("False", "Unconfirmed")
        assert self.made.external_name in shown["message"]
        assert any(name in shown["message"] for name in self.objects)

    def untouched(self, site: Site) -> None:
        assert spaces(site)[self.made.external_name] == 1
        self.pod.refresh_from_db()
        assert (self.pod.finished_at, self.pod.gone_at) == (None, None)
        assert self.objects_left() == self.objects
        assert not UsageInterval.objects.filter(consumer_uid=str(self.pod.uid)).exists()


def reconciled(before: Before) -> None:
    """Everything that the portal knows has been seen to."""
    lease_ends()
    for row in Workspace.objects.exclude(state="deleted"):
        assert settle(row).state == ("deleted" if row.pk == before.deleted.pk else "ready"), row.name
    for one in Cluster.objects.all():
        assert clusters.settle(one).state == "ready", one.name


def looked_at(before: Before) -> None:
    """The same before an operator has confirmed the site, beside a meter and its warden; nothing may come of it."""
    lease_ends()
    with metered(lambda: UsageInterval.objects.filter(consumer_uid=str(before.pod.uid)).exists()):
        for row in Workspace.objects.exclude(state="deleted"):
            run_now(row)
        for one in Cluster.objects.all():
            clusters.run_now(one)


def as_left(before: Before, site: Site) -> None:
    """The site has what was made, grown and deleted at it after the backup, and the portal says so."""
    rooms = SandboxNamespace.objects.filter(site=site.pk, gone_at=None)
    assert not rooms.filter(owner=before.deleted.pk).exists()
    assert rooms.get(owner=before.grown.pk).quotas.get(resource="nvidia.com/gpu").hard == 4
    assert len(clusters.workers(before.cluster)["gpu"]) == 2
    for row in (before.deleted, before.grown):
        row.refresh_from_db()
        shown = row.conditions["InSync"]
        assert (shown["status"], shown["reason"]) == ("False", "Unconfirmed"), shown
        assert row.conditions["Progressing"]["reason"] == "Unconfirmed"
    (missing,) = [each for each in drifts_at(site=site) if each.workspace_id == before.deleted.pk]
    assert (missing.state, missing.resolved_by) == ("open", "")


def as_before(before: Before, site: Site) -> None:
    counters_must_match()
    for row in (before.kept, before.grown):
        room = SandboxNamespace.objects.get(owner=row.pk)
        assert room.quotas.get(resource="nvidia.com/gpu").hard == 2
    assert not SandboxNamespace.objects.filter(owner=before.deleted.pk).exists()
    assert spaces(site)[before.kept.external_name] == 1
    assert len(clusters.workers(before.cluster)["gpu"]) == 1


def unconfirmed(before: Before, since: Since, site: Site) -> None:
    """Credentials and counters are as they were, and nothing at the site is touched."""
    assert decrypt_json(Site.objects.get().credentials) == SECRET
    counters_must_match()
    assert not Workspace.objects.filter(pk=since.made.pk).exists()
    looked_at(before)
    as_left(before, site)
    since.untouched(site)
    since.found(site)


def confirmed(before: Before, since: Since, as_olga: Actor, site: Site) -> None:
    """What the portal knows is as the database says; what it does not know is as it was."""
    site_update(actor=as_olga, site=site, confirmed=True)
    reconciled(before)
    as_before(before, site)
    since.untouched(site)


def test_lost_and_restored(
    folder: Path,
    tmp_path: Path,
    empty: str,
    h100: Flavor,
    alice: User,
    as_alice: Actor,
    as_olga: Actor,
    project: Project,
    site: Site,
) -> None:
    bill(as_olga, project, h100, alice)
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
        unconfirmed(before, since, site)
        workspace_delete(actor=as_alice, workspace=before.deleted)
        again = request(as_alice, project, name=since.made.name, h100s=1)
        assert run_now(again).state != "ready"
        confirmed(before, since, as_olga, site)
        again.refresh_from_db()
        assert again.external_name != since.made.external_name
