"""Files of jobs on Slurm clusters: moved before a job is submitted and after it has succeeded, each once, by movers without GPUs; and
what is secret is in the order of a mover that is to be submitted, and nowhere else."""

import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core import serializers
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import cluster_job_cancel, cluster_job_retry
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.jobs.models import DataCredential
from gpuaas.providers.base import GONE, SlurmOrder, SlurmSeen
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tenants.services.members import project_member_remove
from tests.clusters.slurm_stage import (
    answered,
    by_head,
    entered,
    jobs_carry_out,
    reread,
    submitted,
)
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.jobs.stage import SECRET, credential
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
IN = {"url": "s3://sets/digits", "credential": "archive", "folder": "data/digits"}
OUT = {"url": "s3://results/run-1", "credential": "archive", "folder": "out"}
FILES: dict[str, Any] = {"inputs": [IN], "outputs": [OUT]}
STATS = {"bytes": 5, "totalBytes": 9, "transfers": 1, "totalTransfers": 2, "checks": 7}
LOG = f'{{"transfer": 0}}\n{json.dumps({"level": "notice", "msg": "…", "stats": STATS})}\n'
REFUSES = f'{LOG}{{"level": "error", "msg": "AccessDenied: no such bucket"}}\n'


@pytest.fixture
@lasting
def sandbox(slurm: Cluster, as_alice: Actor, project: Project) -> Cluster:
    credential(as_alice, project)
    return slurm


@pytest.fixture
@lasting
def cluster(sandbox: Cluster) -> Cluster:
    """Whose head reports, and lets bob in."""
    by_head()
    return entered(sandbox)


def seen(order: SlurmOrder, state: str, **more: Any) -> SlurmSeen:
    return SlurmSeen(order.id, state, **{"slurm_id": 7, **more})


def now_of(job: ClusterJob) -> ClusterJob:
    return ClusterJob.objects.get(pk=job.pk)


def offered(cluster: Cluster, *seen: SlurmSeen) -> SlurmOrder:
    (order,) = answered(cluster, *seen)
    return order


def moving_out(cluster: Cluster, actor: Actor) -> tuple[ClusterJob, SlurmOrder]:
    """One that has run, with the order of its mover."""
    job = submitted(actor, cluster, outputs=[OUT])
    own = offered(cluster)
    return job, offered(cluster, seen(own, "COMPLETED", exit_code=0, log="trained\n"))


def test_nothing_is_submitted_before_its_inputs_are_there_and_outputs_come_last(
    cluster: Cluster, as_bob: Actor
) -> None:
    job = submitted(as_bob, cluster, **FILES)
    assert job.state == "staging_in"
    mover = offered(cluster)
    assert mover == offered(cluster), "until the head confirms it"
    assert (mover.name, mover.login, mover.submit, mover.partition) == ("train-in", "bob", True, "gpu")
    assert (mover.gpus_per_node, mover.nodes, mover.cpus_per_task, mover.memory_gib) == (0, 1, 1, 1)
    assert mover.id != job.pk
    waits = offered(cluster, seen(mover, "PENDING", reason="Resources", slurm_id=5))
    assert (waits.submit, waits.slurm_id, waits.script, waits.keys) == (False, 5, "", "")
    assert (now_of(job).state, now_of(job).reason, now_of(job).slurm_id) == ("staging_in", "Resources", None)
    offered(cluster, seen(mover, "RUNNING", log=LOG))
    assert now_of(job).moved["in"]["0"] | {"checked": 7} == now_of(job).moved["in"]["0"]
    assert (now_of(job).reason, now_of(job).log) == ("", "")
    own = offered(cluster, seen(mover, "COMPLETED", exit_code=0, log=LOG))
    assert (now_of(job).state, own.id, own.submit, own.gpus_per_node) == ("queued", job.pk, True, 2)
    assert (own.script, own.keys, own.slurm_id) == (job.script, "", None)
    began = clock.now()
    offered(cluster, seen(own, "RUNNING", slurm_id=8, log="trains\n", started_at=began))
    mover = offered(cluster, seen(own, "COMPLETED", exit_code=0, slurm_id=8, log="trained\n"))
    assert (now_of(job).state, mover.name, mover.submit) == ("staging_out", "train-out", True)
    assert now_of(job).finished_at is None
    assert answered(cluster, seen(mover, "COMPLETED", exit_code=0, slurm_id=9, log=LOG)) == []
    row = now_of(job)
    assert (row.state, row.exit_code, row.slurm_id, row.log) == ("succeeded", 0, 8, "trained\n")
    assert (row.started_at, row.moved["out"]["done"], row.mover_slurm_id) == (began, True, 9)
    assert row.finished_at is not None


