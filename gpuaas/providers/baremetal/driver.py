"""OpenShift on bare metal: defined at a hub cluster (Hive, assisted service, Metal3), on hosts of the portal's inventory.

The hub's controllers install; this driver defines what, binds hosts by their GPUs, approves joining nodes and reads conditions.
"""

import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import Any

from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers import base
from gpuaas.providers.baremetal import conditions, manifests, plan
from gpuaas.providers.baremetal.approver import requests_decide
from gpuaas.providers.baremetal.artifacts import agent_config, install_config
from gpuaas.providers.baremetal.draining import Drain
from gpuaas.providers.baremetal.hosts import hosts_of
from gpuaas.providers.baremetal.hub import AGENT, SLOT, Hub, shown
from gpuaas.providers.baremetal.machines import (
    Rack,
    agent_of,
    agents_by_mac,
    hosts_give_back,
    rack_ensure,
)
from gpuaas.providers.baremetal.models import HELD, Host, HostState
from gpuaas.providers.baremetal.plan import (
    CONFIG_MAP,
    CONTROL,
    DEPLOYMENT,
    IMAGE_SET,
    INFRA_ENV,
    INSTALL,
    MACHINE,
    NETWORK,
)
from gpuaas.providers.baremetal.settings import Settings, settings_read
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP, all_ready
from gpuaas.providers.base.steps import DONE, objects_left, still_going
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import CLUSTER, RELEASE

SWEPT = (IMAGE_SET, DEPLOYMENT, INSTALL, INFRA_ENV, NETWORK, MACHINE, CONFIG_MAP)


