"""Events become intervals, to the second, once."""

from datetime import datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from gpuaas.catalog.models import Flavor, Node
from gpuaas.metering.models import EndedBy, UsageInterval
from gpuaas.metering.services import usage_apply
from gpuaas.providers.base import UsageEvent, UsageKind
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from tenants.models import Project, User
from tests.factories.catalog import FlavorFactory
from tests.metering.stage import bookmark, gone, listed, pod, rows_of, seconds_of, seen, utc, workspace_make

START = utc("2026-11-02 10:00:00")


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("2026-11-02 10:00:00", "2026-11-02 10:00:01", 1),
        ("2026-11-02 10:00:00", "2026-11-02 10:01:01", 61),
        ("2026-11-02 23:59:30", "2026-11-03 00:00:31", 61),
        ("2026-11-02 10:00:00.900", "2026-11-02 10:00:02.100", 2),
        ("2026-11-02 10:00:05", "2026-11-02 10:00:04", 0),
    ],
)
def test_a_pod_is_metered_to_the_second(
    start: str, end: str, seconds: int, workspace: Workspace, h100: Flavor
) -> None:
    running, ended = pod(start=utc(start), gpus=2), pod(start=utc(start), end=utc(end), gpus=2)
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, running, utc(start))])
    usage_apply(site_id=workspace.site_id, events=[gone(workspace, ended, utc(end))])
    (row,) = UsageInterval.objects.all()
    assert seconds_of("pod-1") == seconds
    assert (row.quantity, row.ended_by, row.flavor, row.project) == (
        2,
        EndedBy.OBSERVED,
        h100,
        workspace.project,
    )


def test_an_end_while_the_meter_was_down_is_read_later(workspace: Workspace) -> None:
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, pod(start=START), later(0))])
    ended = pod(start=START, end=later(61))
    usage_apply(site_id=workspace.site_id, events=[gone(workspace, ended, later(3600))])
    assert seconds_of("pod-1") == 61


def test_a_pod_that_lived_and_ended_unseen_is_counted(workspace: Workspace) -> None:
    event = gone(workspace, pod(start=START, end=later(61)), later(3600))
    usage_apply(site_id=workspace.site_id, events=[event])
    assert seconds_of("pod-1") == 61


def test_gone_without_an_end_ends_when_it_was_seen_to_go(workspace: Workspace) -> None:
    running = pod(start=START)
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, running, later(0))])
    usage_apply(site_id=workspace.site_id, events=[gone(workspace, running, later(30.7))])
    usage_apply(site_id=workspace.site_id, events=[gone(workspace, running, later(90))])
    assert seconds_of("pod-1") == 30
    assert UsageInterval.objects.get().ended_by == EndedBy.PROOF_OF_LIFE


def test_a_list_closes_what_it_lacks_at_the_last_proof_of_life(workspace: Workspace) -> None:
    one, two = pod("one", start=START), pod("two", start=START)
    usage_apply(
        site_id=workspace.site_id,
        events=[
            seen(workspace, one, later(0)),
            seen(workspace, two, later(0)),
            bookmark(later(40)),
            *listed(later(100), seen(workspace, two, later(100))),
        ],
    )
    assert seconds_of("one") == 40
    assert UsageInterval.objects.get(consumer_uid="one").ended_by == EndedBy.PROOF_OF_LIFE
    still = UsageInterval.objects.get(consumer_uid="two")
    assert (still.ended_at, still.last_seen_at) == (None, later(100))


def test_a_torn_list_is_refused_and_closes_nothing(workspace: Workspace) -> None:
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, pod(start=START), later(0))])
    for torn in (
        [UsageEvent(UsageKind.RELIST, later(9))],
        [UsageEvent(UsageKind.RELISTED, later(9), cursor="4")],
    ):
        with pytest.raises(ValueError, match="list"):
            usage_apply(site_id=workspace.site_id, events=torn)
    assert UsageInterval.objects.get().ended_at is None


def test_nothing_reopens_an_ended_row(workspace: Workspace) -> None:
    running = pod(start=START)
    ended = pod(start=START, end=later(10))
    usage_apply(site_id=workspace.site_id, events=[gone(workspace, ended, later(11))])
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, running, later(99)), bookmark(later(99))])
    assert seconds_of("pod-1") == 10


