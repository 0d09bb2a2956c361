"""What the check of a site says of the JobSet and the Trainer there."""

from collections.abc import Callable, Iterator

import pytest

from deploy.lab.trainer import Lab
from gpuaas.core.conditions import Status
from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi.client import Api
from tests.lab.fixtures import until
from tests.providers.kubernetes.fitness.conftest import PortalSite

Install = Callable[[str], None]


@pytest.fixture
def install(portal: PortalSite) -> Iterator[Install]:
    """A Deployment of this image, as an operator's installation has; the controllers of the lab are processes."""
    api, path, made = Api(portal.kubeconfig), "/apis/apps/v1/namespaces/kube-system/deployments", []

    def apply(image: str) -> None:
        labels = {"app": image.rpartition("/")[2].partition(":")[0]}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": image}]},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": labels["app"], "labels": labels},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }
        api.apply(path, body)
        made.append(labels["app"])

    yield apply
    for name in made:
        api.delete(f"{path}/{name}")


def checks(portal: PortalSite) -> dict[str, Check]:
    found = {each.type: each for each in portal.driver().preflight()}
    assert found["Permissions"].reason == "Enough"
    return found


def test_their_versions_and_runtimes(portal: PortalSite, install: Install) -> None:
    found = checks(portal)
    assert found["JobSet"].status is found["Trainer"].status is Status.TRUE
    assert "does not recognize" in found["Trainer"].message
    install("registry.k8s.io/jobset/jobset:v0.8.2")
    install("ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.0.0")
    found = checks(portal)
    assert "JobSet 0.8.2" in found["JobSet"].message
    assert "Trainer 2.0.0" in found["Trainer"].message
    assert "torch-distributed" in found["Trainer"].message
    assert (found["Trainer"].reason, found["Trainer"].blocking) == ("NotQueued", False)
    assert "2.2.0" in found["Trainer"].remedy
    install("ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.2.0")
    assert checks(portal)["Trainer"].reason == "Serves"


def test_that_they_do_not_answer(portal: PortalSite, trainer_lab: Lab) -> None:
    for name in ("trainer", "jobset"):
        trainer_lab.stop_program(name)
    try:
        found = {each.type: each for each in portal.driver().preflight()}
        assert [found[name].reason for name in ("JobSet", "Trainer")] == ["DoesNotAnswer"] * 2
    finally:
        trainer_lab.up()
    found = checks(portal)
    assert [found[name].reason for name in ("JobSet", "Trainer")] == ["Serves"] * 2


def test_an_account_of_before_finds_no_runtimes_and_the_rest(portal: PortalSite) -> None:
    """The look at a site goes on where it may not list them."""
    role = Api(portal.kubeconfig)  # the admin of the lab
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/gpuaas-portal"
    before = role.get(path)["rules"]
    try:
        role.merge(
            path,
            {
                "rules": [
                    each for each in before if "clustertrainingruntimes" not in each.get("resources", [])
                ]
            },
        )
        until(lambda: portal.driver().probe().runtimes == (), "it may not list them")
        assert portal.driver().probe().pools
    finally:
        role.merge(path, {"rules": before})
        until(lambda: portal.driver().probe().runtimes, "it may again")
