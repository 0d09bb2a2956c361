"""An order for a Slurm cluster as a document: what makes a job is what its document says, and that makes the same job again."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.api.v1.clusters.job_shapes import ClusterJobInput
from gpuaas.clusters.job_document import FIELDS, document_of, order_of
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import cluster_job_submit
from gpuaas.core.plain_yaml import plain_read
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs.stage import credential

pytestmark = pytest.mark.django_db
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)


def moved(address: str) -> st.SearchStrategy[list[dict[str, str]]]:
    each = {
        "url": st.just(address),
        "credential": st.just("archive"),
        "folder": st.sampled_from(["a b", "1"]),
    }
    return st.lists(st.fixed_dictionaries(each), max_size=2)


ORDERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["train", "on", "0", "1e3"]), "script": LINES.map(lambda text: f"true {text}")},
    optional={
        "partition": st.sampled_from(["", "gpu"]),
        "tasks": st.integers(1, 4),
        "gpus_per_node": st.integers(0, 2),
        "cpus_per_task": st.integers(1, 4),
        "memory_gib": st.none() | st.integers(1, 9),
        "minutes": st.none() | st.integers(1, 9),
        "inputs": moved("s3://sets/a b"),
        "outputs": moved("s3://sets/out"),
    },
)


@pytest.fixture
def cluster(slurm: Cluster, as_alice: Actor, project: Project) -> Cluster:
    credential(as_alice, project)
    return slurm


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(order=ORDERS)
def test_an_order_its_document_and_the_order_again(
    cluster: Cluster, as_bob: Actor, order: dict[str, Any]
) -> None:
    first = cluster_job_submit(actor=as_bob, cluster=cluster, given=order)
    text = document_of(first)
    read = plain_read(text).value
    assert read == order_of(first)
    second = cluster_job_submit(actor=as_bob, cluster=cluster, given=read)
    assert [getattr(first, name) for name in FIELDS] == [getattr(second, name) for name in FIELDS]
    assert document_of(second) == text
    ClusterJob.objects.all().delete()


def test_it_has_the_fields_of_the_api() -> None:
    assert set(FIELDS) == set(ClusterJobInput().fields)
