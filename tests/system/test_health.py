"""Each part that fails is named with a sentence and a remedy; live and ready say no more than a stranger may know."""

import socket
from datetime import timedelta
from typing import Any

import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from deploy import embedded
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.models import SEEN, Process, ProcessKind
from gpuaas.metering.models import SiteMeter
from gpuaas.system import health
from tenants.models import User
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db
TOKEN = "a token for Prometheus alone"
KEYS = ["database", "broker", "channels", "processes", "clocks", "work", "metering", "sites"]


def part(key: str) -> health.Part:
    return next(each for each in health.parts() if each.key == key)


def process(kind: str, *, seconds_ago: float = 0, pid: int = 1) -> Process:
    seen = clock.now() - timedelta(seconds=seconds_ago)
    return Process.objects.create(
        kind=kind, host="node-1", pid=pid, version="1", started_at=seen, seen_at=seen
    )


@pytest.fixture
def whole() -> None:
    for kind in ProcessKind:
        process(kind)


def test_a_portal_that_works_says_so(whole: None) -> None:
    found = health.parts()
    assert [each.key for each in found] == KEYS
    assert [each.key for each in found if not each.works or each.remedy] == []


@pytest.mark.parametrize("kind", list(ProcessKind))
def test_a_kind_of_process_of_which_none_is_alive(whole: None, kind: ProcessKind, settings: Any) -> None:
    settings.DOOR_DOMAIN = "apps.example.org"
    Process.objects.filter(kind=kind).update(seen_at=clock.now() - SEEN)
    found = part("processes")
    assert (found.works, found.message) == (False, f"No process of this kind is running: {kind.value}.")
    assert found.remedy


def test_a_door_is_missed_only_where_it_has_a_domain(whole: None) -> None:
    Process.objects.filter(kind=ProcessKind.DOOR).delete()
    assert part("processes").works


def test_a_killed_one_beside_living_ones_is_named(whole: None) -> None:
    process("worker", seconds_ago=60, pid=77)
    found = part("processes")
    assert found.works
    assert "worker (1)" in found.message
    assert "worker node-1:77" in found.message


@pytest.mark.parametrize(
    ("skew", "works"), [(None, True), (1.0, True), (-1.0, True), (1.4, False), (-7200.0, False)]
)
def test_a_clock_that_differs_from_the_databases(whole: None, skew: float | None, works: bool) -> None:
    Process.objects.filter(kind="meter").update(host="node-7", skew_seconds=skew)
    found = part("clocks")
    assert found.works is works
    if skew is not None and not works:
        told = f"The clock differs from the database's on 1 host: node-7 by {abs(skew):.1f} seconds."
        assert found.message == told
        Process.objects.filter(kind="meter").update(seen_at=clock.now() - SEEN)
        assert part("clocks").works, "what a dead process said is over"


def test_work_that_nobody_takes(whole: None) -> None:
    now = clock.now()
    SiteFactory.create(due_at=now - timedelta(seconds=59))
    assert part("work").works
    site = SiteFactory.create(due_at=now - timedelta(seconds=300), claim_until=now + timedelta(seconds=5))
    assert part("work").works, "somebody works on it"
    Site.objects.filter(pk=site.pk).update(claim_until=now - timedelta(seconds=1))
    found = part("work")
    assert not found.works
    assert found.message.startswith("Background work (site) has waited 30")


def test_a_site_from_which_the_meter_hears_nothing(whole: None) -> None:
    never, site = SiteFactory.create(reached_at=None), SiteFactory.create(reached_at=clock.now())
    assert site.slug in part("metering").message
    assert never.slug not in part("metering").message, "nothing has ever run there"
    meter = SiteMeter.objects.create(site=site, last_proof_at=clock.now())
    assert part("metering").works
    SiteMeter.objects.filter(pk=meter.pk).update(last_proof_at=clock.now() - timedelta(minutes=5))
    assert not part("metering").works


def test_sites_that_do_not_answer_are_named_as_far_as_a_sentence_goes(whole: None) -> None:
    away = {"Reachable": {"status": "False"}}
    for number in range(7):
        SiteFactory.create(slug=f"away-{number}", conditions=away)
    SiteFactory.create(slug="not-used", conditions=away, enabled=False)
    found = part("sites")
    assert found.message == "7 sites do not answer: away-0, away-1, away-2, away-3, away-4 and 2 more."


