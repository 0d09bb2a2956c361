"""The System page says what runs, what waits, how each site is heard, and what the portal is made of."""

import re
from datetime import timedelta

import pytest
from django.test import Client

from gpuaas import __version__
from gpuaas.backup.models import Backup
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.models import Process, ProcessKind
from gpuaas.metering.models import SiteMeter
from gpuaas.workspaces.models import Operation, Workspace
from tests.factories.catalog import SiteFactory
from tests.frontend.markup import words
from tests.frontend.operator.trouble import drift_of

pytestmark = pytest.mark.django_db
PAGE = "/operator/system/"


def text_of(client: Client) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", client.get(PAGE).content.decode()).split())


def process(kind: str, host: str, *, seen: float = 0, skew: float | None = 0.0) -> Process:
    at = clock.now() - timedelta(seconds=seen)
    started = clock.now() - timedelta(days=2)
    return Process.objects.create(
        kind=kind, host=host, pid=7, version="9.9.9", started_at=started, seen_at=at, skew_seconds=skew
    )


def test_nothing_yet_says_what_to_do(olga_at: Client) -> None:
    said = text_of(olga_at)
    assert "No process has been seen" in said
    assert "No process of this kind is running: web, worker, scheduler, meter. Start it;" in said
    assert "No sites yet" in said


def test_processes_alive_killed_and_forgotten(olga_at: Client) -> None:
    for kind in ProcessKind:
        process(kind, "alive-1")
    process("worker", "wrong-clock", skew=-3.2)
    process("worker", "killed-1", seen=60)
    process("meter", "killed-long-ago", seen=4000)
    page = olga_at.get(PAGE)
    shown = [(row.row.host, row.word, row.clock) for row in page.context["processes"].rows]
    assert shown[-1] == ("killed-1", "Killed or cut off", "–")
    assert ("alive-1", "Running", "exact") in shown
    assert ("wrong-clock", "Running", "3.2 s behind") in shown
    assert len(shown) == len(ProcessKind) + 2
    said = text_of(olga_at)
    assert "differs from the database's on 1 host: wrong-clock by 3.2 seconds" in said.replace("&#x27;", "'")
    assert [row.part.key for row in page.context["parts"] if not row.part.works] == ["clocks"]
    assert page.context["parts"][0].part.key == "clocks", "what is sick comes first"


def test_many_processes_are_found_and_stay_found_while_the_page_reloads(olga_at: Client) -> None:
    for number in range(12):
        process("worker", f"w-{number:02}")
    process("web", "killed-1", seen=60)
    asked = f"{PAGE}?process-q=killed&process-sort=-host"
    page = olga_at.get(asked)
    assert [row.row.host for row in page.context["processes"].rows] == ["killed-1"]
    said = words(page)
    assert f'hx-get="{asked.replace("&", "&amp;")}"' in said, "what reloads every 10 seconds"
    assert 'hx-target="#system"' in said, "what is typed changes what reloads"
    assert not re.search(r'id="licenses"[^>]* open', said)


def test_the_newest_backup(olga_at: Client) -> None:
    assert "No backup yet" in text_of(olga_at)
    now = clock.now()
    for hours, keys in ((2, False), (1, True), (30, False)):
        Backup.objects.create(
            name=f"gpuaas-{hours}-hours",
            taken_at=now - timedelta(hours=hours),
            finished_at=now,
            size_bytes=3 * 2**20,
            digest="",
            with_keys=keys,
        )
    said = text_of(olga_at)
    assert "gpuaas-1-hours" in said
    assert "gpuaas-2-hours" not in said
    assert "in it (sealed)" in said
    assert "3.0 MiB" in said


def test_what_waits_the_longest_comes_first(olga_at: Client) -> None:
    now = clock.now()
    SiteFactory.create(due_at=now - timedelta(seconds=90))
    SiteFactory.create(due_at=now - timedelta(seconds=30))
    SiteFactory.create(due_at=now - timedelta(seconds=500), claim_until=now + timedelta(seconds=60))
    SiteFactory.create(due_at=now + timedelta(hours=1))
    first, *rest = olga_at.get(PAGE).context["work"].rows
    assert (first.kind, first.due, first.claimed, first.late) == ("Site", 2, 1, True)
    assert {"Workspace", "Cluster"} <= {row.kind for row in rest}
    assert not any(row.late or row.due for row in rest)


def test_each_site_with_what_was_done_there(olga_at: Client, workspace: Workspace) -> None:
    now, site = clock.now(), workspace.site
    Operation.objects.all().delete()
    for ended, succeeded in ((None, None), (1, True), (2, True), (3, False), (4, None), (300, True)):
        Operation.objects.create(
            workspace=workspace,
            kind="resize",
            requested_by="alice",
            requested_at=now - timedelta(minutes=400),
            finished_at=None if ended is None else now - timedelta(minutes=ended),
            succeeded=succeeded,
        )
    drift_of(workspace)
    Site.objects.filter(pk=site.pk).update(
        reached_at=now, conditions={"Reachable": {"status": "True"}}, answer_ms=12
    )
    meter = SiteMeter.objects.create(site=site, last_proof_at=now - timedelta(seconds=20))
    SiteFactory.create(slug="not-used", enabled=False)
    (row,) = olga_at.get(PAGE).context["sites"].rows
    assert (row.word, row.row.visited.open, row.row.visited.succeeded, row.row.visited.failed) == (
        "Answers",
        1,
        2,
        1,
    )
    assert (row.row.drift, row.waits) == (1, "6 h 40 min")
    assert row.row.heard_at == meter.last_proof_at
    SiteMeter.objects.filter(pk=meter.pk).update(last_proof_at=now - timedelta(minutes=5))
    assert olga_at.get(PAGE).context["sites"].rows[0].word == "Meter late"
    Site.objects.filter(pk=site.pk).update(conditions={"Reachable": {"status": "False"}}, probed_at=now)
    assert olga_at.get(PAGE).context["sites"].rows[0].word == "Does not answer"


def test_versions_and_licenses(olga_at: Client) -> None:
    context = olga_at.get(PAGE).context
    found = {row.name: row.version for row in context["versions"]}
    assert found["gpuaas"] == __version__
    assert int(found["PostgreSQL"].partition(".")[0]) >= 15
    licenses = {row.name: row.license for row in context["list"].found}
    assert licenses["Django"] == "BSD-3-Clause"
    assert all(licenses.values())


def test_a_slow_site_is_named_until_it_is_quick_again(olga_at: Client, site: Site) -> None:
    now = clock.now()
    Site.objects.update(conditions={"Reachable": {"status": "True"}}, slow_until=now + timedelta(minutes=4))
    (row,) = olga_at.get(PAGE).context["sites"].rows
    assert (row.word, row.tone) == ("Answers slowly", "warn")
    Site.objects.update(slow_until=now - timedelta(seconds=1))
    assert olga_at.get(PAGE).context["sites"].rows[0].word == "Answers"
