"""Jobs on a Slurm cluster, by REST: submitted, listed, read, cancelled; and what a head gets and reports of them."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml
from django.conf import settings
from django.core.cache import cache
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.spec import spec_of
from gpuaas.core import clock
from gpuaas.providers.base import queue_token
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.clusters.slurm_stage import ORDER, by_head, jobs_carry_out, slurm_ready
from tests.jobs.stage import SECRET, credential

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(as_alice: Actor, as_olga: Actor, project: Project, site: Site, bob: User) -> Cluster:
    cache.clear()
    return slurm_ready(as_alice, as_olga, project, site)


@pytest.fixture
def path(cluster: Cluster) -> str:
    return f"/projects/weather-lm/clusters/{cluster.pk}/jobs"


def test_a_job_is_submitted_followed_and_cancelled(path: str, bob: User, charlie: User) -> None:
    bobs = Caller(bob)
    made = bobs.post(path, {**ORDER, "minutes": 5, "script": "sleep 600"})
    assert made.status == 202, made.json
    found = made.json
    assert (found["state"], found["script"], found["partition"]) == (
        "queued",
        "#!/bin/bash -l\nsleep 600\n",
        "gpu",
    )
    one = f"{path}/{found['id']}"
    assert made.headers["Location"] == f"/api/v1{one}"
    jobs_carry_out()
    assert bobs.get(one).json["state"] == "running"
    assert bobs.get(f"{one}/log").json["taken_at"] is not None
    assert [row["id"] for row in bobs.get(f"{path}?state=running&search=tr").json["results"]] == [found["id"]]
    assert bobs.get(f"{path}?state=failed").json["results"] == []
    assert bobs.get(f"{path}?created_by=alice").json["results"] == []
    assert len(bobs.get(f"{path}?created_by=bob").json["results"]) == 1
    assert [row.get("script") for row in bobs.get(path).json["results"]] == [None]
    assert bobs.get(one).json["script"] == found["script"]
    answer = bobs.post(f"{one}/cancel")
    assert (answer.status, answer.json["state"], answer.json["cancelling"]) == (202, "running", True)
    jobs_carry_out()
    assert bobs.get(one).json["state"] == "cancelled"
    for call in (
        Caller(charlie).get(one),
        Caller(charlie).post(path, ORDER),
        Caller(charlie).post(f"{one}/cancel"),
    ):
        assert call.status == 404


def test_a_repeated_request_submits_once(path: str, bob: User) -> None:
    bobs = Caller(bob)
    answers = [bobs.post(path, ORDER, idempotency_key="once").json["id"] for _ in range(2)]
    assert len(set(answers)) == ClusterJob.objects.count() == 1


def test_all_that_is_wrong_is_named_at_once(path: str, bob: User) -> None:
    bobs = Caller(bob)
    wrong = {
        "name": "Train",
        "script": "#SBATCH -N 9",
        "gpus_per_node": 9,
        "outputs": [{"url": "s3://a", "folder": "out"}],
    }
    refused = bobs.post(path, wrong)
    assert (refused.status, set(refused.error["fields"])) == (
        400,
        {"name", "script", "gpus_per_node", "outputs.0.url", "outputs.0.credential"},
    )


def test_who_may_only_look_reads_no_log(path: str, alice: User, bob: User, project: Project) -> None:
    made = Caller(bob).post(path, ORDER).json["id"]
    blind = Caller(token=token_for(alice, project, scopes=["workspace:view"]))
    assert blind.get(f"{path}/{made}").status == 200
    assert blind.get(f"{path}/{made}/log").status == 403
    assert blind.post(path, ORDER).status == 403


FILE = {"url": "s3://sets/digits", "credential": "archive", "folder": "data"}


def test_files_are_moved_and_moved_again(path: str, bob: User, as_alice: Actor, project: Project) -> None:
    credential(as_alice, project)
    bobs = Caller(bob)
    made = bobs.post(path, {**ORDER, "inputs": [{**FILE, "url": "s3://sets/missing"}]}).json
    one = f"{path}/{made['id']}"
    assert (made["state"], made["inputs"][0]["folder"], made["outputs"]) == ("staging_in", "data", [])
    assert bobs.post(f"{one}/retry").status == 409
    with time_machine.travel(clock.now(), tick=False) as traveller:
        for _ in range(3):
            jobs_carry_out()
            traveller.shift(timedelta(seconds=5))
    failed = bobs.get(one).json
    assert (failed["state"], failed["slurm_id"]) == ("failed", None)
    assert failed["reason"] == "its inputs could not be moved: directory not found"
    assert failed["mover_slurm_id"] is not None
    again = bobs.post(f"{one}/retry")
    assert (again.status, again.json["state"], again.json["finished_at"]) == (202, "staging_in", None)


def test_a_head_gets_the_keys_of_a_mover_until_it_has_it(
    head: "Head", path: str, bob: User, as_alice: Actor, project: Project
) -> None:
    credential(as_alice, project)
    refused = Caller(bob).post(path, {**ORDER, "outputs": [FILE]})
    assert "made before the portal could move files" in refused.error["fields"]["outputs"][0]
    head.post(moves=True)
    made = Caller(bob).post(path, {**ORDER, "inputs": [FILE]}).json
    assert SECRET not in str(made)
    (order,) = head.post(moves=True).json()["jobs"]
    assert (order["name"], order["gpus_per_node"], SECRET in order["keys"]) == ("train-in", 0, True)
    assert order["id"] != made["id"]
    has = {"id": order["id"], "state": "PENDING", "slurm_id": 4}
    assert SECRET not in head.post(has, moves=True).content.decode()


class Head:
    def __init__(self, cluster: Cluster) -> None:
        self._token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)

    def post(self, *jobs: dict[str, Any], **more: bool) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        body = json.dumps({"logins": ["bob"], "jobs": jobs, **more})
        address = "/api/v1/queue-reports"
        return Client().post(address, body, content_type="application/json", headers=headers)


@pytest.fixture
def head(cluster: Cluster) -> Head:
    """That lets bob in."""
    by_head()
    made = Head(cluster)
    assert made.post().json()["jobs"] == made.post().json()["jobs"] == []
    return made


def test_a_head_gets_what_to_submit(head: Head, path: str, bob: User) -> None:
    made = Caller(bob).post(path, ORDER).json["id"]
    (order,) = head.post().json()["jobs"]
    since = order.pop("since")
    assert abs(since - ClusterJob.objects.get().created_at.timestamp()) < 2
    assert order == {
        "id": made,
        "slurm_id": None,
        "login": "bob",
        "submit": True,
        "cancel": False,
        "name": "train",
        "script": "#!/bin/bash -l\necho hello\n",
        "partition": "gpu",
        "nodes": 1,
        "tasks": 1,
        "gpus_per_node": 2,
        "cpus_per_task": 1,
        "memory_gib": None,
        "minutes": None,
        "keys": "",
    }


def test_a_head_reports_how_it_is(head: Head, path: str, bob: User) -> None:
    bobs = Caller(bob)
    made = bobs.post(path, ORDER).json["id"]
    head.post()
    runs = {"id": made, "state": "RUNNING", "slurm_id": 4, "started_at": 1_790_000_000}
    assert head.post({**runs, "log": "\u001b[1mhi\n"}).status_code == 201
    found = bobs.get(f"{path}/{made}").json
    assert found["seen_at"] is not None
    assert (found["state"], found["slurm_id"], found["started_at"]) == ("running", 4, "2026-09-21T14:13:20Z")
    assert bobs.get(f"{path}/{made}/log").json["text"] == "hi\n"
    long = {**runs, "log": "x" * 20_000}
    assert head.post(*[long] * 10).status_code == 201, "a report may be longer than other bodies"
    assert head.post({**runs, "log": "x" * 20_001}).status_code == 400
    assert head.post({**runs, "state": "x" * 21}).status_code == 400


def test_a_head_reports_what_it_could_not_submit(head: Head, path: str, bob: User) -> None:
    bobs = Caller(bob)
    made = bobs.post(path, ORDER).json["id"]
    head.post()
    failed = {"id": made, "state": "ERROR", "error": "sbatch: the home of bob is full"}
    assert head.post(failed).status_code == 201
    found = bobs.get(f"{path}/{made}").json
    assert (found["state"], found["reason"]) == ("queued", "sbatch: the home of bob is full")
    assert head.post({**failed, "error": "x" * 301}).status_code == 400
    assert head.post({**failed, "mistake": "x"}).status_code == 400


def test_the_account_of_an_owner_is_made_also_by_an_idempotent_try(
    head: Head, cluster: Cluster, path: str, alice: User
) -> None:
    refused = Caller(alice).post(path, ORDER, idempotency_key="once")
    assert (refused.status, "your account alice is being made" in refused.error["message"]) == (409, True)
    assert [one["name"] for one in head.post().json()["logins"]["logins"]] == ["bob", "alice"]


def test_its_changes_answer_with_what_the_document_says(path: str, bob: User) -> None:
    document = yaml.load((Path(settings.BASE_DIR) / "docs/openapi.v1.yaml").read_text(), yaml.CSafeLoader)
    bobs = Caller(bob)
    one = f"{path}/{bobs.post(path, ORDER).json['id']}"
    ClusterJob.objects.update(state="failed", staging="in")
    for verb in ("retry", "cancel"):
        answer = bobs.post(f"{one}/{verb}")
        said = document["paths"][
            f"/api/v1/projects/{{project}}/clusters/{{cluster}}/jobs/{{cluster_job}}/{verb}"
        ]
        shape = said["post"]["responses"]["202"]["content"]["application/json"]["schema"]["$ref"]
        named = document["components"]["schemas"][shape.rpartition("/")[2]]["properties"]
        assert (answer.status, set(answer.json)) == (202, set(named)), verb


def test_the_longest_script_fits_into_a_request(path: str, bob: User) -> None:
    script = "#!/bin/sh\n" + "🚀" * 32_000
    assert Caller(bob).post(path, {**ORDER, "script": script}).status == 202
    assert Caller(bob).post(path, {**ORDER, "script": script + "x" * 500_000}).status == 413
