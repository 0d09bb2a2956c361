"""A workspace of two H100 at a site with Kueue, JobSet and Trainer, by the portal's account with the rights of `site_role`, and alice
in it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from deploy.lab.trainer import Lab
from gpuaas.core.errors import GpuaasError, Permanent, Unauthorized
from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi import training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.rights import site_role
from tests.contracts.rigs import pod
from tests.lab.fixtures import carry_out, until
from tests.lab.kueue.conftest import GPU, JOBS, QueueRoom
from tests.providers.kubernetes.conftest import kubeconfig, make_spec, provision
from tests.providers.kubernetes.fitness.conftest import PortalSite, account

TRAINJOBS, JOBSETS = (path.rpartition("/{}/")[0] for path in training.MAKERS)
RUNTIME = "torch-distributed"


@pytest.fixture(scope="session")
def portal(trainer_lab: Lab) -> PortalSite:
    return account(trainer_lab.cluster, site_role())


@dataclass(frozen=True)
class TrainingRoom(QueueRoom):
    def train(self, name: str = "train", **changes: Any) -> Object:
        return self.tenant.create(self.path("trainjobs", TRAINJOBS), trainjob(name, **changes))

    def make_set(self, name: str = "set", **changes: Any) -> Object:
        return self.tenant.create(self.path("jobsets", JOBSETS), jobset(name, **changes))

    def jobset(self, name: str) -> Object:
        return self.admin.get(f"{self.path('jobsets', JOBSETS)}/{name}")

    def pods_of(self, name: str, phase: str = "Running") -> list[Object]:
        found = self.admin.items(self.path("pods"), labelSelector=f"{training.NAME_LABEL}={name}")
        return [each for each in found if each["status"].get("phase") == phase]

    def run_all(self, name: str, count: int) -> list[Object]:
        return until(
            lambda: found if len(found := self.pods_of(name)) == count else None, f"{count} pods of {name}"
        )

    def event_says(self, words: str, uid: str = "") -> None:
        """By an event of the namespace, about the object of this uid."""
        query = {"fieldSelector": f"involvedObject.uid={uid}"} if uid else {}
        until(
            lambda: any(
                words in each.get("message", "") for each in self.admin.items(self.path("events"), **query)
            ),
            f"an event says {words!r}",
        )

    def refused(self, attempt: Callable[[], object]) -> str:
        with pytest.raises((Permanent, Unauthorized)) as error:
            attempt()
        assert "gpuaas-" in error.value.message
        return error.value.message


def trainjob(name: str, gpus: int = 1, nodes: int = 2, marks: Object | None = None, **spec: Any) -> Object:
    asked = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)}
    own = {"image": "lab.gpuaas.io/busybox:1", "command": ["sleep", "86400"], "numNodes": nodes}
    return {
        "apiVersion": f"{training.TRAINER_GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "labels": marks or {}},
        "spec": {
            "runtimeRef": {"name": RUNTIME},
            "trainer": {**own, "resourcesPerNode": {"requests": asked, "limits": asked}},
            **spec,
        },
    }


def jobset(
    name: str,
    gpus: int = 1,
    replicas: int = 1,
    marks: Object | None = None,
    pod_spec: Object | None = None,
    pod_meta: Object | None = None,
    **spec: Any,
) -> Object:
    asked = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    body = pod(name, asked)["spec"]
    body["containers"][0]["resources"]["requests"] = asked
    template = {"metadata": pod_meta or {}, "spec": {**body, "restartPolicy": "Never", **(pod_spec or {})}}
    made = {"name": "main", "replicas": replicas, "template": {"spec": {"template": template}}}
    return {
        "apiVersion": f"{training.JOBSET_GROUP}/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": marks or {}},
        "spec": {"replicatedJobs": [made], **spec},
    }


def new_room(portal: PortalSite) -> TrainingRoom:
    spec, driver = make_spec(), portal.driver()
    provision(driver, spec)
    return TrainingRoom(spec, driver, portal.api(), Api(kubeconfig(driver, spec)))


@pytest.fixture
def room(portal: PortalSite) -> Iterator[TrainingRoom]:
    made = new_room(portal)
    yield made
    with suppress(GpuaasError):
        carry_out(made.driver, Change.DELETE, made.spec)


@pytest.fixture(scope="module")
def place(portal: PortalSite) -> Iterator[TrainingRoom]:
    """One for all tests of a file that change nothing for good."""
    made = new_room(portal)
    yield made
    carry_out(made.driver, Change.DELETE, made.spec)


__all__ = ["GPU", "JOBS", "JOBSETS", "TRAINJOBS", "TrainingRoom"]
