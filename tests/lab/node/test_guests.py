"""A guest leaves on a real kubelet: it saves what it has within its notice, and nobody has its GPUs before it is gone."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from celery import current_app
from django.db import connections
from pytest_django import Settings

from billing.selectors.inside import inside_cost
from deploy.lab.node import Lab
from deploy.lab.node.settings import GPUS
from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_create, site_probe
from gpuaas.core import queue
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_cancel
from gpuaas.metering.meter import SiteMeterRunner
from gpuaas.metering.models import EndedBy, Meter, UsageInterval
from gpuaas.providers.kubeapi import demand, names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.workspaces.lending import KEPT
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_lend, workspace_request
from tenants.actors import Actor
from tenants.models import Project
from tests.e2e.tenant import truth
from tests.factories.quotas import limits_give
from tests.jobs.stage import fresh, log, submitted
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import LASTS, TOOLS, Place
from tests.lab.node.test_workspace import L4, free
from tests.workspaces.stage import run_now
from tests.workspaces.test_new_model import healthy, sell

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600), pytest.mark.django_db(transaction=True)]

MODEL, BOUGHT = (
    "l4-24gb",
    1,
)  # GPU of each workspace: the two cores of the node are enough for a vCPU with each
NOTICE = 120  # seconds, as decision 0134 promises
SAID = ["training", "checkpoint begun", "checkpoint saved"]
# told to end, it saves what it has, and is not over before the test has read that
SAVES = (
    f"saves() {{ echo {SAID[1]}; sleep 3; echo {SAID[2]}; until [ -e /tmp/read ]; do sleep 1; done; exit 0; }}; "
    f"trap saves TERM; echo {SAID[0]}; until [ -e /tmp/done ]; do sleep 1 & wait $!; done"
)


class Worker:
    """Runs what the portal's own tasks ask for, when it is due."""

    def __init__(self) -> None:
        current_app.loader.import_default_modules()
        self.asked: deque[tuple[str, Sequence[str]]] = deque()

    def send(self, task: str, ids: Sequence[str], **_options: Any) -> None:
        self.asked.append((task, ids))

    def turn(self) -> None:
        self.asked.extend([("jobs.sweep", ()), ("workspaces.sweep", ())])
        for _ in range(len(self.asked)):
            task, ids = self.asked.popleft()
            if task.startswith(("jobs.", "workspaces.")):
                current_app.tasks[task](*ids)

    def until(self, look: Callable[[], object], what: str) -> None:
        def seen() -> object:
            self.turn()
            return look()

        until(seen, what)


