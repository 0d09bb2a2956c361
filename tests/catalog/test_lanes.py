"""A slow site's work waits for workers of its own, and everybody else's does not wait for it."""

import inspect
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery

from gpuaas.catalog import lanes, tasks
from gpuaas.catalog.lanes import SLOW_FOR, SLOW_SECONDS, WRITTEN_EVERY, SiteTask, site_heard
from gpuaas.catalog.models import Site
from gpuaas.celery import app
from gpuaas.core import clock
from gpuaas.core.ids import uuid7
from tests.core.scraped import broker, process, sender
from tests.factories.catalog import SiteFactory
from tests.lab.fixtures import until

__all__ = ["broker"]

# what has one id and asks no site, or not only one
OTHERS = {
    "billing.budgets_enforce",
    "billing.month_close",
    "gpustats.keep",
    "jobs.queue",
    "quotas.capacity_sync",
    "workspaces.members_sync",
    "workspaces.person_sync",
    "workspaces.site_changed",
}


@pytest.fixture(autouse=True)
def _all_tasks() -> None:
    """As a worker finds them."""
    app.loader.import_default_modules()


def test_every_task_of_one_row_is_of_its_site_or_named_here() -> None:
    ours = {name: task for name, task in app.tasks.items() if not name.startswith(("celery.", "tests."))}
    of_a_row = {name for name, task in ours.items() if inspect.signature(task.run).parameters}
    assert {name for name in of_a_row if not isinstance(ours[name], SiteTask)} == OTHERS


@pytest.mark.django_db
def test_each_finds_the_site_of_its_row() -> None:
    found = [task.site_by for task in app.tasks.values() if isinstance(task, SiteTask)]
    assert len(found) > len(set(found)) > 1
    for lookup in set(found):
        assert not Site.objects.filter(**{lookup: uuid7()}).exists()


def slow_until(slug: str) -> datetime | None:
    return Site.objects.get(slug=slug).slow_until


@pytest.mark.django_db
def test_a_site_is_slow_for_a_while_after_a_long_call() -> None:
    SiteFactory.create(slug="far-1")
    site_heard("far-1", SLOW_SECONDS - 0.1)
    assert slow_until("far-1") is None

    began = clock.now()
    site_heard("far-1", SLOW_SECONDS)
    first = slow_until("far-1")
    assert first is not None
    assert began + SLOW_FOR <= first <= clock.now() + SLOW_FOR

    site_heard("far-1", 60)  # again at once: nothing is written
    assert slow_until("far-1") == first
    Site.objects.update(slow_until=first - WRITTEN_EVERY - timedelta(seconds=1))
    site_heard("far-1", 60)
    again = slow_until("far-1")
    assert again is not None
    assert again >= first


@pytest.mark.django_db(transaction=True)
def test_a_task_hears_its_calls_and_the_next_is_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(lanes, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(app, "send_task", lambda *given, **named: sent.append((given, named)))
    site = SiteFactory.create()
    tasks.probe.apply(args=(str(site.pk),)).get()
    site.refresh_from_db()
    assert site.probed_at is not None
    assert site.slow_until is not None
    assert sent == []

    Site.objects.update(due_at=clock.now(), probed_at=None)
    tasks.probe.apply(args=(str(site.pk),)).get()
    assert Site.objects.get().probed_at is None
    ((given, named),) = sent
    assert given == ("catalog.probe",)
    assert isinstance(named, dict)
    assert (named["args"], named["queue"]) == ([str(site.pk)], "slow")

    tasks.probe.apply(args=(str(site.pk),), routing_key="slow").get()
    assert Site.objects.get().probed_at is not None


@pytest.mark.django_db(transaction=True)
def test_workers_of_their_own(broker: str, tmp_path: Path) -> None:
    """A worker of the default queue leaves the slow site to one of the other queue; one of all queues takes it itself."""
    slow, quick = SiteFactory.create(), SiteFactory.create()
    Site.objects.filter(pk=slow.pk).update(slow_until=clock.now() + SLOW_FOR)

    def probe(site: Site, queue: Celery) -> None:
        Site.objects.filter(pk=site.pk).update(due_at=clock.now(), probed_at=None)
        queue.send_task("catalog.probe", args=[str(site.pk)], ignore_result=True)

    def probed(site: Site) -> bool:
        return Site.objects.filter(pk=site.pk, probed_at__isnull=False).exists()

    (apart := tmp_path / "apart").mkdir()
    with sender(broker) as queue:
        with process("worker", "--queues", "celery", "--concurrency", "1", folder=tmp_path, broker=broker):
            probe(slow, queue)
            probe(quick, queue)
            until(lambda: probed(quick), "the quick site")
            assert not probed(slow)
            with process("worker", "--queues", "slow", "--concurrency", "1", folder=apart, broker=broker):
                probe(slow, queue)  # the first message may be forgotten by now
                until(lambda: probed(slow), "the slow site")
        with process("worker", "--concurrency", "1", folder=tmp_path, broker=broker):
            probe(slow, queue)
            until(lambda: probed(slow), "the slow site, by a worker of all queues")