class OpenShiftBareMetalDriver(base.ClusterDriver):
    name = "openshift-bare-metal"
    changes = frozenset({base.Change.CREATE, base.Change.SCALE, base.Change.DELETE})
    kinds = frozenset({base.ClusterKind.KUBERNETES})
    timeline = plan.BareMetalTimeline

    @classmethod
    def settings_check(cls, kind: base.ClusterKind, settings: Mapping[str, Any]) -> None:
        del kind
        settings_read(settings)

    def steps(
        self, change: base.Change, spec: base.ClusterSpec, before: base.ClusterSpec | None = None
    ) -> tuple[base.StepSpec, ...]:
        """Raises Invalid where the order or its template lacks what the hub needs."""
        if change is base.Change.CREATE:
            settings = settings_read(spec.settings)
            manifests.image_set(spec, settings)
            manifests.install(spec, settings)
            for name in spec.addons:
                manifests.addon(settings, name)
        return super().steps(change, spec, before)

    def perform(self, change: base.Change, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        with self._hub(spec.id) as hub:
            return End(hub, spec).do(step) if change is base.Change.DELETE else Work(hub, spec).do(step)

    def observe(self, ref: base.ClusterRef) -> base.ObservedCluster:
        with self._hub(ref.id) as hub:
            deployments = hub.items(DEPLOYMENT)
            endpoint = next((url for one in deployments if (url := _endpoint(one))), "")
            nodes = _nodes(hub, list(hosts_of(ref.id)))
            return base.ObservedCluster(exists=bool(_inventory(hub, ref.id)), endpoint=endpoint, nodes=nodes)

    def inventory(self, ref: base.ClusterRef | None = None) -> tuple[base.SiteObject, ...]:
        with self._hub(None if ref is None else ref.id) as hub:
            return _inventory(hub, None if ref is None else ref.id)

    @contextmanager
    def _hub(self, cluster_id: uuid.UUID | None) -> Iterator[Hub]:
        try:
            yield Hub(self.connection, cluster_id)
        except GpuaasError as error:
            error.detail.setdefault("evidence", [f"{self.connection.site_slug}: {error.message}"])
            raise


class Work:
    """The steps of making and scaling one cluster."""

    def __init__(self, hub: Hub, spec: base.ClusterSpec) -> None:
        self.hub, self.spec = hub, spec
        self.settings: Settings = settings_read(spec.settings)
        self.namespace = self.settings.namespace

    def do(self, step: str) -> base.StepOutcome:
        pools = {f"{POOL_STEP}{pool.name}": pool for pool in self.spec.pools}
        steps: dict[str, Callable[[], base.StepOutcome]] = {
            "definition": self._definition,
            "control-plane": self._control_plane,
            "artifacts": self._artifacts,
            "install": self._install,
            "checks": self._checks,
        }
        if step in pools:
            return self._pool(pools[step])
        if step.startswith(ADDON_STEP):
            return self._addon(step.removeprefix(ADDON_STEP))
        return base.step_require(steps, step)()

    def _addon(self, name: str) -> base.StepOutcome:
        if name not in self.spec.addons:
            raise Permanent(f"the cluster has no add-on {name!r}")
        body = manifests.addon(self.settings, name)
        made = self._apply(CONFIG_MAP, plan.addon_name(self.spec, name), body)
        return (
            base.StepOutcome(done=True, detail=f"{len(body['data'])} manifests")
            if made
            else still_going(f"add-on {name}")
        )

    def _definition(self) -> base.StepOutcome:
        spec, settings, name = self.spec, self.settings, self.spec.external_name
        tag = {CLUSTER: str(spec.id)}
        self._apply(IMAGE_SET, name, manifests.image_set(spec, settings))
        self._apply(DEPLOYMENT, name, manifests.deployment(spec, settings, tag))
        if not conditions.install_begun(self.hub.find(INSTALL, self.namespace, name)):
            self._apply(INSTALL, name, manifests.install(spec, settings))
        image = self._apply(INFRA_ENV, name, manifests.infra_env(settings, tag))
        if image is None:
            return still_going("definition")
        waits = conditions.image_words(image)
        if waits:
            return base.StepOutcome(done=False, detail=waits)
        return base.StepOutcome(
            done=True, detail=", ".join(f"{key}: {url}" for key, url in conditions.links(image).items())
        )

    def _control_plane(self) -> base.StepOutcome:
        slots = plan.control_slots(self.spec)
        rack = Rack(
            CONTROL, slots, self.settings.control_hosts, 0, manifests.MASTER, release=self.spec.release
        )
        return self._rack(rack)

    def _pool(self, pool: base.NodePool) -> base.StepOutcome:
        flavor = pool.flavor
        rack = Rack(
            pool.name,
            plan.slots(pool),
            flavor.resource_name,
            flavor.gpus,
            manifests.WORKER,
            release=pool.release,
        )
        return self._rack(rack)

    def _rack(self, rack: Rack) -> base.StepOutcome:
        install = self._founded()
        day_one = not conditions.install_done(install)
        drain = Drain(lambda: self._cluster(install), within=timedelta(minutes=self.settings.drain_minutes))
        outcome = rack_ensure(
            self.hub, self.spec, rack, namespace=self.namespace, day_one=day_one, drain=drain
        )
        if not outcome.done:
            self._approve(install)
        return outcome

    def _artifacts(self) -> base.StepOutcome:
        """For installing the same cluster without a hub; the hub itself does not use them."""
        image = self.hub.find(INFRA_ENV, self.namespace, self.spec.external_name)
        hosts = list(hosts_of(self.spec.id).filter(state=HostState.BOUND).order_by("slot"))
        data = {
            "install-config.yaml": install_config(self.spec, self.settings),
            "agent-config.yaml": agent_config(self.spec, hosts),
            **(conditions.links(image) if image else {}),
        }
        made = self._apply(CONFIG_MAP, plan.artifacts_name(self.spec), {"data": data})
        return (
            base.StepOutcome(done=True, detail=", ".join(data)) if made else still_going("set of artifacts")
        )

    def _install(self) -> base.StepOutcome:
        install = self._founded()
        if conditions.install_done(install):
            found = self.hub.find(DEPLOYMENT, self.namespace, self.spec.external_name)
            endpoint = _endpoint(found) if found else ""
            if endpoint:
                return base.StepOutcome(done=True, detail=f"{endpoint} answers")
            return base.StepOutcome(done=False, detail="the hub has not published the address of the API yet")
        words = conditions.install_words(install)
        self._approve(install)
        return base.StepOutcome(done=False, detail=words)

    def _checks(self) -> base.StepOutcome:
        hosts = list(hosts_of(self.spec.id))
        wanted = self.spec.control_plane.count + manifests.workers(self.spec)
        if len(hosts) < wanted:
            raise NotFound(f"{wanted - len(hosts)} machines are missing; they must be bound again")
        bad = [node for node in _nodes(self.hub, hosts) if not node.ready]
        if bad:
            return base.StepOutcome(done=False, detail=f"{bad[0].name}: {bad[0].reason}")
        return base.StepOutcome(done=True, detail=all_ready(len(hosts)))

    def _founded(self) -> Object:
        image = self.hub.find(INFRA_ENV, self.namespace, self.spec.external_name)
        install = self.hub.find(INSTALL, self.namespace, self.spec.external_name)
        if image is None or install is None:
            raise NotFound("the cluster's definition is not at the hub; it must be created again")
        return install

    def _approve(self, install: Object) -> None:
        """Approves joining nodes while hosts are expected; a cluster that does not answer yet has no requests."""
        api = self._cluster(install)
        if api is None:
            return
        with closing(api), suppress(Unavailable, Unauthorized):
            requests_decide(api, cluster_id=self.spec.id)

    def _cluster(self, install: Object) -> Api | None:
        """With full rights in the cluster, for one call only; None until the hub has its kubeconfig."""
        metadata = install["spec"].get("clusterMetadata") or {}
        name = (metadata.get("adminKubeconfigSecretRef") or {}).get("name")
        if not name:
            return None
        secret = self.hub.api.find(f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        kubeconfig = ((secret or {}).get("data") or {}).get("kubeconfig")
        return Api(b64decode(kubeconfig).decode()) if kubeconfig else None

    def _apply(self, kind: str, name: str, body: Object) -> Object | None:
        return self.hub.apply(kind, self.namespace, name, body, **{RELEASE: self.spec.release})


class End:
    """The steps of deleting one cluster. Of the settings it reads only the namespace: the others may no longer be valid."""

    def __init__(self, hub: Hub, spec: base.ClusterSpec) -> None:
        self.hub, self.spec = hub, spec
        self.namespace = str(spec.settings.get("namespace", ""))

    def do(self, step: str) -> base.StepOutcome:
        hosts = hosts_of(self.spec.id)
        match step:
            case "definition":
                return self._removed(INSTALL, DEPLOYMENT, IMAGE_SET)
            case "workers":
                return self._wiped(list(hosts.exclude(pool=CONTROL)))
            case "control-plane":
                return self._wiped(list(hosts.filter(pool=CONTROL)))
            case "artifacts":
                if hosts.exists():
                    return base.StepOutcome(done=False, detail="hosts are still being wiped")
                return self._removed(MACHINE, AGENT, INFRA_ENV, NETWORK, CONFIG_MAP)
            case "gone":
                return self._left()
        raise Permanent(f"the driver has no step {step!r}")

    def _wiped(self, hosts: list[Host]) -> base.StepOutcome:
        going = hosts_give_back(self.hub, self.spec, hosts, namespace=self.namespace)
        if going:
            return base.StepOutcome(done=False, detail=f"{len(going)} hosts are being wiped; {going[0]}")
        return DONE

    def _removed(self, *kinds: str) -> base.StepOutcome:
        for kind in kinds:
            for found in self.hub.items(kind):
                self.hub.remove(found)
        left = [one for kind in kinds for one in self.hub.items(kind)]
        return objects_left(tuple(map(shown, left)))

    def _left(self) -> base.StepOutcome:
        agents = tuple(map(shown, self.hub.items(AGENT)))
        return objects_left((*_inventory(self.hub, self.spec.id), *agents))


def _endpoint(deployment: Object) -> str:
    return str((deployment.get("status") or {}).get("apiURL") or "")


def _inventory(hub: Hub, cluster_id: uuid.UUID | None) -> tuple[base.SiteObject, ...]:
    made = tuple(shown(found) for kind in SWEPT for found in hub.items(kind))
    rows = Host.objects.filter(site_id=hub.connection.site_id, state__in=HELD)
    if cluster_id is not None:
        rows = rows.filter(cluster_id=cluster_id)
    hosts = (plan.host_object(row.cluster_id, row.slot, row.pk) for row in rows if row.cluster_id)
    return (*made, *hosts)


def _nodes(hub: Hub, hosts: list[Host]) -> tuple[base.ClusterNode, ...]:
    agents = agents_by_mac(hub)
    labels = [one["metadata"]["labels"] for one in hub.items(MACHINE)]
    releases = {one.get(SLOT, ""): one.get(RELEASE, "") for one in labels}
    return tuple(_node(host, agent_of(agents, host), releases.get(host.slot, "")) for host in hosts)


def _node(host: Host, agent: Object | None, release: str) -> base.ClusterNode:
    reason = host.reason or ("it is being wiped" if host.state == HostState.WIPING else "")
    reason = reason or conditions.agent_words(agent, day_one=False)
    pool = "" if host.pool == CONTROL else host.pool
    return base.ClusterNode(host.name, pool, release, ready=not reason, reason=reason)