def test_the_script_is_read_only_for_the_answer_that_has_it(cluster: Cluster, as_bob: Actor) -> None:
    submitted(as_bob, cluster, **FILES)
    with CaptureQueriesContext(connection) as asked:
        mover = offered(cluster)
    assert not [each["sql"] for each in asked if '"script"' in each["sql"]]
    own = seen(mover, "COMPLETED", exit_code=0, log=LOG)
    with CaptureQueriesContext(connection) as asked:
        assert offered(cluster, own).script
    assert len([each["sql"] for each in asked if '"script"' in each["sql"]]) == 1


def test_what_is_secret_is_in_the_order_of_its_mover_alone(
    cluster: Cluster, as_bob: Actor, caplog: pytest.LogCaptureFixture
) -> None:
    submitted(as_bob, cluster, **FILES)
    mover = offered(cluster)
    assert f"secret_access_key = {SECRET}\n" in mover.keys
    assert SECRET not in mover.script
    assert SECRET not in repr(mover)
    answered(cluster, seen(mover, "FAILED", exit_code=1, log=REFUSES))
    rows = serializers.serialize("json", ClusterJob.objects.all())
    assert SECRET not in rows + json.dumps(list(AuditEntry.objects.values("after")), default=str)
    assert SECRET not in caplog.text
    after = AuditEntry.objects.get(action="cluster.job_submit").after or {}
    assert after["inputs"] == ["s3://sets/digits"]


def test_what_cannot_be_moved_fails_the_job_which_is_never_submitted(
    cluster: Cluster, as_bob: Actor, as_charlie: Actor
) -> None:
    job = submitted(as_bob, cluster, **FILES)
    first = offered(cluster)
    assert answered(cluster, seen(first, "FAILED", exit_code=3, log=REFUSES)) == []
    row = now_of(job)
    assert (row.state, row.exit_code, row.slurm_id) == ("failed", None, None)
    assert row.reason == "its inputs could not be moved: AccessDenied: no such bucket"
    assert answered(cluster) == []
    with pytest.raises(NotFound):
        cluster_job_retry(actor=as_charlie, job=row)
    assert cluster_job_retry(actor=as_bob, job=row).state == "staging_in"
    with pytest.raises(Conflict, match="its files are not what failed"):
        cluster_job_retry(actor=as_bob, job=row)
    again = offered(cluster)
    assert again.id != first.id, "Slurm remembers the other one"
    assert answered(cluster, seen(first, "FAILED", exit_code=3))[0].id == again.id, "a late report of it"
    assert offered(cluster, seen(again, "COMPLETED", exit_code=0)).id == job.pk


def test_outputs_are_moved_again_without_running_again(cluster: Cluster, as_bob: Actor) -> None:
    job, mover = moving_out(cluster, as_bob)
    assert answered(cluster, seen(mover, "TIMEOUT", exit_code=0)) == []
    row = now_of(job)
    assert (row.state, row.exit_code, row.log) == ("failed", 0, "trained\n")
    assert row.reason == "its outputs could not be moved: it reached its time limit"
    cluster_job_retry(actor=as_bob, job=row)
    assert answered(cluster, seen(offered(cluster), "COMPLETED", exit_code=0)) == []
    assert now_of(job).state == "succeeded"


