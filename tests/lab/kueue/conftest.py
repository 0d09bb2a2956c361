"""A workspace of two H100 at a site with Kueue, by the portal's account with the rights of `site_role`, and alice in it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deploy.lab.kueue import Lab
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi import queues
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.rights import site_role
from tests.contracts.rigs import pod
from tests.lab.fixtures import carry_out, until
from tests.providers.kubernetes.conftest import Room, kubeconfig, make_spec, provision
from tests.providers.kubernetes.fitness.conftest import PortalSite, account

JOBS = "/apis/batch/v1"
GPU = "nvidia.com/gpu"
QUEUED = {queues.LABEL: "gpuaas"}


@pytest.fixture(scope="session")
def portal(kueue_lab: Lab) -> PortalSite:
    return account(kueue_lab.cluster, site_role())


@dataclass(frozen=True)
class QueueRoom(Room):
    def queue_job(self, name: str, gpus: int = 1, **changes: Any) -> Object:
        return self.tenant.create(self.path("jobs", JOBS), job(name, gpus, **changes))

    def job(self, name: str) -> Object:
        return self.admin.get(f"{self.path('jobs', JOBS)}/{name}")

    def runs(self, name: str) -> Object:
        def look() -> Object | None:
            found = self.job(name)
            return (
                found if (found.get("status") or {}).get("active") and not found["spec"]["suspend"] else None
            )

        return until(look, f"{name} runs")

    def waits(self, name: str) -> str:
        """Why, as Kueue says it."""

        def look() -> str:
            for each in self.admin.items(self.path("workloads", queues.KUEUE)):
                if each["metadata"]["ownerReferences"][0]["name"] == name:
                    conditions = (each.get("status") or {}).get("conditions") or []
                    return next(
                        (
                            str(c["message"])
                            for c in conditions
                            if c["type"] == "QuotaReserved" and c["status"] == "False"
                        ),
                        "",
                    )
            return ""

        words = until(look, f"{name} waits")
        assert self.job(name)["spec"]["suspend"] is True
        return words

    @property
    def quotas(self) -> dict[str, str]:
        """Of the ClusterQueue, by resource."""
        found = self.admin.get(f"{queues.CLUSTER_QUEUES}/{self.spec.external_name}")
        return {
            one["name"]: one["nominalQuota"]
            for group in found["spec"]["resourceGroups"]
            for flavor in group["flavors"]
            for one in flavor["resources"]
        }

    def carry_out(self, change: Change, **changes: object) -> "QueueRoom":
        made = replace(self, spec=replace(self.spec, **changes))  # type: ignore[arg-type]  # a test's own
        carry_out(made.driver, change, made.spec)
        return made


def job(name: str, gpus: int = 1, labels: dict[str, str] = QUEUED, **spec: Any) -> Object:
    asked = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    body = pod(name, asked)["spec"]
    body["containers"][0]["resources"]["requests"] = asked
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"template": {"spec": {**body, "restartPolicy": "Never"}}, **spec},
    }


Make = Callable[[], QueueRoom]


def new_room(portal: PortalSite) -> QueueRoom:
    spec, driver = make_spec(), portal.driver()
    provision(driver, spec)
    return QueueRoom(spec, driver, portal.api(), Api(kubeconfig(driver, spec)))


@pytest.fixture
def make(portal: PortalSite) -> Iterator[Make]:
    made: list[QueueRoom] = []

    def room() -> QueueRoom:
        made.append(new_room(portal))
        return made[-1]

    yield room
    for each in made:
        with suppress(GpuaasError):
            carry_out(each.driver, Change.DELETE, each.spec)


@pytest.fixture
def room(make: Make) -> QueueRoom:
    return make()
