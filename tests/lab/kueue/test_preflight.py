"""What the check of a site says of the Kueue that is really there."""

from collections.abc import Callable, Iterator

import pytest

from deploy.lab.kueue import Lab
from deploy.lab.kueue.lab import NAMESPACE
from gpuaas.core.conditions import Status
from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi.client import Api
from tests.providers.kubernetes.fitness.conftest import PortalSite

Install = Callable[[str], None]


@pytest.fixture
def install(portal: PortalSite) -> Iterator[Install]:
    """In the lab Kueue is a process, so its Deployment is an empty one of the same labels and image."""
    api, path = portal.api(), f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    labels = {"app.kubernetes.io/name": "kueue"}

    def apply(image: str) -> None:
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": image}]},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kueue-controller-manager", "labels": labels},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }
        api.apply(path, body)

    yield apply
    Api(portal.kubeconfig).delete(f"{path}/kueue-controller-manager")


def check(portal: PortalSite) -> Check:
    found = {each.type: each for each in portal.driver().preflight()}
    assert found["Permissions"].reason == "Enough"
    return found["Kueue"]


def test_its_version_and_what_is_known_of_it(portal: PortalSite, install: Install) -> None:
    assert "does not recognize" in check(portal).message
    install("registry.k8s.io/kueue/kueue:v0.19.1")
    found = check(portal)
    assert (found.status, found.reason) == (Status.FALSE, "KnownWaysAround")
    assert "Kueue 0.19.1" in found.message
    assert "0.19.2" in found.remedy
    assert not found.blocking
    install("registry.k8s.io/kueue/kueue:v0.19.2")
    assert check(portal).reason == "Queues"


def test_that_it_does_not_answer(portal: PortalSite, kueue_lab: Lab) -> None:
    kueue_lab.stop_program("kueue")
    try:
        assert check(portal).reason == "DoesNotAnswer"
    finally:
        kueue_lab.up()
    assert check(portal).reason == "KnownWaysAround"
