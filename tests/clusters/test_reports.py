"""Machines report while they boot: one token for one boot of one machine, each stage once, and nobody else's word counts."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.test import Client, override_settings

from gpuaas.clusters.models import Cluster, ClusterTemplate, NodeBoot
from gpuaas.clusters.services import seeds_rotate
from gpuaas.clusters.spec import spec_of
from gpuaas.core.clock import now
from gpuaas.core.ids import uuid7
from gpuaas.providers.base import Stage, boot_claim, boot_token
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import order, run_now, settle
from tests.factories.quotas import limits_give
from tests.lasting import lasting

ADDRESS = "/api/v1/node-reports"
GPUS = "gpu:h100-sxm-80gb"


@pytest.fixture
@lasting
def cluster(as_alice: Actor, project: Project, template: ClusterTemplate) -> Cluster:
    limits_give(project, {GPUS: None})
    return order(as_alice, project)


def token_of(
    cluster: Cluster, *, node: str = "c-1-gpu-1", boot: uuid.UUID | None = None, seed: str = ""
) -> str:
    known = seed or spec_of(cluster).boots.seed
    return boot_token(known, cluster=cluster.pk, node=node, boot=boot or uuid7())


def post(token: str, stage: str, message: str = "") -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}"}
    body = {"stage": stage, "message": message}
    answer = Client().post(ADDRESS, json.dumps(body), content_type="application/json", headers=headers)
    return answer.status_code, answer.json()


def refused(answer: tuple[int, dict[str, Any]]) -> None:
    """With the one shape, and one sentence for every reason."""
    status, body = answer
    assert status == 401
    assert body["error"]["code"] == "unauthorized"
    assert body["error"]["message"] == "this token is invalid, used up or expired"


def test_what_a_machine_says_is_kept_as_text(cluster: Cluster) -> None:
    """Whatever machine it is, and whatever runs there."""
    said = "\x1b[31mE:\x1b[0m no\x08 room\r\nhalf\rwhole\n\x1b]0;t\x07\ttab"
    assert post(token_of(cluster), "failed", said)[0] == 201
    assert NodeBoot.objects.get().message == "E: no room\nwhole\n\ttab"


def test_the_stages_of_a_boot_are_written_down_and_reach_the_driver(cluster: Cluster) -> None:
    boot = uuid7()
    token = token_of(cluster, boot=boot)
    for stage in ("booted", "packages", "gpu-driver", "joined"):
        assert post(token, stage)[0] == 201
    Cluster.objects.filter(pk=cluster.pk).update(due_at=now() + timedelta(hours=1))
    assert post(token, "ready") == (201, {"node": "c-1-gpu-1", "stage": "ready"})
    cluster.refresh_from_db()
    assert cluster.due_at is not None
    assert cluster.due_at <= now(), "the reconciler looks at once"
    told = spec_of(cluster).ref.boots.reports[boot.hex]
    assert (told.stage, told.passed) == (Stage.READY, "joined")


def test_each_stage_is_taken_once_and_none_after_the_last(cluster: Cluster) -> None:
    token = token_of(cluster)
    assert post(token, "packages")[0] == 201
    assert post(token, "packages")[0] == 409
    assert post(token, "booted")[0] == 409
    assert post(token, "ready")[0] == 201
    assert post(token, "ready")[0] == 409, "its answer may have been lost"
    refused(post(token, "failed"))
    refused(post(token, "joined"))
    assert NodeBoot.objects.get().stage == "ready"


def test_a_failure_says_what_was_passed_and_why(cluster: Cluster) -> None:
    token = token_of(cluster)
    post(token, "booted")
    assert post(token, "failed", "at the stage packages:\nE: no such package")[0] == 201
    row = NodeBoot.objects.get()
    assert (row.passed, row.message.splitlines()[-1]) == ("booted", "E: no such package")
    refused(post(token, "ready"))


def test_a_token_that_is_not_good_is_refused_alike(cluster: Cluster) -> None:
    good = token_of(cluster)
    claim = boot_claim(good)
    assert claim is not None
    of_another = good.replace(cluster.pk.hex, uuid7().hex)
    of_another_node = good.replace("c-1-gpu-1", "c-1-gpu-2")
    of_another_boot = good.replace(claim.boot, uuid7().hex)
    broken = good[:-1] + ("0" if good[-1] != "0" else "1")
    for token in (
        of_another,
        of_another_node,
        of_another_boot,
        broken,
        token_of(cluster, seed="guessed"),
        "",
        "gpn1.x",
    ):
        refused(post(token, "booted"))
    assert not NodeBoot.objects.exists()


@pytest.mark.parametrize("milliseconds", [0, 253_402_300_799_000, 2**48 - 1])
def test_a_token_of_any_time_is_refused_alike(cluster: Cluster, milliseconds: int) -> None:
    """Anybody can write one; the last two are of the end of the year 9999 and of after it."""
    boot = uuid.UUID(int=milliseconds << 80)
    refused(post(token_of(cluster, boot=boot, seed="guessed"), "booted"))
    refused(post(token_of(cluster, boot=boot), "booted"))


def test_a_token_ends_by_time_and_with_its_cluster(as_alice: Actor, cluster: Cluster) -> None:
    early = token_of(cluster)
    with time_machine.travel(now() + timedelta(hours=6, minutes=1), tick=False):
        refused(post(early, "booted"))
    token = token_of(cluster)
    settle(cluster)
    from gpuaas.clusters.services import cluster_delete

    cluster_delete(actor=as_alice, cluster=cluster)
    refused(post(token, "booted"))
    gone = settle(cluster)
    assert gone.state == "deleted"
    assert gone.seed == "", "nothing can be worked out of it any more"
    refused(post(token, "booted"))


def test_who_is_refused_too_often_waits(cluster: Cluster) -> None:
    """Machines behind the same router do not."""
    with time_machine.travel(now() + timedelta(minutes=2), tick=False) as clock:
        for _ in range(30):
            refused(post("gpn1.nonsense", "booted"))
        status, body = post("gpn1.nonsense", "booted")
        assert (status, body["error"]["code"]) == (429, "throttled")
        assert post(token_of(cluster), "booted")[0] == 201
        clock.shift(timedelta(seconds=61))
        refused(post("gpn1.nonsense", "booted"))


def test_machines_that_are_many_are_not_throttled(cluster: Cluster) -> None:
    """They come from one address, behind one router."""
    assert {post(token_of(cluster, node=f"c-1-gpu-{each}"), "booted")[0] for each in range(60)} == {201}


def test_the_secret_is_kept_sealed_and_is_sealed_anew(cluster: Cluster) -> None:
    seed = spec_of(cluster).boots.seed
    assert len(seed) == 64
    cluster.refresh_from_db()
    assert seed not in cluster.seed
    assert seed not in repr(spec_of(cluster))
    from cryptography.fernet import Fernet

    with override_settings(ENCRYPTION_KEYS=[Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]):
        assert seeds_rotate() == 1
        assert seeds_rotate() == 0
        cluster.refresh_from_db()
        assert spec_of(cluster).boots.seed == seed


def test_a_report_wakes_no_cluster_that_is_done(cluster: Cluster) -> None:
    """A late word of a machine changes nothing but its own row."""
    ready = settle(cluster)
    assert ready.state == "ready"
    assert post(token_of(ready), "booted")[0] == 201
    assert run_now(ready).state == "ready"
