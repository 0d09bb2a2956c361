"""What is applied for an order, and what its plan says: pure functions of the spec."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import (
    Change,
    ClusterKind,
    ClusterSpec,
    ControlPlane,
    FlavorAmount,
    NodePool,
)
from gpuaas.providers.clusterapi import manifests, names
from gpuaas.providers.clusterapi.plan import ClusterApiTimeline
from gpuaas.providers.clusterapi.settings import settings_read

SETTINGS: dict[str, Any] = {
    "class": "lab",
    "class_namespace": "cluster-classes",
    "worker_class": "worker",
    "pool_classes": {"big": "big-worker"},
    "flavor_variable": "flavor",
    "flavors": {"h100.2": "g1.h100x2"},
    "variables": {"image": "ubuntu"},
    "parameters": {"boot_seconds": "bootSeconds"},
    "addons": {"gpu-operator": {"variable": "gpuOperator"}, "logs": {"variable": "logs"}},
}


def pool(name: str, count: int, flavor: str, release: str = "1.36.3") -> NodePool:
    return NodePool(name, FlavorAmount(flavor, count, 2, 8, 64, 100, "nvidia.com/gpu"), release)


SPEC = ClusterSpec(
    id=uuid.UUID(int=7),
    external_name="c-00000000-train",
    project_slug="weather-lm",
    organization_slug="climate",
    kind=ClusterKind.KUBERNETES,
    release="1.36.3",
    control_plane=ControlPlane(3, 4, 8, 40),
    pools=(pool("gpu", 2, "h100.2"), pool("big", 1, "h100.8", "1.35.6")),
    addons=("gpu-operator",),
    parameters={"boot_seconds": 3, "zone": "a"},
    settings=SETTINGS,
)


def topology(spec: ClusterSpec) -> dict[str, Any]:
    found: dict[str, Any] = manifests.cluster(spec, settings_read(spec.settings))["spec"]["topology"]
    return found


def test_an_order_becomes_a_topology_of_the_class() -> None:
    made = topology(SPEC)
    assert made["classRef"] == {"name": "lab", "namespace": "cluster-classes"}
    assert made["version"] == "v1.36.3"
    assert made["controlPlane"]["replicas"] == 3
    assert {one["name"]: one["value"] for one in made["variables"]} == {
        "image": "ubuntu",
        "bootSeconds": 3,
        "zone": "a",
        "gpuOperator": True,
        "logs": False,
    }
    gpu, big = made["workers"]["machineDeployments"]
    assert (gpu["class"], gpu["replicas"]) == ("worker", 2)
    assert gpu["variables"]["overrides"] == [{"name": "flavor", "value": "g1.h100x2"}]
    assert (big["class"], big["variables"]["overrides"][0]["value"]) == ("big-worker", "h100.8")


def test_everything_carries_the_tag() -> None:
    made = manifests.cluster(SPEC, settings_read(SETTINGS))
    tag = str(SPEC.id)
    assert manifests.namespace(SPEC)["metadata"]["labels"][names.TAG] == tag
    assert made["metadata"]["labels"][names.TAG] == tag
    parts = [
        made["spec"]["topology"]["controlPlane"],
        *made["spec"]["topology"]["workers"]["machineDeployments"],
    ]
    assert {one["metadata"]["labels"][names.TAG] for one in parts} == {tag}


def test_only_a_pool_that_is_behind_is_held_back() -> None:
    gpu, big = topology(SPEC)["workers"]["machineDeployments"]
    assert "annotations" not in gpu["metadata"]
    assert names.DEFER_UPGRADE in big["metadata"]["annotations"]


def test_no_pool_ever_has_more_machines_than_are_reserved() -> None:
    """Whatever makes Cluster API replace them: another release, another flavor, another variable."""
    for made in topology(SPEC)["workers"]["machineDeployments"]:
        strategy = made["rollout"]["strategy"]
        assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def test_what_cannot_be_is_said_before() -> None:
    before = replace(SPEC, release="1.35.6", pools=(pool("gpu", 2, "h100.2", "1.35.6"), SPEC.pools[1]))
    control, workers, held = ClusterApiTimeline(SPEC, before).warnings(Change.UPGRADE)
    assert "one machine more while it is upgraded, beyond what is reserved" in control
    assert "4 vCPU and 8 GiB" in control
    assert "The workers of the pool gpu are drained and replaced one after the other" in workers
    assert "one is missing meanwhile" in workers
    assert "big stays at 1.35.6" in held
    odd = replace(SPEC, pools=(pool("gpu", 2, "h100.2", "1.34.9"),))
    assert any(
        "cannot be set to 1.34.9" in one for one in ClusterApiTimeline(odd, before).warnings(Change.UPGRADE)
    )


def test_an_addon_that_the_template_does_not_explain_is_refused_with_what_to_do() -> None:
    odd = replace(SPEC, addons=("monitoring",))
    with pytest.raises(Permanent) as caught:
        manifests.addon_check(odd, "monitoring", settings_read(SETTINGS))
    assert caught.value.detail["next"]
    assert "settings.addons has no monitoring" in caught.value.detail["evidence"]