def test_an_observed_end_corrects_a_proof_of_life(workspace: Workspace) -> None:
    usage_apply(site_id=workspace.site_id, events=[gone(workspace, pod(start=START), later(30))])
    usage_apply(
        site_id=workspace.site_id, events=[seen(workspace, pod(start=START, end=later(20)), later(31))]
    )
    assert seconds_of("pod-1") == 20


def test_what_holds_no_gpu_is_not_counted(workspace: Workspace) -> None:
    events = [
        seen(workspace, pod("waits", start=None), later(0)),
        seen(workspace, pod("none", start=START, gpus=0), later(0)),
    ]
    applied = usage_apply(site_id=workspace.site_id, events=events)
    assert not UsageInterval.objects.exists()
    assert set(applied.owners) == {workspace.external_name}


def test_a_namespace_that_is_not_ours_is_passed_over(workspace: Workspace) -> None:
    for name in ("kube-system", "gpu-ffffffff-train", "gpu-", "x" * 300):
        event = UsageEvent(UsageKind.SEEN, later(0), workspace_name=name, consumer=pod(start=START))
        usage_apply(site_id=workspace.site_id, events=[event])
    assert not UsageInterval.objects.exists()


def test_a_resource_that_was_not_bought_has_no_flavor(workspace: Workspace) -> None:
    event = seen(workspace, pod(start=START, resource="nvidia.com/mig-1g.10gb"), later(0))
    usage_apply(site_id=workspace.site_id, events=[event])
    assert UsageInterval.objects.get().flavor is None


def test_of_two_flavors_with_one_resource_name_the_node_decides(
    workspace: Workspace, h100: Flavor, l40s: Flavor
) -> None:
    WorkspaceFlavor.objects.create(workspace=workspace, flavor=l40s, count=1)
    Node.objects.create(site=workspace.site, pool=l40s.pool, name="node-l40s", observed_at=START)
    Node.objects.create(site=workspace.site, pool=h100.pool, name="node-h100", observed_at=START)
    events = [
        seen(workspace, pod("a", start=START, node="node-h100"), later(0)),
        seen(workspace, pod("b", start=START, node="node-l40s"), later(0)),
    ]
    usage_apply(site_id=workspace.site_id, events=events)
    assert dict(UsageInterval.objects.values_list("consumer_uid", "flavor__slug")) == {
        "a": "h100.1",
        "b": "l40s.1",
    }


def test_sites_do_not_touch_each_other(
    workspace: Workspace, project: Project, alice: User, h100: Flavor
) -> None:
    elsewhere = workspace_make(project, FlavorFactory.create(), alice, name="away")
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, pod("here", start=START), later(0))])
    usage_apply(site_id=elsewhere.site_id, events=[seen(elsewhere, pod("there", start=START), later(0))])
    usage_apply(site_id=elsewhere.site_id, events=listed(later(9)))
    assert [row[4] for row in rows_of(workspace.site_id)] == [None]
    assert [row[4] for row in rows_of(elsewhere.site_id)] == [later(0)]


def test_the_number_of_queries_does_not_grow_with_the_batch(
    workspace: Workspace, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    events = [seen(workspace, pod(f"pod-{n}", start=START), later(n)) for n in range(500)]
    with django_assert_max_num_queries(8):
        usage_apply(site_id=workspace.site_id, events=[*events, bookmark(later(900))])
    assert UsageInterval.objects.count() == 500


def test_pods_count_for_the_flavor_that_is_held_not_for_one_given_back(
    workspace: Workspace, h100: Flavor
) -> None:
    WorkspaceFlavor.objects.update(count=0)
    double = FlavorFactory.create(pool=h100.pool, slug="h100.2", gpus=2)
    WorkspaceFlavor.objects.create(workspace=workspace, flavor=double, count=1, confirmed=1)
    usage_apply(site_id=workspace.site_id, events=[seen(workspace, pod(start=START), later(0))])
    assert UsageInterval.objects.get().flavor == double