@dataclass
class History:
    """Every change of the objects of a collection, in the order of the site."""

    api: Api
    collection: str
    version: str = ""
    events: list[tuple[str, Object]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.version = self.api.get(self.collection)["metadata"]["resourceVersion"]

    def run(self) -> None:
        while not self.stop.is_set():
            for event in self.api.watch(self.collection, version=self.version, seconds=2):
                self.version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.events.append((event["type"], event["object"]))

    def of(self, uid: str) -> list[Object]:
        return [each for _, each in list(self.events) if each["metadata"]["uid"] == uid]

    def is_gone(self, uid: str) -> bool:
        return any(kind == "DELETED" and each["metadata"]["uid"] == uid for kind, each in list(self.events))

    def at(self, uid: str, kind: str) -> int:
        """Its place among all events."""
        (place,) = (
            place
            for place, (each, found) in enumerate(self.events)
            if each == kind and found["metadata"]["uid"] == uid
        )
        return place


@dataclass(frozen=True)
class Stage:
    api: Api
    kubectl: Kubectl
    worker: Worker
    home: Workspace
    lender: Workspace
    pods: History
    quotas: History

    def ordered(self, actor: Actor, workspace: Workspace, name: str, script: str, **wanted: Any) -> Job:
        sizes = {"gpus": BOUGHT, "vcpus": 1, "memory_gib": 1}
        command = ["sh", "-c", script]
        return submitted(actor, workspace, name, image=TOOLS, command=command, **sizes, **wanted)

    def comes(self, row: Job, state: str) -> Job:
        def look() -> bool:
            found = fresh(row)
            assert found.state == state or found.state not in {"failed", "succeeded"}, found.failure
            return found.state == state

        self.worker.until(look, f"{row.name} is {state}")
        return fresh(row)

    def pod(self, row: Job, workspace: Workspace) -> Object:
        path = f"/api/v1/namespaces/{workspace.external_name}/pods"
        (found,) = self.api.items(path, labelSelector=f"job-name={row.external_name}")
        return found

    def touch(self, pod: Object, file: str) -> None:
        meta = pod["metadata"]
        Place(self.kubectl, meta["namespace"]).execute(meta["name"], f"touch {file}")

    def most_held(self, workspace: Workspace) -> int:
        """GPUs of pods that were on the node and had not ended, at any moment."""
        live: dict[str, int] = {}
        most = 0
        for kind, pod in self.pods.events:
            if pod["metadata"]["namespace"] != workspace.external_name:
                continue
            runs = kind != "DELETED" and pod["status"].get("phase") not in demand.FINISHED
            live[pod["metadata"]["uid"]] = (
                demand.devices(pod)[L4.resource_name] if runs and pod["spec"].get("nodeName") else 0
            )
            most = max(most, sum(live.values()))
        return most


@pytest.fixture
def worker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    settings.QUEUE_ENABLED = True
    monkeypatch.setattr(queue, "send", made.send)
    return made


@pytest.fixture
def site(node_lab: Lab, worker: Worker, as_olga: Actor) -> Site:
    """With its GPUs on sale."""
    credentials = {"kubeconfig": node_lab.kubeconfig.read_text()}
    made = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="kubernetes", credentials=credentials)
    until(lambda: site_probe(made.pk) and healthy(made, MODEL) == GPUS, "the site's GPUs take work")
    sell(as_olga, made, MODEL)
    return made


@pytest.fixture
def stage(node_lab: Lab, site: Site, worker: Worker, project: Project, as_alice: Actor) -> Iterator[Stage]:
    """Two workspaces that share the node, of which one is open to the project; the meter runs."""
    api = Api(node_lab.kubeconfig.read_text())
    limits_give(project, {f"gpu:{MODEL}": 2 * BOUGHT})
    home, lender = (bought(as_alice, project, site, name) for name in ("train", "shared"))
    workspace_lend(actor=as_alice, workspace=lender, open_to_project=True)
    stop = threading.Event()
    pods, quotas = (
        History(api, path, stop=stop)
        for path in ("/api/v1/pods", f"/api/v1/namespaces/{lender.external_name}/resourcequotas")
    )
    runs = (pods.run, quotas.run, SiteMeterRunner(site, stop=stop, holder="test").run)
    threads = [threading.Thread(target=_closed_after, args=(run,), daemon=True) for run in runs]
    try:
        for thread in threads:
            thread.start()
        yield Stage(api, Kubectl(node_lab.control), worker, home, lender, pods, quotas)
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=20)
        for space in (f"/api/v1/namespaces/{each.external_name}" for each in (home, lender)):
            api.delete(f"{space}/pods", gracePeriodSeconds="0")
            api.delete(space)
        until(lambda: free(api) == GPUS, "its GPUs are free")


def bought(actor: Actor, project: Project, site: Site, name: str) -> Workspace:
    flavor = site.pools.get(gpu_type__slug=MODEL).flavors.get()
    made = workspace_request(actor=actor, project=project, name=name, items=[(flavor.slug, BOUGHT)])
    until(lambda: run_now(made).state == "ready", f"{name} is ready")
    return Workspace.objects.get(pk=made.pk)


def _closed_after(run: Callable[[], None]) -> None:
    try:
        run()
    finally:
        connections.close_all()


