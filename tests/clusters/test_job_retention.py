"""What a job on a Slurm cluster ran is kept for a while after its end; the rest of the row stays."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from gpuaas.clusters import tasks
from gpuaas.clusters.job_document import document_of
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import cluster_job_retry, cluster_jobs_empty
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from tenants.actors import Actor
from tenants.models import User
from tests.api.caller import Caller
from tests.clusters.slurm_stage import submitted
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(slurm: Cluster) -> Cluster:
    return slurm


def ended(actor: Actor, cluster: Cluster, name: str, days: int, state: str = "failed") -> ClusterJob:
    row = submitted(actor, cluster, name=name, script="echo secret")
    moment = clock.now() - timedelta(days=days)
    ClusterJob.objects.filter(pk=row.pk).update(
        state=state, finished_at=moment, log="said\n", log_taken_at=moment, exit_code=3, staging="in"
    )
    row.refresh_from_db()
    return row


def test_a_year_after_its_end_it_is_emptied_and_the_row_stays(cluster: Cluster, as_bob: Actor) -> None:
    old, young = ended(as_bob, cluster, "old", 366), ended(as_bob, cluster, "young", 364)
    runs = ended(as_bob, cluster, "runs", 366, "running")
    tasks.sweep()
    for row in (old, young, runs):
        row.refresh_from_db()
    assert (old.script, old.log, old.emptied_at is None) == ("", "", False)
    assert (old.name, old.exit_code, old.gpus_per_node, old.finished_at is None) == ("old", 3, 2, False)
    assert [bool(row.script and row.log and row.emptied_at is None) for row in (young, runs)] == [True, True]
    assert cluster_jobs_empty() == 0
    with pytest.raises(Conflict, match="not kept any more"):
        document_of(old)
    with pytest.raises(Conflict, match="not kept any more"):
        cluster_job_retry(actor=as_bob, job=old)


def test_the_operator_says_for_how_long_and_the_page_does(
    cluster: Cluster, as_bob: Actor, bob: User, settings: Settings
) -> None:
    row, bobs = ended(as_bob, cluster, "old", 100), signed_in(bob)
    address = f"/p/weather-lm/clusters/{cluster.pk}/jobs/{row.pk}/"
    page = words(bobs.get(address))
    assert "The script is kept for 365 days after a job has ended, with its log." in page
    settings.JOB_SCRIPT_DAYS = 0
    assert (cluster_jobs_empty(), "is kept for" in words(bobs.get(address))) == (0, False)
    settings.JOB_SCRIPT_DAYS = 90
    assert cluster_jobs_empty() == 1
    page = words(bobs.get(address))
    assert "The script and its log are not kept any more since" in page
    for absent in ("secret", "said", "Run again", "Download as YAML", "Move files again"):
        assert absent not in page
    for other in (f"{address}job.yaml", f"{address}../new/?again={row.pk}".replace(f"{row.pk}/../", "")):
        assert bobs.get(other).status_code == 409
    found = Caller(bob).get(f"/projects/weather-lm/clusters/{cluster.pk}/jobs/{row.pk}").json
    assert (found["script"], found["emptied_at"] is None) == ("", False)
