"""Every way of counting, as the usage stream of the real control plane tells it: each device once, by its own name."""

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import GpuAmount, ObservedConsumer, UsageEvent, UsageKind
from gpuaas.providers.kubeapi import client, names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.kubernetes.usage import UsageStream
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec

pytestmark = pytest.mark.lab

H200 = GpuAmount("gpuaas.io/h200", 6, {"gpuaas.io/pool": "h200-dra"}, exclusive=True, device_class="h200")
DRA = "/apis/resource.k8s.io/v1"
IMPLICIT = "deviceclass.resource.kubernetes.io/h200"


@pytest.fixture
def dra(lab: LabSite) -> Iterator[Room]:
    spec = make_spec(gpus=(H200,))
    yield make_room(lab, spec)
    forget(lab, spec)


def claim_spec(count: int = 1) -> Object:
    exactly = {"deviceClassName": "h200", "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def claim(room: Room, name: str, *, count: int) -> None:
    body = {"metadata": {"name": name}, "spec": claim_spec(count)}
    room.admin.create(room.path("resourceclaims", DRA), body)


def claimer(name: str, *, run_seconds: int | None = None, **source: str) -> Object:
    body = pod(name, {}, run_seconds=run_seconds, resourceClaims=[{"name": "g", **source}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
    return body


def listed(driver: KubernetesDriver, space: str) -> tuple[dict[str, ObservedConsumer], str]:
    """What holds devices there, by name, and the cursor of the list."""
    found: dict[str, ObservedConsumer] = {}
    for event in driver.watch_usage("", seconds=1):
        if event.kind is UsageKind.RELISTED:
            return found, event.cursor
        if event.consumer is not None and event.workspace_name == space and event.consumer.gpus:
            assert event.consumer.name not in found, "counted twice"
            found[event.consumer.name] = event.consumer
    raise AssertionError("no list")


def told(
    source: KubernetesDriver | UsageStream, room: Room, cursor: str, wanted: Callable[[UsageEvent], bool]
) -> list[UsageEvent]:
    """What is told of devices there from the cursor on, up to what is wanted."""
    found = []
    watch = source.watch if isinstance(source, UsageStream) else source.watch_usage
    for event in watch(cursor, seconds=20):
        if (
            event.consumer is not None
            and event.workspace_name == room.spec.external_name
            and event.consumer.gpus
        ):
            found.append(event)
            if wanted(event):
                return found
    raise AssertionError(f"not told: {found}")


@pytest.fixture
def team(lab: LabSite) -> Iterator[str]:
    """A namespace of somebody's own, with no guards and no quota of ours."""
    api, space = lab.api(), f"team-{uuid.uuid4().hex[:8]}"
    api.create("/api/v1/namespaces", {"metadata": {"name": space}})
    yield space
    api.delete(f"/api/v1/namespaces/{space}/pods", gracePeriodSeconds="0")
    api.delete(f"/api/v1/namespaces/{space}")


def ours(lab: LabSite, space: str) -> None:
    label = {"metadata": {"labels": {names.WORKSPACE: "taken-over"}}}
    lab.api().merge(f"/api/v1/namespaces/{space}", label)


def test_by_extended_name_and_by_implicit_name_the_pod_counts_and_its_special_claim_does_not(
    lab: LabSite, team: str
) -> None:
    api, pods = lab.api(), f"/api/v1/namespaces/{team}/pods"
    ours(lab, team)
    for name, resource in (("extended", "gpuaas.io/h200"), ("implicit", IMPLICIT)):
        api.create(pods, pod(name, {resource: "1"}, tolerations=[{"operator": "Exists"}]))
        until(lambda name=name: api.get(f"{pods}/{name}")["status"]["phase"] == "Running", name)  # type: ignore[misc]
    claims = api.items(f"{DRA}/namespaces/{team}/resourceclaims")
    assert len(claims) == 2, "the scheduler has made one for each"
    found, _ = listed(lab.driver(), team)
    assert {name: dict(each.gpus) for name, each in found.items()} == {
        "extended": {"gpuaas.io/h200": 1},
        "implicit": {"gpuaas.io/h200": 1},
    }


def test_a_claim_that_pods_share_counts_once_for_each_of_its_allocations(dra: Room) -> None:
    claim(dra, "shared", count=2)
    _, cursor = listed(dra.driver, dra.spec.external_name)
    for name in ("first", "second"):
        dra.admin.create(dra.path("pods"), claimer(name, resourceClaimName="shared"))
        dra.run_to(name, "Running")
    found, _ = listed(dra.driver, dra.spec.external_name)
    assert {name: dict(each.gpus) for name, each in found.items()} == {"shared": {"gpuaas.io/h200": 2}}
    assert (found["shared"].node, found["shared"].owner) == ("h200-dra-1", "ResourceClaim/shared")
    for name in ("first", "second"):
        dra.admin.delete(f"{dra.path('pods')}/{name}", gracePeriodSeconds="0")
    path = f"{dra.path('resourceclaims', DRA)}/shared"
    until(lambda: "allocation" not in (dra.admin.get(path).get("status") or {}), "it is given back")
    until(lambda: datetime.now(UTC).timestamp() > _started(found["shared"]) + 1, "another second")
    dra.admin.create(dra.path("pods"), claimer("third", resourceClaimName="shared"))
    dra.run_to("third", "Running")
    again, _ = listed(dra.driver, dra.spec.external_name)
    assert again["shared"].uid != found["shared"].uid
    events = told(dra.driver, dra, cursor, lambda event: event.consumer == again["shared"])
    kinds = [(event.kind, event.consumer.uid) for event in events if event.consumer]
    first = found["shared"].uid
    assert kinds.count((UsageKind.GONE, first)) == 1
    assert kinds.index((UsageKind.GONE, first)) < kinds.index((UsageKind.SEEN, again["shared"].uid))


class Held(Api):
    """Its watch of one collection is not opened before the other's has told what is waited for."""

    def __init__(self, lab: LabSite, *, late: str, until_told: Callable[[Object], bool]) -> None:
        super().__init__(lab.kubeconfig)
        self._late = late
        self._until_told = until_told
        self._told = threading.Event()

    def watch_lean(self, path: str, *, version: str, seconds: int) -> Iterator[Object]:
        if path == self._late:
            assert self._told.wait(timeout=seconds), "the other watch has not told it"
        for event in super().watch_lean(path, version=version, seconds=seconds):
            yield event
            if path != self._late and self._until_told(event):
                self._told.set()


def watching(lab: LabSite, space: str, late: str) -> UsageStream:
    """The stream as it is read when neither watch is behind, or one of them by all that matters."""

    def of_claims(event: Object) -> bool:
        return bool(event["type"] == "DELETED" and event["object"]["metadata"]["namespace"] == space)

    def of_pods(event: Object) -> bool:
        there = event["object"]["metadata"].get("namespace") == space
        return bool(there and event["object"]["status"].get("phase") == "Succeeded")

    if late == "pods":
        return UsageStream(Held(lab, late="/api/v1/pods", until_told=of_claims))
    if late == "claims":
        return UsageStream(Held(lab, late=f"{DRA}/resourceclaims", until_told=of_pods))
    return UsageStream(lab.api())


@pytest.mark.parametrize("late", ["neither", "pods", "claims"])
def test_a_claim_of_a_template_is_its_pods_and_ends_with_it(lab: LabSite, dra: Room, late: str) -> None:
    """Two watches keep no order between them: whichever is behind, the last word on the claim is the same."""
    template = {"metadata": {"name": "one"}, "spec": {"spec": claim_spec()}}
    dra.admin.create(dra.path("resourceclaimtemplates", DRA), template)
    _, cursor = listed(dra.driver, dra.spec.external_name)
    spec = claimer("unnamed", run_seconds=1, resourceClaimTemplateName="one")["spec"]
    job = {"metadata": {"name": "train"}, "spec": {"template": {"spec": spec}}}
    dra.admin.create(dra.path("jobs", "/apis/batch/v1"), job)
    stream = watching(lab, dra.spec.external_name, late)
    events = told(stream, dra, cursor, _has_ended)
    last = events[-1].consumer
    assert last is not None
    (worker,) = dra.admin.items(dra.path("pods"), labelSelector="job-name=train")
    ended = worker["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert (last.name, last.owner) == (worker["metadata"]["name"], "Job/train")
    assert last.ended_at == datetime.fromisoformat(ended), "the second in which the pod finished"
    if late == "pods":
        assert events[0].consumer is not None
        assert events[0].consumer.owner == f"Pod/{last.name}", "it was told before its pod was known"


def _has_ended(event: UsageEvent) -> bool:
    return event.kind is UsageKind.GONE and event.consumer is not None and event.consumer.ended_at is not None


def test_a_new_process_knows_which_allocation_has_ended(lab: LabSite, dra: Room) -> None:
    """It begins at the cursor of another, and asks the site what was allocated then."""
    claim(dra, "mine", count=1)
    dra.admin.create(dra.path("pods"), claimer("one", resourceClaimName="mine"))
    dra.run_to("one", "Running")
    found, cursor = listed(dra.driver, dra.spec.external_name)
    dra.admin.delete(f"{dra.path('pods')}/one", gracePeriodSeconds="0")
    path = f"{dra.path('resourceclaims', DRA)}/mine"
    until(lambda: "allocation" not in (dra.admin.get(path).get("status") or {}), "it is given back")
    dra.admin.delete(path)
    last = told(lab.driver(), dra, cursor, lambda event: event.kind is UsageKind.GONE)[-1].consumer
    assert last is not None
    assert last.uid == found["mine"].uid


def test_a_cursor_from_before_the_site_had_device_classes_begins_with_a_list(dra: Room) -> None:
    plain = dra.admin.get("/api/v1/pods", limit="1")["metadata"]["resourceVersion"]
    first = next(iter(dra.driver.watch_usage(plain, seconds=1)))
    assert first.kind is UsageKind.RELIST


def test_an_adopted_namespace_is_told_of_from_the_window_in_which_it_became_ours(
    lab: LabSite, team: str
) -> None:
    """Its name is its own; what ran before it was labeled is told as soon as it is."""
    api, driver = lab.api(), lab.driver()
    body = pod("before", {"nvidia.com/gpu": "1"}, tolerations=[{"operator": "Exists"}])
    api.create(f"/api/v1/namespaces/{team}/pods", body)
    events = list(driver.watch_usage("", seconds=1))
    assert all(event.workspace_name != team for event in events)
    ours(lab, team)
    again = list(driver.watch_usage(events[-1].cursor, seconds=1))
    told = {event.consumer.name for event in again if event.consumer and event.workspace_name == team}
    assert told == {"before"}


def test_what_a_site_failed_to_say_of_a_namespace_that_becomes_ours_is_told_the_next_time(
    lab: LabSite, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, driver, path = lab.api(), lab.driver(), f"/api/v1/namespaces/{team}/pods"
    api.create(path, pod("before", {"nvidia.com/gpu": "1"}, tolerations=[{"operator": "Exists"}]))
    cursor = list(driver.watch_usage("", seconds=1))[-1].cursor
    ours(lab, team)
    items = Api.items

    def failing(self: Api, where: str, **query: str) -> list[Object]:
        if where == path:
            raise Unavailable("the site's API server does not answer")
        return items(self, where, **query)

    with monkeypatch.context() as broken:
        broken.setattr(Api, "items", failing)
        with pytest.raises(Unavailable):
            list(driver.watch_usage(cursor, seconds=1))
    again = list(driver.watch_usage(cursor, seconds=1))
    assert "before" in {
        event.consumer.name for event in again if event.consumer and event.workspace_name == team
    }


def test_claims_of_a_namespace_that_becomes_ours_are_told_of_by_the_stream_that_skipped_them(
    lab: LabSite, team: str
) -> None:
    api, driver = lab.api(), lab.driver()
    claims = f"{DRA}/namespaces/{team}/resourceclaims"
    api.create(claims, {"metadata": {"name": "before"}, "spec": claim_spec()})
    body = claimer("user", resourceClaimName="before")
    body["spec"]["tolerations"] = [{"operator": "Exists"}]
    api.create(f"/api/v1/namespaces/{team}/pods", body)
    until(lambda: "allocation" in (api.get(f"{claims}/before").get("status") or {}), "it is allocated")
    events = list(driver.watch_usage("", seconds=1))
    assert all(event.workspace_name != team for event in events)
    ours(lab, team)
    again = list(driver.watch_usage(events[-1].cursor, seconds=1))
    told = {
        each.name: dict(each.gpus)
        for event in again
        if event.workspace_name == team and (each := event.consumer)
    }
    assert told == {"user": {}, "before": {"gpuaas.io/h200": 1}}


def test_a_stream_that_begins_at_a_cursor_reads_more_claims_than_fit_on_a_page(
    lab: LabSite, dra: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read as they were at the cursor: the site tells later pages by their token alone."""
    for name in ("one", "two"):
        claim(dra, name, count=1)
    cursor = list(dra.driver.watch_usage("", seconds=1))[-1].cursor
    monkeypatch.setattr(client, "PAGE", 1)
    events = list(lab.driver().watch_usage(cursor, seconds=1))
    assert events[-1].kind is UsageKind.BOOKMARK
    assert not any(event.kind is UsageKind.RELIST for event in events)


def test_a_pod_that_is_ended_by_force_long_after_it_was_asked_to_end_is_metered_until_then(
    room: Room,
) -> None:
    """Kubernetes then moves its deadline back to the moment at which it was asked first."""
    slow = pod("slow", {"nvidia.com/gpu": "1"}, terminationGracePeriodSeconds=3600)
    slow["metadata"] |= {"annotations": {"lab.gpuaas.io/stop": "3600s"}}
    room.tenant.create(room.path("pods"), slow)
    room.run_to("slow", "Running")
    room.tenant.delete(f"{room.path('pods')}/slow")
    cursor = list(room.driver.watch_usage("", seconds=1))[-1].cursor
    asked = datetime.now(UTC)
    until(lambda: datetime.now(UTC) > asked + timedelta(seconds=3), "it runs on")
    room.tenant.delete(f"{room.path('pods')}/slow", gracePeriodSeconds="0")
    events = told(room.driver, room, cursor, lambda event: event.kind is UsageKind.GONE)
    ends = {
        moment
        for event in events
        if event.consumer
        for moment in (event.consumer.ended_at, event.consumer.deadline_at)
        if moment
    }
    assert min(ends) > asked + timedelta(seconds=1)


def test_a_member_who_gives_a_pod_ages_to_end_stops_no_meter(room: Room) -> None:
    slow = pod("ages", {"nvidia.com/gpu": "1"})
    slow["metadata"] |= {"annotations": {"lab.gpuaas.io/stop": "3600s"}}
    room.tenant.create(room.path("pods"), slow)
    room.run_to("ages", "Running")
    room.tenant.delete(f"{room.path('pods')}/ages", gracePeriodSeconds="400000000000")
    found, _ = listed(room.driver, room.spec.external_name)
    assert (found["ages"].ended_at, found["ages"].deadline_at) == (None, None)
    assert room.driver.observe(room.ref).consumers[0].name == "ages"


def _started(consumer: ObservedConsumer) -> float:
    assert consumer.started_at is not None
    return consumer.started_at.timestamp()