def test_of_one_that_fails_or_is_cancelled_no_outputs_are_moved(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster, outputs=[OUT])
    assert answered(cluster, seen(offered(cluster), "FAILED", exit_code=3)) == []
    assert (now_of(job).state, now_of(job).reason) == ("failed", "its script ended with exit code 3")
    with pytest.raises(Conflict, match="its files are not what failed"):
        cluster_job_retry(actor=as_bob, job=job)
    job = submitted(as_bob, cluster, outputs=[OUT])
    own = offered(cluster)
    cluster_job_cancel(actor=as_bob, job=job)
    assert answered(cluster, seen(own, "COMPLETED", exit_code=0)) == [], "it was faster"
    assert (now_of(job).state, now_of(job).reason) == ("cancelled", "its outputs were not moved")


def test_cancelling_ends_what_there_is_of_it_and_begins_nothing(
    cluster: Cluster, as_bob: Actor, as_alice: Actor
) -> None:
    assert cluster_job_cancel(actor=as_alice, job=submitted(as_bob, cluster, **FILES)).state == "cancelled"
    assert answered(cluster) == []
    job = submitted(as_bob, cluster, **FILES)
    mover = offered(cluster)
    cluster_job_cancel(actor=as_bob, job=job)
    order = offered(cluster, seen(mover, "RUNNING"))
    assert (order.id, order.cancel, order.submit, order.keys) == (mover.id, True, False, "")
    assert answered(cluster, seen(mover, "COMPLETED", exit_code=0)) == [], "it was faster"
    assert now_of(job).state == "cancelled"
    job, mover = moving_out(cluster, as_bob)
    cluster_job_cancel(actor=as_bob, job=job)
    assert answered(cluster, seen(mover, "CANCELLED", exit_code=143)) == []
    assert (now_of(job).state, now_of(job).exit_code) == ("cancelled", 0)


def test_a_mover_that_slurm_forgets(cluster: Cluster, as_bob: Actor) -> None:
    job = submitted(as_bob, cluster, **FILES)
    mover = offered(cluster)
    assert offered(cluster, SlurmSeen(mover.id, GONE)).submit, "it never had it"
    offered(cluster, seen(mover, "RUNNING"))
    assert not offered(cluster, SlurmSeen(mover.id, GONE)).submit
    with time_machine.travel(clock.now() + timedelta(minutes=11), tick=False):
        assert answered(cluster, SlurmSeen(mover.id, GONE)) == []
    assert (now_of(job).state, now_of(job).reason) == ("failed", "Slurm no longer knows its job 7")
    assert cluster_job_retry(actor=as_bob, job=job).is_open


def test_a_credential_that_is_gone_fails_it_once_slurm_has_no_mover(
    cluster: Cluster, as_bob: Actor, as_alice: Actor, project: Project
) -> None:
    before, there = submitted(as_bob, cluster, **FILES), None
    DataCredential.objects.all().delete()
    assert answered(cluster) == []
    assert (now_of(before).state, now_of(before).staging) == ("failed", "in")
    assert now_of(before).reason.startswith("the project has no data credential archive any more")
    credential(as_alice, project)
    there = cluster_job_retry(actor=as_bob, job=before)
    mover = offered(cluster)
    DataCredential.objects.all().delete()
    order = offered(cluster)
    assert (order.id, order.submit, order.keys) == (mover.id, False, ""), "it may be in Slurm"
    assert answered(cluster, SlurmSeen(mover.id, GONE)) == []
    assert now_of(there).state == "failed"


def test_a_credential_that_no_key_opens_fails_its_job_and_keeps_no_other_waiting(
    cluster: Cluster, as_bob: Actor
) -> None:
    broken = submitted(as_bob, cluster, **FILES)
    other = submitted(as_bob, cluster, name="other")
    DataCredential.objects.update(secret="removed:gAAAAA")
    assert offered(cluster).id == other.pk
    assert (now_of(broken).state, now_of(broken).staging) == ("failed", "in")
    assert now_of(broken).reason.startswith("the stored credentials cannot be decrypted")


