"""Kueue's objects of a workspace, and what the check of a site makes of a Kueue; the real one is asked in tests/lab/kueue."""

from typing import Any, cast

import pytest

from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import GpuAmount
from gpuaas.providers.kubeapi import ensure, manifests, queues
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.queues import kueue, version
from tests.providers.kubernetes.conftest import H100, make_spec

MIG = GpuAmount("nvidia.com/mig-1g.5gb", 3, {"gpuaas.io/pool": "a100-40gb-mig"})
DRA = GpuAmount("gpuaas.io/h200", 4, {"gpuaas.io/pool": "h200"}, device_class="h200.example.com")


def made(**changes: object) -> dict[str, Object]:
    spec = make_spec(**changes)
    hard = manifests.quota(spec, {})["spec"]["hard"]
    return {body["kind"] + "/" + body["metadata"]["name"]: body for _, body in queues.objects_of(spec, hard)}


def groups(found: dict[str, Object]) -> dict[str, dict[str, str]]:
    """Amounts by flavor."""
    queue = next(body for name, body in found.items() if name.startswith("ClusterQueue/"))
    return {
        flavor["name"]: {one["name"]: one["nominalQuota"] for one in flavor["resources"]}
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
    }


def test_each_pool_has_a_flavor_with_the_labels_of_its_nodes() -> None:
    found = made(gpus=(H100, MIG, DRA))
    flavors = [queues.flavor_name(gpu) for gpu in (H100, MIG, DRA)]
    assert len({*flavors}) == 3
    assert flavors[0].startswith("gpuaas-h100-sxm-80gb-")
    for name, gpu in zip(flavors, (H100, MIG, DRA), strict=True):
        assert found[f"ResourceFlavor/{name}"]["spec"]["nodeLabels"] == gpu.selector
    amounts = groups(found)
    assert amounts[flavors[0]] == {"nvidia.com/gpu": "2"}
    assert amounts[flavors[1]] == {"nvidia.com/mig-1g.5gb": "3"}
    assert amounts[flavors[2]] == {
        "gpuaas.io/h200": "4",
        "deviceclass.resource.kubernetes.io/h200.example.com": "4",
    }


def test_what_was_not_bought_is_in_no_group() -> None:
    amounts = groups(made())
    assert amounts["gpuaas"]["cpu"] == "32"
    assert amounts["gpuaas"]["memory"] == "128Gi"
    assert not {"nvidia.com/gpu.shared", "hugepages-2Mi", "storage"} & amounts["gpuaas"].keys()


def test_two_names_of_one_pool_share_its_flavor() -> None:
    whole = GpuAmount("nvidia.com/gpu", 1, MIG.selector)
    assert groups(made(gpus=(whole, MIG)))[queues.flavor_name(MIG)] == {
        "nvidia.com/gpu": "1",
        "nvidia.com/mig-1g.5gb": "3",
    }


def test_a_suspended_one_is_stopped_and_empty() -> None:
    found = made(gpus=(), vcpus=0, memory_gib=0, suspended=True)
    queue = next(body for name, body in found.items() if name.startswith("ClusterQueue/"))
    assert queue["spec"]["stopPolicy"] == "HoldAndDrain"
    assert {groups(found)["gpuaas"][name] for name in ("cpu", "pods")} == {"0"}


class Closed:
    """A site with Kueue, where the portal's account has no rights to it yet."""

    server = "https://closed.example.com"

    def find(self, path: str) -> Object:
        if path == queues.KUEUE:
            return {}
        raise Unauthorized("the portal's credentials lack a right at the site")

    items = find

    def get(self, path: str) -> Object:
        assert path == "/apis"
        return {"groups": [{"versions": [{"groupVersion": queues.VERSION}]}]}

    def items_if_known(self, path: str) -> list[Object]:
        return []


def test_without_rights_a_site_is_as_one_without_kueue() -> None:
    """Its operator has not applied the role anew; what runs there is started, suspended and deleted as before."""
    api, spec = cast("Api", Closed()), make_spec()
    assert queues.labels_in(api, spec.external_name) == {}
    assert queues.workloads(api, spec.external_name) == []
    assert queues.removed(api, spec.ref).done
    assert queues.differences(api, spec, {}) == []
    ensure.Ensure(api, spec)._queue()


class Older(Closed):
    """It has queues and no classes. answer: to who makes some."""

    def __init__(self, answer: GpuaasError) -> None:
        self.answer = answer

    def find(self, path: str) -> Object:
        return {} if path.startswith(f"{queues.KUEUE}/namespaces/") else super().find(path)

    def apply(self, path: str, body: Object) -> Object:
        raise self.answer


@pytest.mark.parametrize(
    "answer",
    [
        Unauthorized("the portal's credentials lack a right at the site"),
        Permanent("the site refuses (403): admission webhook denied the request", detail={"status": 403}),
    ],
    ids=["a role of before", "a policy of the site"],
)
def test_where_the_portal_can_make_no_classes_a_job_names_none(answer: GpuaasError) -> None:
    """Kueue starts nothing that names a class which is not there."""
    api = cast("Api", Older(answer))
    assert queues.labels_in(api, make_spec().external_name, "high") == {queues.LABEL: "gpuaas"}


class Played:
    """As much of a site as the check looks at. judges: what becomes of a job's `suspend`, by whether it names a queue."""

    def __init__(self, served: str, judges: dict[bool, bool] | None = None) -> None:
        self.served, self.judges = served, judges

    def find(self, path: str) -> Object | None:
        return {} if path.endswith(f"/{self.served}") else None

    def items(self, path: str, **query: str) -> list[Object]:
        image = "registry.example.com:5000/kueue/kueue:v0.20.0"
        return [{"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}]

    def create(self, path: str, body: Object, **query: str) -> Object:
        assert query == {"dryRun": "All"}
        if self.judges is None:
            raise Unavailable("failed calling webhook", retry_after=1)
        return {"spec": {"suspend": self.judges[bool(body["metadata"]["labels"])]}}


@pytest.mark.parametrize(
    ("site", "status", "reason"),
    [
        (Played("nothing"), Status.TRUE, "NotServed"),
        (Played("v1beta1"), Status.FALSE, "TooOld"),
        (Played("v1beta2"), Status.FALSE, "DoesNotAnswer"),
        (Played("v1beta2", {True: True, False: True}), Status.FALSE, "TakesAll"),
        (Played("v1beta2", {True: False, False: False}), Status.FALSE, "Idle"),
        (Played("v1beta2", {True: True, False: False}), Status.TRUE, "Queues"),
    ],
)
def test_what_the_check_says(site: Played, status: Status, reason: str) -> None:
    found = kueue(cast("Api", site))
    assert (found.status, found.reason) == (status, reason)
    assert not found.blocking


def test_the_oldest_of_several_versions_counts() -> None:
    def deployment(image: str) -> dict[str, Any]:
        return {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}

    assert version([deployment("kueue:v0.19.2"), deployment("x/kueue:v0.18.4")]) == (0, 18, 4)
    assert version([deployment("kueue@sha256:0123")]) is None
