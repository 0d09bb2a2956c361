"""Clusters on demand at an OpenStack site: the contract's verbs, each handed to the module that does it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from gpuaas.core import clock
from gpuaas.core.errors import Invalid, NotFound, Permanent
from gpuaas.providers import base
from gpuaas.providers.base.difference import POOL_STEP
from gpuaas.providers.base.evidence import evident
from gpuaas.providers.openstack import names, projects, release, servers
from gpuaas.providers.openstack.classes import OPTION, Classes
from gpuaas.providers.openstack.client import Cloud, shared
from gpuaas.providers.openstack.clusters import plan, settings, sweep
from gpuaas.providers.openstack.clusters.health import KIND, astray, node_of, pool_of
from gpuaas.providers.openstack.clusters.keys import AGENTS, SERVER_CA, Keys
from gpuaas.providers.openstack.clusters.nodes import Nodes, wanted_heads, wanted_workers
from gpuaas.providers.openstack.clusters.place import Place

OTHERS = re.compile(r"CUSTOM_PCI_(?!10DE_)[0-9A-F]{4}_")  # cards by PCI id whose vendor is not NVIDIA


class OpenStackClusterDriver(
    base.ClusterDriver,
    base.ClusterAccessCapability,
    base.ClusterBurstCapability,
    base.ClusterSignalsCapability,
):
    """At a site of the driver openstack, with its credentials and options. A template's settings: `image` (name of the image that all
    machines boot from), `boot_minutes` (after which a machine that is not ready has failed; 30), `packages` (additional ones of the
    image's distribution), and for Kubernetes `k3s_url` (of k3s' releases; GitHub) and `manifests` (add-on to YAML), for
    Slurm `jobs_of_removed` (`cancel` or `finish` the running jobs of a member who was removed; cancel).
    """

    name = "openstack"
    kinds = frozenset(base.ClusterKind)
    timeline = plan.OpenStackTimeline

    @classmethod
    def settings_check(cls, kind: base.ClusterKind, settings_given: Mapping[str, Any]) -> None:
        settings.settings_check(kind, settings_given)

    @classmethod
    def flavors_check(cls, flavors: Iterable[base.FlavorAmount]) -> None:
        """Machines look for NVIDIA's cards and their driver."""
        for flavor in flavors:
            if flavor.gpus and OTHERS.match(flavor.resource_name):
                raise Invalid.field(
                    "pools",
                    f"the GPUs of the flavor {flavor.slug} ({flavor.resource_name}) are not NVIDIA's: the machines of these clusters "
                    "cannot use them",
                )

    @cached_property
    def _cloud(self) -> Cloud:
        return shared(self.connection.credentials)

    @property
    def _domain(self) -> str:
        return str(self.connection.options.get("domain") or projects.DOMAIN)

    def _place(self, ref: base.ClusterRef) -> Place:
        external = str(self.connection.options.get("external_network") or "")
        at = self.connection
        known = Classes(at.options.get(OPTION) or {})
        return Place(self._cloud, ref, self._domain, external, at.site_id, at.site_slug, known)

    def perform(self, change: base.Change, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        return self._delete(spec, step) if change is base.Change.DELETE else self._make(spec, step)

    def _delete(self, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        """Deletes the project as for workspaces, after its addresses, which ends everybody's access."""
        with evident(self.connection.site_slug, f"delete {step}"):
            if step == "access":
                project = projects.marked_project(
                    self._cloud, spec.external_name, spec.id, domain=self._domain, tag=names.CLUSTER_TAG
                )
                if project is not None:
                    self._place(spec.ref).shut()
            ref = base.WorkspaceRef(spec.id, spec.external_name)
            believed = timedelta(seconds=int(self.connection.options.get("token_cache_seconds") or 0))
            way = release.Release(self._cloud, ref, self._domain, believed, names.CLUSTER_TAG)
            return way.run(step)

    def observe(self, ref: base.ClusterRef) -> base.ObservedCluster:
        with evident(self.connection.site_slug, "observe"):
            project = projects.marked_project(
                self._cloud, ref.external_name, ref.id, domain=self._domain, tag=names.CLUSTER_TAG
            )
            if project is None:
                return base.ObservedCluster(exists=False)
            rows = servers.of_project(self._cloud, project["id"])
            place = self._place(ref)
            lost = astray(rows, place)
            nodes = [node_of(row, ref.boots, lost) for row in rows]
            heads = [row for row in rows if not pool_of(row)]
            answers = any(node.ready for node in nodes if not node.pool)
            kind = next((str(row["metadata"].get(KIND)) for row in heads), "")
            return base.ObservedCluster(
                exists=True,
                endpoint=self._endpoint(place, kind) if answers else "",
                nodes=tuple(sorted(nodes, key=lambda node: (node.pool, node.name))),
            )

    def inventory(self, ref: base.ClusterRef | None = None) -> tuple[base.SiteObject, ...]:
        with evident(self.connection.site_slug, "inventory"):
            return (
                sweep.of_cluster(self._cloud, ref, self._domain)
                if ref
                else sweep.of_all(self._cloud, self._domain)
            )

    def access(self, spec: base.ClusterSpec, member: base.Member, *, lifetime: timedelta) -> base.Access:
        with evident(self.connection.site_slug, "access"):
            seen = self.observe(spec.ref)
        if not seen.endpoint:
            raise NotFound("the cluster's API does not answer yet")
        now, keys = clock.now().replace(microsecond=0), Keys(spec.boots)
        until = now + lifetime
        if spec.kind is base.ClusterKind.SLURM:
            host = seen.endpoint.removeprefix("ssh://")
            return base.Access(
                keys.ssh_script(spec.ref, host, member, now, until), until, base.AccessKind.SSH
            )
        document = keys.kubeconfig(spec.ref, seen.endpoint, member, now, until)
        return base.Access(document, until, base.AccessKind.KUBECONFIG)

    def join(self, spec: base.ClusterSpec) -> base.Join:
        """With the agents' token, which does not admit servers."""
        if not spec.spans:
            raise Permanent(
                "this cluster's machines are set up for one site only: order a new cluster from a template with burst sites"
            )
        with evident(self.connection.site_slug, "join"):
            seen = self.observe(spec.ref)
        if not seen.endpoint:
            raise NotFound("the cluster's API does not answer yet")
        keys = Keys(spec.boots)
        return base.Join(seen.endpoint, keys.word(AGENTS), keys.authority(SERVER_CA)[0])

    def signals(self, spec: base.ClusterSpec) -> tuple[base.PoolSignals, ...]:
        """The head's last report, which it sends twice a minute: the portal needs no access to the cluster's network."""
        queue = spec.queue
        if queue is None:
            return ()
        if not queue.is_timely(clock.now()):
            raise NotFound(f"the head has not reported its queue since {queue.at:%H:%M} UTC")
        reported = {one.pool: one for one in queue.pools}
        return tuple(
            _seen(reported.get(pool.name) or base.PoolSignals(pool.name, 0, 0, 0), pool.flavor.count)
            for pool in spec.pools
        )

    # -- within ------------------------------------------------------------------------------------------------------

    def _endpoint(self, place: Place, kind: str) -> str:
        """ "" unless the address leads to a machine."""
        found = place.addresses.found()
        if found is None or not found["port_id"]:
            return ""
        host = found["floating_ip_address"]
        return f"ssh://{host}" if kind == base.ClusterKind.SLURM else f"https://{host}:6443"

    def _make(self, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        place = self._place(spec.ref)
        nodes = Nodes(self._cloud, spec, place)
        steps: dict[str, Callable[[], base.StepOutcome]] = {
            "project": lambda: place.make(spec),
            "network": lambda: place.connect(spec),
            "endpoint": place.reserve,
            "control-plane": lambda: self._heads(place, nodes),
            "api": lambda: self._api(nodes),
            "checks": lambda: self._checks(nodes),
        }
        for pool in spec.pools:
            steps[f"{POOL_STEP}{pool.name}"] = partial(nodes.bring, pool.name, wanted_workers(spec, pool))
        do = base.step_require(steps, step)
        with evident(self.connection.site_slug, step):
            return do()

    def _heads(self, place: Place, nodes: Nodes) -> base.StepOutcome:
        """The address points to the first head as soon as it is ACTIVE, since others join it there."""
        outcome = nodes.bring("", wanted_heads(nodes.spec))
        head = nodes.head()
        if head is not None and head["status"] == "ACTIVE":
            place.addresses.lead_to(place.address(), head)
        return outcome

    def _api(self, nodes: Nodes) -> base.StepOutcome:
        nodes.place.require()
        if nodes.head() is None:
            raise NotFound("the head is not at the site; it must be created again")
        seen = self.observe(nodes.spec.ref)
        if not seen.endpoint:
            return base.StepOutcome(done=False, detail="the API does not answer yet")
        return base.StepOutcome(done=True, detail=f"{seen.endpoint} answers")

    def _checks(self, nodes: Nodes) -> base.StepOutcome:
        waiting = list(nodes.waiting())
        if any(words.endswith("it is missing") for words in waiting):
            raise NotFound(f"{waiting[0]}; it must be created again")
        if waiting:
            return base.StepOutcome(done=False, detail=waiting[0])
        return base.StepOutcome(done=True, detail="every machine is ready")


def _seen(reported: base.PoolSignals, count: int) -> base.PoolSignals:
    """The head of an earlier release does not tell which workers are busy: while any is, none may go."""
    if reported.least is None and reported.used_gpus:
        return replace(reported, least=count)
    return reported