def test_a_broker_that_does_not_answer(whole: None, settings: Any) -> None:
    settings.CELERY_BROKER_URL = embedded.test_redis_url()
    assert part("broker").works
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
        found = part("broker")
    assert not found.works
    assert "GPUAAS_BROKER_URL" in found.remedy
    assert "127.0.0.1" not in found.message, "the address may hold a password"


def test_live_updates_that_do_not_arrive(whole: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert part("channels").works
    away = RedisPubSubChannelLayer(
        hosts=["redis://127.0.0.1:9/0"]
    )  # the port of `discard`, where nobody listens
    monkeypatch.setattr(health, "get_channel_layer", lambda: away)
    found = part("channels")
    assert not found.works
    assert "GPUAAS_CHANNELS_URL" in found.remedy
    answering = RedisPubSubChannelLayer(hosts=[embedded.test_redis_url()])
    monkeypatch.setattr(health, "get_channel_layer", lambda: answering)
    assert part("channels").works


def test_a_database_without_the_tables_of_this_release(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_migrated", set())
    graph = MigrationLoader(connection).graph
    # one that replaces others is also known by theirs
    newest = next(key for key in graph.leaf_nodes() if not graph.nodes[key].replaces)
    MigrationRecorder(connection).record_unapplied(*newest)
    found = part("database")
    assert found.message == "1 migration is not applied yet."
    assert client.get("/health/ready").status_code == 503
    MigrationRecorder(connection).record_applied(*newest)
    assert part("database").works
    assert client.get("/health/ready").status_code == 200


def test_a_database_that_does_not_answer_leaves_out_what_only_it_knows(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        raise OperationalError("connection to server at 10.1.2.3 failed for user gpuaas")

    monkeypatch.setattr(health, "migrations_missing", away)
    assert [(each.key, each.works) for each in health.parts()] == [
        ("database", False),
        ("broker", True),
        ("channels", True),
    ]
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.content) == (503, b"not ready\n")
    assert "10.1.2.3" not in health.ready().message


class TestAddresses:
    def test_live_asks_nothing(self, client: Client, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            answer = client.get("/health/live")
        assert (answer.status_code, answer.content) == (200, b"alive\n")
        assert "no-store" in answer["Cache-Control"]

    def test_ready_asks_the_database_once(self, client: Client, django_assert_num_queries: Any) -> None:
        client.get("/health/ready")
        with django_assert_num_queries(1):
            assert client.get("/health/ready").content == b"ready\n"

    @pytest.mark.parametrize(("path", "same"), [("/healthz", "/health/live"), ("/readyz", "/health/ready")])
    def test_they_have_the_names_of_kubernetes_too(self, client: Client, path: str, same: str) -> None:
        assert client.get(path).content == client.get(same).content

    @pytest.mark.parametrize("path", ["health/live", "health/ready", "health/parts", "healthz", "readyz"])
    def test_they_only_read(self, client: Client, settings: Any, path: str) -> None:
        settings.METRICS_TOKEN = TOKEN
        assert client.post(f"/{path}").status_code == 405
        assert client.head("/health/live").status_code == 200

    def test_parts_are_for_the_token(self, client: Client, charlie: User, whole: None, settings: Any) -> None:
        settings.METRICS_TOKEN = ""
        client.force_login(charlie)
        assert client.get("/health/parts").status_code == 404
        settings.METRICS_TOKEN = TOKEN
        assert client.get("/health/parts").status_code == 401
        answer = client.get("/health/parts", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert answer.json()["works"] is True
        assert [row["part"] for row in answer.json()["parts"]] == KEYS

    def test_parts_answer_503_when_one_is_sick(self, client: Client, settings: Any) -> None:
        settings.METRICS_TOKEN = TOKEN
        answer = client.get("/health/parts", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 503
        sick = [row for row in answer.json()["parts"] if not row["works"]]
        assert [row["part"] for row in sick] == ["processes"]
        assert all(row["message"].endswith(".") and row["remedy"].endswith(".") for row in sick)

    @pytest.mark.parametrize("count", [1, 40])
    def test_parts_ask_as_much_for_many_sites(
        self, client: Client, whole: None, settings: Any, django_assert_num_queries: Any, count: int
    ) -> None:
        settings.METRICS_TOKEN = TOKEN
        SiteFactory.create_batch(count, reached_at=clock.now())
        headers = {"Authorization": f"Bearer {TOKEN}"}
        client.get("/health/parts", headers=headers)
        with django_assert_num_queries(5):
            client.get("/health/parts", headers=headers)
