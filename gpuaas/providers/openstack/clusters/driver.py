"""Clusters on demand at an OpenStack site: the contract's verbs, each handed to the module that does it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError, Invalid, NotFound, Permanent
from gpuaas.providers.base import (
    Access,
    AccessKind,
    ClusterAccessCapability,
    ClusterBurstCapability,
    ClusterChange,
    ClusterDriver,
    ClusterKind,
    ClusterPlan,
    ClusterRef,
    ClusterSpec,
    ClusterSuspendCapability,
    Join,
    Member,
    ObservedCluster,
    SiteObject,
    StepOutcome,
    WorkspaceRef,
)
from gpuaas.providers.base.difference import POOL_STEP
from gpuaas.providers.openstack import names, projects, release, servers
from gpuaas.providers.openstack.client import Cloud, shared
from gpuaas.providers.openstack.clusters import settings, sweep
from gpuaas.providers.openstack.clusters.health import KIND, astray, node_of, pool_of
from gpuaas.providers.openstack.clusters.keys import AGENTS, SERVER_CA, Keys
from gpuaas.providers.openstack.clusters.nodes import Nodes, wanted_heads, wanted_workers
from gpuaas.providers.openstack.clusters.place import Place
from gpuaas.providers.openstack.clusters.plan import plan

DONE = StepOutcome(done=True)


class OpenStackClusterDriver(
    ClusterDriver, ClusterAccessCapability, ClusterSuspendCapability, ClusterBurstCapability
):
    """At a site of the driver openstack, with its credentials and options. A template's settings: `image` (name of the image that all
    machines boot from), `boot_minutes` (after which a machine that is not ready has failed; 30), `packages` (more of the image's
    distribution), and for Kubernetes `k3s_url` (where k3s' releases are found; GitHub) and `manifests` (add-on to YAML).
    """

    name = "openstack"
    kinds = frozenset(ClusterKind)

    @classmethod
    def settings_check(cls, kind: ClusterKind, settings_given: Mapping[str, Any]) -> None:
        settings.settings_check(kind, settings_given)

    @classmethod
    def burst_check(cls, kind: ClusterKind, settings_given: Mapping[str, Any]) -> None:
        del settings_given
        if kind is ClusterKind.SLURM:
            raise Invalid.field(
                "burst",
                "Slurm's workers share /home and the controller's network with the head, so they cannot be at other sites",
            )

    @cached_property
    def _cloud(self) -> Cloud:
        return shared(self.connection.credentials)

    @property
    def _domain(self) -> str:
        return str(self.connection.options.get("domain") or projects.DOMAIN)

    def _place(self, ref: ClusterRef) -> Place:
        external = str(self.connection.options.get("external_network") or "")
        at = self.connection
        return Place(self._cloud, ref, self._domain, external, at.site_id, at.site_slug)

    def plan(
        self, change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None = None
    ) -> ClusterPlan:
        return plan(change, spec, before)

    def ensure(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._make(spec, step)

    def scale(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._make(spec, step)

    def upgrade(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._make(spec, step)

    def suspend(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._make(spec, step)

    def resume(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._make(spec, step)

    def delete(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """The end of a project is the workspaces' own; its address goes first, and with it everybody's way in."""
        with self._told(f"delete {step}"):
            if step == "access":
                project = projects.marked_project(
                    self._cloud, spec.external_name, spec.id, domain=self._domain, tag=names.CLUSTER_TAG
                )
                if project is not None:
                    self._place(spec.ref).shut()
            ref = WorkspaceRef(spec.id, spec.external_name)
            believed = timedelta(seconds=int(self.connection.options.get("token_cache_seconds") or 0))
            way = release.Release(self._cloud, ref, self._domain, believed, names.CLUSTER_TAG)
            return way.run(step)

    def observe(self, ref: ClusterRef) -> ObservedCluster:
        with self._told("observe"):
            project = projects.marked_project(
                self._cloud, ref.external_name, ref.id, domain=self._domain, tag=names.CLUSTER_TAG
            )
            if project is None:
                return ObservedCluster(exists=False)
            rows = servers.of_project(self._cloud, project["id"])
            place = self._place(ref)
            lost = astray(rows, place)
            nodes = [node_of(row, ref.boots, lost) for row in rows]
            heads = [row for row in rows if not pool_of(row)]
            answers = any(node.ready for node in nodes if not node.pool)
            kind = next((str(row["metadata"].get(KIND)) for row in heads), "")
            return ObservedCluster(
                exists=True,
                endpoint=self._endpoint(place, kind) if answers else "",
                nodes=tuple(sorted(nodes, key=lambda node: (node.pool, node.name))),
            )

    def inventory(self, ref: ClusterRef | None = None) -> tuple[SiteObject, ...]:
        with self._told("inventory"):
            return (
                sweep.of_cluster(self._cloud, ref, self._domain)
                if ref
                else sweep.of_all(self._cloud, self._domain)
            )

    def access(self, spec: ClusterSpec, member: Member, *, lifetime: timedelta) -> Access:
        with self._told("access"):
            seen = self.observe(spec.ref)
        if not seen.endpoint:
            raise NotFound("nothing answers at the cluster's address yet")
        now, keys = clock.now().replace(microsecond=0), Keys(spec.boots)
        until = now + lifetime
        if spec.kind is ClusterKind.SLURM:
            host = seen.endpoint.removeprefix("ssh://")
            return Access(keys.ssh_script(spec.ref, host, member, now, until), until, AccessKind.SSH)
        document = keys.kubeconfig(spec.ref, seen.endpoint, member, now, until)
        return Access(document, until, AccessKind.KUBECONFIG)

    def join(self, spec: ClusterSpec) -> Join:
        """The secret of agents, by which nobody becomes a server."""
        if not spec.spans:
            raise Permanent(
                "the machines of this cluster are made for one site: order another, whose template names burst sites"
            )
        with self._told("join"):
            seen = self.observe(spec.ref)
        if not seen.endpoint:
            raise NotFound("nothing answers at the cluster's address yet")
        keys = Keys(spec.boots)
        return Join(seen.endpoint, keys.word(AGENTS), keys.authority(SERVER_CA)[0])

    # -- within ------------------------------------------------------------------------------------------------------

    def _endpoint(self, place: Place, kind: str) -> str:
        """Only where the address leads to a machine."""
        found = place.addresses.found()
        if found is None or not found["port_id"]:
            return ""
        host = found["floating_ip_address"]
        return f"ssh://{host}" if kind == ClusterKind.SLURM else f"https://{host}:6443"

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """A refusal says what the site was asked."""
        try:
            yield
        except GpuaasError as error:
            error.detail.setdefault("evidence", [f"{self.connection.site_slug} {what}: {error.message}"])
            raise

    def _make(self, spec: ClusterSpec, step: str) -> StepOutcome:
        place = self._place(spec.ref)
        nodes = Nodes(self._cloud, spec, place)
        steps: dict[str, Callable[[], StepOutcome]] = {
            "project": lambda: place.make(spec),
            "network": lambda: place.connect(spec),
            "endpoint": place.reserve,
            "control-plane": lambda: self._heads(place, nodes),
            "api": lambda: self._api(nodes),
            "checks": lambda: self._checks(nodes),
        }
        for pool in spec.pools:
            steps[f"{POOL_STEP}{pool.name}"] = partial(nodes.bring, pool.name, wanted_workers(spec, pool))
        if step not in steps:
            raise Permanent(f"the driver has no step {step!r}")
        with self._told(step):
            return steps[step]()

    def _heads(self, place: Place, nodes: Nodes) -> StepOutcome:
        """The address leads to the first as soon as Nova has it, for others join it there."""
        outcome = nodes.bring("", wanted_heads(nodes.spec))
        head = nodes.head()
        if head is not None and head["status"] == "ACTIVE":
            place.addresses.lead_to(place.address(), head)
        return outcome

    def _api(self, nodes: Nodes) -> StepOutcome:
        nodes.place.require()
        if nodes.head() is None:
            raise NotFound("the head is not at the site; it has to be made again")
        seen = self.observe(nodes.spec.ref)
        if not seen.endpoint:
            return StepOutcome(done=False, detail="it does not answer yet")
        return StepOutcome(done=True, detail=f"{seen.endpoint} answers")

    def _checks(self, nodes: Nodes) -> StepOutcome:
        waiting = list(nodes.waiting())
        if any(words.endswith("it is missing") for words in waiting):
            raise NotFound(f"{waiting[0]}; it has to be made again")
        if waiting:
            return StepOutcome(done=False, detail=waiting[0])
        return StepOutcome(done=True, detail="every machine is ready")
