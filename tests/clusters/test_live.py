"""Whoever looks at a cluster is told of every step, not only of its states."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperationStep, ClusterTemplate
from gpuaas.core.events import OPERATORS_GROUP, project_group
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import order, run_now
from tests.factories.quotas import limits_give
from tests.live.hearing import heard, listen

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = 40


def done(cluster: Cluster) -> int:
    return ClusterOperationStep.objects.filter(operation__cluster=cluster, state="done").count()


def test_each_step_is_told_once_to_the_team_and_to_operators(
    as_alice: Actor, project: Project, template: ClusterTemplate, site: Site
) -> None:
    limits_give(project)
    listen(project_group(project.pk), "team")
    listen(OPERATORS_GROUP, "operators")
    cluster = order(as_alice, project)
    assert len(heard("team")) == len(heard("operators")) == 1
    marks: list[str] = []
    for _ in range(RUNS):
        before = done(cluster)
        cluster = run_now(cluster)
        told = [event for event in heard("team") if event["kind"] == "cluster"]
        assert {event["id"] for event in told} <= {str(cluster.pk)}
        if done(cluster) > before:
            assert told, "a step ended and nobody was told"
        marks += [event["mark"] for event in told]
        if cluster.state == "ready":
            break
    assert cluster.state == "ready"
    assert done(cluster) >= 5
    assert len(set(marks)) == len(marks), "each change has a mark of its own"
    assert marks == [event["mark"] for event in heard("operators") if event["kind"] == "cluster"]