@pytest.mark.parametrize("ended", ["CANCELLED", "COMPLETED"])
def test_of_somebody_who_left_nothing_is_moved(
    cluster: Cluster, project: Project, as_alice: Actor, as_bob: Actor, bob: User, ended: str
) -> None:
    waits, runs = submitted(as_bob, cluster, **FILES), submitted(as_bob, cluster, outputs=[OUT])
    orders = {one.name: one for one in answered(cluster)}
    answered(cluster, seen(orders["train-in"], "RUNNING"), seen(orders["train"], "RUNNING"))
    project_member_remove(actor=as_alice, project=project, user=bob)
    (mover, own) = sorted(answered(cluster), key=lambda one: one.id != orders["train-in"].id)
    assert (mover.cancel, own.cancel) == (True, False)
    assert answered(cluster, seen(own, "COMPLETED", exit_code=0), seen(mover, ended)) == []
    assert (now_of(waits).state, now_of(runs).state) == ("cancelled", "cancelled")
    assert {now_of(job).reason for job in (waits, runs)} == {"bob may no longer enter the cluster"}


def test_who_may_only_look_retries_nothing(cluster: Cluster, as_bob: Actor, project: Project) -> None:
    vera = UserFactory.create(username="vera")
    ProjectMembershipFactory.create(project=project, user=vera, role="viewer")
    job = submitted(as_bob, cluster, **FILES)
    answered(cluster, seen(offered(cluster), "FAILED", exit_code=1))
    with pytest.raises(Forbidden):
        cluster_job_retry(actor=actor_for(user=vera), job=job)


def test_heads_of_before_move_no_files(cluster: Cluster, as_bob: Actor) -> None:
    answered(cluster, moves=False)
    with pytest.raises(Invalid, match="made before the portal could move files") as refused:
        submitted(as_bob, reread(cluster), **FILES)
    assert set(refused.value.fields) == {"inputs", "outputs"}
    assert submitted(as_bob, reread(cluster)).state == "queued"


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"folder": ""}, "folder", "name a folder of your home"),
        ({"folder": "."}, "folder", "name a folder of your home"),
        ({"folder": "./gpuaas-jobs/x"}, "folder", "has the logs"),
        ({"folder": "/etc"}, "folder", "from your home"),
        ({"folder": "a/../../carol"}, "folder", "may not contain .."),
        ({"folder": "~carol"}, "folder", "from your home"),
        ({"folder": "$(id)"}, "folder", "from your home"),
        ({"folder": "a\nb"}, "folder", "a text of at most"),
        ({"volume": "data"}, "volume", "have no volumes"),
        ({"credential": "other"}, "credential", "has no data credential other"),
        ({"credential": ""}, "credential", "name a data credential"),
        ({"url": "file:///etc/passwd"}, "url", "s3://bucket/prefix"),
        ({"url": "https://169.254.169.254/latest", "credential": ""}, "url", "169.254.169.254"),
        ({"url": "s3://bucket/../x"}, "url", "may not contain .."),
        ({"mode": "0777"}, "mode", "unknown field"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    cluster: Cluster, as_bob: Actor, given: dict[str, str], field: str, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        submitted(as_bob, cluster, inputs=[{**IN, **given}])
    assert set(refused.value.fields) == {f"inputs.0.{field}"}
    assert not ClusterJob.objects.exists()


def test_the_simulated_slurm_moves_files(sandbox: Cluster, as_bob: Actor) -> None:
    """The only worker's GPUs are taken meanwhile, which a mover does not wait for."""
    busy, job = submitted(as_bob, sandbox, script="sleep 11"), submitted(as_bob, sandbox, **FILES)
    bad = submitted(as_bob, sandbox, inputs=[{**IN, "url": "s3://sets/missing"}])
    states = list[str]()
    with time_machine.travel(clock.now(), tick=False) as traveller:
        for _ in range(14):
            jobs_carry_out()
            states.append(now_of(job).state)
            traveller.shift(timedelta(seconds=2))
    wanted = ["staging_in", "queued", "pending", "running", "staging_out", "succeeded"]
    assert [state for state in dict.fromkeys(states) if state != "queued"] == [
        state for state in wanted if state != "queued"
    ]
    assert (now_of(busy).state, now_of(bad).state) == ("succeeded", "failed")
    assert now_of(bad).reason == "its inputs could not be moved: directory not found"
    assert now_of(job).moved["out"]["0"]["files"] == 24
    assert "at work" in now_of(job).log
