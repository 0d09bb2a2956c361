"""What the suite needs of a site beside its driver: specs that fit, and somebody who breaks things there."""

import uuid
from abc import ABC, abstractmethod
from dataclasses import replace

import yaml

from gpuaas.core.ids import short
from gpuaas.providers.base import (
    Access,
    Change,
    ClusterDriver,
    ClusterKind,
    ClusterSpec,
    Connection,
    ControlPlane,
    FlavorAmount,
    Member,
    NodePool,
    StepOutcome,
)
from gpuaas.providers.sandbox.clusters.demand import demand_set
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from gpuaas.providers.sandbox.clusters.entrance import token_subject
from gpuaas.providers.sandbox.clusters.objects import foreign_object, machine_break
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxClusterObject, SandboxPod
from tests.lab.fixtures import until

ALICE = Member("u-a11ce", "alice", "admin")
BOB = Member("u-b0b", "bob", "admin")


class ClusterRig(ABC):
    """`old` and `new` are two releases that follow each other. names_everything=False: controllers of the site name some of what
    they make; a sweep finds it, and the plan has at least what the driver itself makes. upgrades=False: the driver leaves upgrades
    to the cluster. is_told=True: the heads of clusters report signals to the portal, the site has none."""

    old: str
    new: str
    names_everything = True
    upgrades = True
    is_told = False

    def __init__(self, driver: ClusterDriver) -> None:
        self.driver = driver

    def close(self) -> None:  # noqa: B027 - most rigs have nothing to take away
        """What is left of it at a site that others use too is taken away."""

    @abstractmethod
    def spec(self, *, workers: int = 2) -> ClusterSpec:
        """Of a cluster that is nowhere yet: pools `gpu` and `other` (one worker), one add-on."""

    def ready(self) -> ClusterSpec:
        """A whole cluster as `spec` says."""
        spec = self.spec()
        carry_out(self.driver, Change.CREATE, spec)
        return spec

    def made_by_us(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        """(kind, name) of what the driver itself has made, and not the site's controllers, asked of the site."""
        return {(one.kind, one.name) for one in self.driver.inventory(spec.ref)}

    @abstractmethod
    def unreachable(self) -> ClusterDriver:
        """A driver whose site does not answer."""

    @abstractmethod
    def answer_lost(self, change: Change, step: str) -> None:
        """The next call of the step does its work, and nobody hears of it."""

    @abstractmethod
    def node_break(self, name: str) -> None: ...

    @abstractmethod
    def foreign(self, spec: ClusterSpec) -> None:
        """Somebody else has something under a name that the cluster's first step wants."""

    @abstractmethod
    def too_many(self) -> int:
        """More workers than the site has hosts for; 0 where it has any number."""

    @abstractmethod
    def gpus_held(self, spec: ClusterSpec) -> int:
        """Devices that are taken at the site for the cluster, asked of the site."""

    @abstractmethod
    def who(self, spec: ClusterSpec, access: Access) -> str:
        """Whom the cluster sees behind a credential; raises Unauthorized."""

    def owners(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        """(project, organization) that objects of the cluster say at the site; nothing where only its id is on them."""
        del spec
        return set()

    def elsewhere(self) -> ClusterDriver:
        """At another site, where clusters of this one may have pools. Of drivers that can burst."""
        raise NotImplementedError

    def one_net(self, home: ClusterSpec, there: ClusterDriver, far: ClusterSpec) -> None:  # noqa: B027 - most sites show none
        """Asserts, of the sites, what lets the cluster's machines here and there reach each other, and nobody else."""

    def demand(self, spec: ClusterSpec, pool: str, gpus: int) -> None:
        """So many GPUs are asked for in the pool, one by each pod or job. Of drivers that tell signals."""
        raise NotImplementedError


class SandboxClusterRig(ClusterRig):
    old, new = "1.35.6", "1.36.3"

    def __init__(self) -> None:
        self.connection = Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={})
        fleet_seed(self.connection.site_id, slug="ber-1")
        dials_set(self.connection.site_id, machine_ms=30, grace_ms=20, namespace_ms=20)
        super().__init__(SandboxClusterDriver(self.connection))

    def spec(self, *, workers: int = 2) -> ClusterSpec:
        made = uuid.uuid4()
        return ClusterSpec(
            id=made,
            external_name=f"c-{short(made)}-train",
            project_slug="weather-lm",
            organization_slug="climate",
            kind=ClusterKind.KUBERNETES,
            release=self.old,
            control_plane=ControlPlane(1, 4, 8, 40),
            pools=(self._pool("gpu", workers), self._pool("other", 1)),
            addons=("gpu-operator",),
        )

    def _pool(self, name: str, count: int) -> NodePool:
        amount = FlavorAmount("h100.2", count, 2, 8, 64, 100, "nvidia.com/gpu", _H100)
        return NodePool(name, amount, self.old)

    def unreachable(self) -> ClusterDriver:
        dials_set(self.connection.site_id, down=True)
        return self.driver

    def answer_lost(self, change: Change, step: str) -> None:
        failure_plan(self.connection.site_id, verb=f"cluster:{change}:{step}", error="lost")

    def node_break(self, name: str) -> None:
        machine_break(self.connection.site_id, name, "its kernel has panicked")

    def foreign(self, spec: ClusterSpec) -> None:
        foreign_object(self.connection.site_id, "network", spec.external_name)

    def too_many(self) -> int:
        return 9  # of 2 GPUs each, where 16 are

    def gpus_held(self, spec: ClusterSpec) -> int:
        owner = f"Cluster/{spec.external_name}"
        rows = SandboxPod.objects.filter(site=self.connection.site_id, owner=owner, finished_at=None)
        return sum(rows.exclude(scheduled_at=None).values_list("gpus", flat=True))

    def who(self, spec: ClusterSpec, access: Access) -> str:
        return token_subject(spec.ref, yaml.safe_load(access.document)["users"][0]["user"]["token"])

    def owners(self, spec: ClusterSpec) -> set[tuple[str, str]]:
        rows = SandboxClusterObject.objects.filter(tag=spec.id).values_list("facts", flat=True)
        return {(facts["project"], facts["organization"]) for facts in rows}

    def elsewhere(self) -> ClusterDriver:
        there = Connection(site_id=uuid.uuid4(), site_slug="cloud-1", endpoint="", credentials={})
        fleet_seed(there.site_id, slug="cloud-1")
        dials_set(there.site_id, machine_ms=30, grace_ms=20, namespace_ms=20)
        return SandboxClusterDriver(there)

    def demand(self, spec: ClusterSpec, pool: str, gpus: int) -> None:
        demand_set(self.connection.site_id, spec.id, pool, gpus=gpus)


_H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def step_do(driver: ClusterDriver, change: Change, spec: ClusterSpec, key: str) -> StepOutcome:
    return driver.perform(change, spec, key)


def step_finish(driver: ClusterDriver, change: Change, spec: ClusterSpec, key: str) -> None:
    until(lambda: step_do(driver, change, spec, key).done, f"{change} {key}")


def carry_out(
    driver: ClusterDriver, change: Change, spec: ClusterSpec, before: ClusterSpec | None = None
) -> None:
    for step in driver.steps(change, spec, before):
        step_finish(driver, change, spec, step.key)


def counts(spec: ClusterSpec, **workers: int) -> ClusterSpec:
    """The same cluster with other numbers of workers."""
    pools = [
        replace(pool, flavor=replace(pool.flavor, count=workers.get(pool.name, pool.flavor.count)))
        for pool in spec.pools
    ]
    return replace(spec, pools=tuple(pools))


def released(spec: ClusterSpec, release: str, *pools: str) -> ClusterSpec:
    """The same cluster with its control plane, and these pools, at another release."""
    moved = [replace(pool, release=release) if pool.name in pools else pool for pool in spec.pools]
    return replace(spec, release=release, pools=tuple(moved))
