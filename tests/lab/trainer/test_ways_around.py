"""Ways out of a workspace by JobSets and TrainJobs, tried by alice, who may edit everything that members may."""

import copy
from collections.abc import Iterator

import pytest

from gpuaas.providers.kubeapi import names, queues
from gpuaas.providers.kubeapi.client import Object
from tests.lab.fixtures import until
from tests.lab.kueue.conftest import QUEUED
from tests.lab.trainer.conftest import JOBS, JOBSETS, TRAINJOBS, TrainingRoom, jobset

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"


@pytest.fixture
def room(place: TrainingRoom) -> Iterator[TrainingRoom]:
    yield place
    for path in (
        place.path("trainjobs", TRAINJOBS),
        place.path("jobsets", JOBSETS),
        place.path("jobs", JOBS),
    ):
        place.admin.delete(path, propagationPolicy="Background")
    place.admin.delete(place.path("pods"), gracePeriodSeconds="0")
    until(lambda: not place.admin.items(place.path("workloads", queues.KUEUE)), "the queue is empty")
    until(lambda: not place.admin.items(place.path("pods")), "no pod is left")


@pytest.mark.parametrize(
    ("pod_spec", "words"),
    [
        ({"serviceAccountName": "u-bob"}, "may not run as a member"),
        ({"hostNetwork": True}, "the node's own network"),
        ({"hostPID": True}, "the node's own network"),
        ({"nodeName": "h100-1"}, "may not choose its node"),
        ({"priorityClassName": "system-cluster-critical"}, "system priority classes"),
        ({"priorityClassName": names.SPOT}, "of workspaces that borrow"),
        ({"schedulerName": "mine"}, "another scheduler"),
        ({"tolerations": [{"operator": "Exists"}]}, "only GPU taints"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "only these volumes"),
        ({"nodeSelector": {"gpuaas.io/pool": "a100-40gb-mig"}}, "other nodes than those"),
    ],
)
def test_what_a_template_may_not_ask_for(room: TrainingRoom, pod_spec: Object, words: str) -> None:
    assert words in room.refused(lambda: room.make_set(pod_spec=pod_spec))


def test_containers_of_a_later_template_are_judged_too(room: TrainingRoom) -> None:
    made = jobset("set")
    later = copy.deepcopy(made["spec"]["replicatedJobs"][0]) | {"name": "later"}
    container = later["template"]["spec"]["template"]["spec"]["containers"][0]
    path = room.path("jobsets", JOBSETS)
    made["spec"]["replicatedJobs"].append(later)
    container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert "NVIDIA_VISIBLE_DEVICES" in room.refused(lambda: room.tenant.create(path, made))
    container["env"], container["securityContext"] = [], {"privileged": True}
    assert "privileged" in room.refused(lambda: room.tenant.create(path, made))
    container["resources"]["limits"]["nvidia.com/gpu.shared"] = "1"
    del container["securityContext"]
    assert "did not buy" in room.refused(lambda: room.tenant.create(path, made))


@pytest.mark.parametrize("key", [names.JOB, names.SUSPENDED, names.PROBE])
def test_marks_of_the_portal_are_not_forged(room: TrainingRoom, key: str) -> None:
    for where in ("labels", "annotations"):
        assert names.DOMAIN in room.refused(lambda: room.make_set(pod_meta={where: {key: "true"}}))  # noqa: B023
    assert names.DOMAIN in room.refused(lambda: room.make_set(marks={key: "true"}))
    assert names.DOMAIN in room.refused(lambda: room.train(marks={key: "true"}))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"labels": QUEUED}, "labels and annotations of Kueue"),
        ({"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "other"}}, "labels and annotations of Kueue"),
        ({"annotations": {names.JOB: "x"}}, f"labels and annotations of {names.DOMAIN}"),
        (
            {"podSpecOverrides": [{"targetJobs": [{"name": "node"}], "serviceAccountName": "u-bob"}]},
            "may not run as a member",
        ),
        (
            {
                "podSpecOverrides": [
                    {"targetJobs": [{"name": "node"}], "tolerations": [{"operator": "Exists"}]}
                ]
            },
            "only GPU taints",
        ),
    ],
)
def test_what_a_trainjob_hands_on_is_judged_as_its_jobset(
    room: TrainingRoom, spec: Object, words: str
) -> None:
    """Trainer makes it, and an event passes the refusal on to the member."""
    room.event_says(words, room.train("handed", **spec)["metadata"]["uid"])
    assert not room.admin.items(room.path("jobsets", JOBSETS))


