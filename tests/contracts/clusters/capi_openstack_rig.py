"""Cluster API's real controllers with OpenStack's provider, the class that the portal ships, and a real cloud: only guests are played,
by the lab (deploy/lab/cluster_api/guests.py)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from gpuaas.core import clock
from gpuaas.core.errors import NoCapacity
from gpuaas.providers.base import Change, ClusterSpec, NodePool, StepOutcome
from gpuaas.providers.kubeapi.client import Object
from tests.contracts.clusters.clusterapi_rig import ADDON, CarelessDriver, ClusterApiRig
from tests.contracts.clusters.rigs import step_finish
from tests.lab.cluster_api.tenancy import Tenancy
from tests.lab.fixtures import LabSite

ALIASES = {"gpu": "h100", "other": "a100"}


def settings_of(tenancy: Tenancy) -> dict[str, Any]:
    return {
        "class": "gpu-openstack",
        "class_namespace": "cluster-classes",
        "worker_class": "worker",
        "flavor_variable": "flavor",
        "flavors": {alias: tenancy.flavors[alias] for alias in ALIASES.values()},
        "variables": tenancy.variables(),
        "addons": {"gpu-operator": {"manifests": ADDON}},
    }


class PatientDriver(CarelessDriver):
    """Of machines that are built at once Nova's scheduler loses some to each other, although there is room: tried
    again, as whoever has ordered
    would."""

    def _make(self, change: Change, spec: ClusterSpec, step: str) -> StepOutcome:
        try:
            return super()._make(change, spec, step)
        except NoCapacity as error:
            if "InstanceStateError" not in str(error.detail["evidence"]):
                raise
            return StepOutcome(done=False, detail=error.message)


class ClusterApiOpenStackRig(ClusterApiRig):
    made: ClassVar[list[ClusterSpec]] = []
    driver_class = PatientDriver

    def __init__(self, kubeconfig: str, real: LabSite, tenancy: Tenancy) -> None:
        super().__init__(kubeconfig, real)
        self.tenancy = tenancy

    def close(self) -> None:
        """The cloud has GPUs for two at once: one is kept for the next test."""
        there = [spec for spec in self.made if self.driver.observe(spec.ref).exists]
        for spec in there[1:]:
            step_finish(self.driver, Change.DELETE, spec, "workers")
        self.made[:] = there[:1]

    def settings(self) -> dict[str, Any]:
        return settings_of(self.tenancy)

    def _pool(self, name: str, count: int) -> NodePool:
        pool = super()._pool(name, count)
        return replace(pool, flavor=replace(pool.flavor, slug=ALIASES[name]))

    def broken_since(self, machine: Object) -> str:
        """The class's own health check replaces what has been broken for five minutes; the last of them is waited for."""
        return (clock.now() - timedelta(minutes=4)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def too_many(self) -> int:
        return 5  # of 2 GPUs each, where the project may have 8

    def gpus_held(self, spec: ClusterSpec) -> int:
        return self.tenancy.gpus(spec.external_name)