def test_it_saves_what_it_has_within_its_notice_and_starts_anew(stage: Stage, as_alice: Actor) -> None:
    own = stage.comes(stage.ordered(as_alice, stage.home, "own", LASTS), "ready")
    guest = stage.comes(stage.ordered(as_alice, stage.home, "guest", SAVES, borrow=True), "ready")
    assert guest.place == stage.lender
    there = stage.pod(guest, stage.lender)
    assert there["spec"]["terminationGracePeriodSeconds"] == NOTICE
    stage.worker.until(lambda: log(guest).split("\n")[0] == SAID[0], "its trap is set")

    mine = stage.ordered(as_alice, stage.lender, "mine", LASTS)
    stage.worker.until(lambda: log(guest).splitlines() == SAID, "the portal keeps what it says in its notice")
    guest, mine = fresh(guest), fresh(mine)
    assert (guest.state, guest.outcome, mine.state) == ("suspending", "", "requested")
    assert guest.waiting.endswith("shared needs its room")
    stage.touch(there, "/tmp/read")

    mine = stage.comes(mine, "ready")
    guest = fresh(guest)
    assert (guest.state, guest.place, log(guest).splitlines()) == ("requested", None, SAID)
    assert "it waits in the queue of train and starts from the beginning" in guest.conditions[KEPT]["message"]
    assert guest.waiting.endswith("; no other workspace of the project has room for it")
    job_cancel(actor=as_alice, job=own)
    guest = stage.comes(guest, "ready")
    assert (guest.place, guest.conditions[KEPT]["reason"]) == (None, "RunsAgain")
    stage.touch(stage.pod(guest, stage.home), "/tmp/done")
    stage.comes(guest, "succeeded")
    job_cancel(actor=as_alice, job=mine)
    stage.comes(mine, "suspended")
    its_pod_ended_by_itself_before_the_other_came(stage, there["metadata"]["uid"], mine)
    each_second_is_counted_where_it_was(stage, as_alice, guest)


def its_pod_ended_by_itself_before_the_other_came(stage: Stage, guest: str, mine: Job) -> None:
    told = [each["metadata"] for each in stage.pods.of(guest) if "deletionTimestamp" in each["metadata"]]
    graces = [each["deletionGracePeriodSeconds"] for each in told]
    assert graces[0] == NOTICE
    assert set(graces) <= {NOTICE, 0}, "the kubelet alone has shortened it, once it was over"
    (status,) = stage.pods.of(guest)[-1]["status"]["containerStatuses"]
    assert (status["state"]["terminated"]["exitCode"], status["restartCount"]) == (0, 0)
    (other,) = {
        each["metadata"]["uid"]
        for _, each in stage.pods.events
        if each["metadata"].get("labels", {}).get("job-name") == mine.external_name
    }
    assert stage.pods.at(guest, "DELETED") < stage.pods.at(other, "ADDED")
    assert stage.most_held(stage.lender) == BOUGHT
    key, counted = f"requests.{L4.resource_name}", []
    for _, each in stage.quotas.events:
        if each["metadata"]["name"] == names.QUOTA:
            assert each["spec"]["hard"][key] == str(BOUGHT)
            counted.append(int(each["status"]["used"][key]))
    assert set(counted) == {0, BOUGHT}


def each_second_is_counted_where_it_was(stage: Stage, alice: Actor, guest: Job) -> None:
    """To the second of the site, and the job's own are those of both of its lives."""
    rows = UsageInterval.objects.filter(meter=Meter.GPU_ALLOCATED).order_by("started_at", "pk")
    until(lambda: rows.count() == 4 and not rows.filter(ended_at=None).exists(), "all four have ended")
    until(lambda: all(stage.pods.is_gone(row.consumer_uid) for row in rows), "their removal was seen")
    seconds = {}
    for row in rows:
        pod = stage.pods.of(row.consumer_uid)[-1]
        assert (row.started_at, row.ended_at) == truth(pod)
        assert (row.quantity, row.ended_by, row.surplus) == (BOUGHT, EndedBy.OBSERVED, False)
        assert row.workspace is not None
        assert row.ended_at is not None
        assert row.ended_at is not None
        assert row.workspace.external_name == pod["metadata"]["namespace"]
        place, name = row.workspace.name, row.consumer_name.rsplit("-", 1)[0]
        seconds[place, name.rsplit("-", 1)[1]] = BOUGHT * int((row.ended_at - row.started_at).total_seconds())
    assert set(seconds) == {("train", "own"), ("shared", "guest"), ("shared", "mine"), ("train", "guest")}
    both = seconds["shared", "guest"] + seconds["train", "guest"]
    assert inside_cost(actor=alice, row=guest).gpu_seconds == both