def test_thousands_of_replicas(room: TrainingRoom) -> None:
    assert "at most 500 Jobs" in room.refused(lambda: room.make_set(replicas=501))
    assert "at most 500 Jobs" in room.refused(lambda: room.make_set(replicas=2_000_000_000))
    many = jobset("set", replicas=400)
    many["spec"]["replicatedJobs"] += [{**many["spec"]["replicatedJobs"][0], "name": "more"}]
    assert "at most 500 Jobs" in room.refused(lambda: room.tenant.create(room.path("jobsets", JOBSETS), many))
    endless = {"maxRestarts": 2_000_000_000}
    assert "begins anew at most 100 times" in room.refused(lambda: room.make_set(failurePolicy=endless))


def test_fewer_than_no_replicas_are_no_room_for_thousands(room: TrainingRoom) -> None:
    many = jobset("set", replicas=100_000)
    many["spec"]["replicatedJobs"] += [
        {**many["spec"]["replicatedJobs"][0], "name": "less", "replicas": -99_999}
    ]
    assert "at most 500 Jobs" in room.refused(lambda: room.tenant.create(room.path("jobsets", JOBSETS), many))


def test_beginning_anew_without_being_counted(room: TrainingRoom) -> None:
    action = {"name": "again", "action": "RestartJobSetAndIgnoreMaxRestarts"}
    uncounted = {"maxRestarts": 1, "rules": [action]}
    assert "IgnoreMaxRestarts" in room.refused(lambda: room.make_set(failurePolicy=uncounted))
    room.make_set(suspend=True, failurePolicy={"rules": [{**action, "action": "RestartJobSet"}]})


def test_nodes_that_nobody_could_list(room: TrainingRoom) -> None:
    """Trainer keeps a line of each in memory where a runtime is for MPI, and it serves the whole site."""
    assert "at most 10,000 nodes" in room.refused(lambda: room.train(nodes=2_000_000_000))


def test_hundreds_of_replicas_are_held_by_the_quota(room: TrainingRoom) -> None:
    room.make_set(replicas=20)
    room.run_all("set", 2)
    assert len(room.admin.items(room.path("pods"))) == 2


def test_a_place_of_its_own_would_keep_others_out(room: TrainingRoom) -> None:
    """JobSet then keeps the pods of all other namespaces from the nodes of a pod."""
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    made = jobset("set")
    made["metadata"]["annotations"] = {key: "kubernetes.io/hostname"}
    room.tenant.create(room.path("jobsets", JOBSETS), made)
    room.event_says("affinity to pods of other namespaces")
    assert not room.admin.items(room.path("pods"))


def test_labels_of_kueue_in_a_template(room: TrainingRoom) -> None:
    for where, key in (("labels", GROUP_NAME), ("annotations", GROUP_NAME), ("labels", queues.LABEL)):
        words = room.refused(lambda: room.make_set(pod_meta={where: {key: "other"}}))  # noqa: B023
        assert "labels and annotations of Kueue" in words
    made = jobset("set")
    made["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"labels": QUEUED}
    words = room.refused(lambda: room.tenant.create(room.path("jobsets", JOBSETS), made))
    assert "labels and annotations of Kueue" in words
    prebuilt = {**QUEUED, "kueue.x-k8s.io/prebuilt-workload-name": "other"}
    assert "of Kueue's labels" in room.refused(lambda: room.make_set(marks=prebuilt))


def test_what_they_made_is_not_started_or_grown_past_them(room: TrainingRoom) -> None:
    room.make_set(suspend=True)
    path = f"{room.path('jobs', JOBS)}/set-main-0"
    until(lambda: room.admin.find(path), "its Job is there")
    for change in ({"suspend": False}, {"parallelism": 5}):
        assert "change that one" in room.refused(lambda: room.tenant.merge(path, {"spec": change}))  # noqa: B023
    room.train("train", nodes=1, suspend=True)
    made = f"{room.path('jobsets', JOBSETS)}/train"
    until(lambda: room.admin.find(made), "its JobSet is there")
    assert "change that one" in room.refused(lambda: room.tenant.merge(made, {"spec": {"suspend": False}}))


def test_nobody_owns_what_is_not_theirs(room: TrainingRoom) -> None:
    made = room.make_set("one", suspend=True)
    owner = {
        "apiVersion": made["apiVersion"],
        "kind": "JobSet",
        "name": "one",
        "uid": made["metadata"]["uid"],
    }
    pod = {"containers": [{"name": "main", "image": "none"}]}
    body = {"metadata": {"name": "own", "ownerReferences": [{**owner, "controller": True}]}, "spec": pod}
    assert "of a pod no controller" in room.refused(lambda: room.tenant.create(room.path("pods"), body))
