"""What a template says to the driver is checked when its version is added, with the place."""

from typing import Any

import pytest

from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterKind
from gpuaas.providers.clusterapi.driver import ClusterApiDriver

GOOD: dict[str, Any] = {"class": "lab", "class_namespace": "cluster-classes", "worker_class": "worker"}


def test_the_least_that_is_needed_is_enough() -> None:
    ClusterApiDriver.settings_check(ClusterKind.KUBERNETES, GOOD)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"class": None}, "settings.class:"),
        ({"class": "Not A Name"}, "settings.class:"),
        ({"class_namespace": ""}, "settings.class_namespace:"),
        ({"worker_class": 3}, "settings.worker_class:"),
        ({"colour": "red"}, "settings.colour:"),
        ({"flavor_variable": "no spaces"}, "settings.flavor_variable:"),
        ({"flavors": ["h100"]}, "settings.flavors:"),
        ({"flavors": {"h100.1": 1}}, "settings.flavors.h100.1:"),
        ({"pool_classes": {"gpu": "A B"}}, "settings.pool_classes.gpu:"),
        ({"variables": {"a b": 1}}, "settings.variables.a b:"),
        ({"parameters": {"pod_network": ""}}, "settings.parameters.pod_network:"),
        ({"addons": {"x": {}}}, "settings.addons.x:"),
        ({"addons": {"x": {"variable": "a", "manifests": "b"}}}, "settings.addons.x:"),
        ({"addons": {"x": {"variable": "a b"}}}, "settings.addons.x.variable:"),
        ({"addons": {"x": {"manifests": "{"}}}, "settings.addons.x.manifests:"),
        ({"addons": {"x": {"manifests": "just words"}}}, "settings.addons.x.manifests:"),
        ({"repair_after_seconds": -1}, "settings.repair_after_seconds:"),
        ({"repair_after_seconds": True}, "settings.repair_after_seconds:"),
    ],
)
def test_what_does_not_fit_is_refused_beside_settings(change: dict[str, Any], place: str) -> None:
    with pytest.raises(Invalid) as caught:
        ClusterApiDriver.settings_check(ClusterKind.KUBERNETES, {**GOOD, **change})
    assert caught.value.fields["settings"][0].startswith(place)
