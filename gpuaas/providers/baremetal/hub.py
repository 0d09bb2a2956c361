"""The hub cluster: the kinds of objects that make up a bare-metal cluster there, found by our tag and untouched without it."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.core.ids import uuid_read
from gpuaas.providers.baremetal import plan
from gpuaas.providers.base import Connection, SiteObject
from gpuaas.providers.base.steps import object_not_ours
from gpuaas.providers.kubeapi.client import Api, Object, shared
from gpuaas.providers.kubeapi.names import CLUSTER, DOMAIN, MANAGED_BY, MANAGER

# labels of everything we create, and (by the boot image) of the Agents of the machines that boot from it
POOL = f"{DOMAIN}/cluster-pool"
SLOT = f"{DOMAIN}/cluster-slot"
AGENT = "Agent"


@dataclass(frozen=True)
class Kind:
    prefix: str
    plural: str
    namespaced: bool = True

    @property
    def everywhere(self) -> str:
        return f"{self.prefix}/{self.plural}"

    def within(self, namespace: str) -> str:
        return f"{self.prefix}/namespaces/{namespace}/{self.plural}" if self.namespaced else self.everywhere

    @property
    def version(self) -> str:
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


_AGENT_INSTALL = "/apis/agent-install.openshift.io/v1beta1"
KINDS = {
    plan.IMAGE_SET: Kind("/apis/hive.openshift.io/v1", "clusterimagesets", namespaced=False),
    plan.DEPLOYMENT: Kind("/apis/hive.openshift.io/v1", "clusterdeployments"),
    plan.INSTALL: Kind("/apis/extensions.hive.openshift.io/v1beta1", "agentclusterinstalls"),
    plan.INFRA_ENV: Kind(_AGENT_INSTALL, "infraenvs"),
    plan.NETWORK: Kind(_AGENT_INSTALL, "nmstateconfigs"),
    plan.MACHINE: Kind("/apis/metal3.io/v1alpha1", "baremetalhosts"),
    plan.CONFIG_MAP: Kind("/api/v1", "configmaps"),
    AGENT: Kind(_AGENT_INSTALL, "agents"),
}


class Hub:
    """One cluster's objects at the hub; with `cluster_id` None those of all clusters."""

    def __init__(self, connection: Connection, cluster_id: uuid.UUID | None) -> None:
        self.connection = connection
        self.cluster_id = cluster_id

    @property
    def api(self) -> Api:
        return shared(str(self.connection.credentials["kubeconfig"]))

    def items(self, kind: str) -> list[Object]:
        """All with the tag, in any namespace."""
        selector = CLUSTER if self.cluster_id is None else f"{CLUSTER}={self.cluster_id}"
        found = self.api.items_if_known(KINDS[kind].everywhere, labelSelector=selector)
        return [{**one, "kind": kind} for one in found]

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """Ours, or None. Raises Permanent for an object that is not ours."""
        found = self.api.find(f"{KINDS[kind].within(namespace)}/{name}")
        if found is not None:
            self._ours_check(kind, found)
        return found

    def apply(
        self, kind: str, namespace: str, name: str, body: Mapping[str, Any], **labels: str
    ) -> Object | None:
        """None while an object of this name is still being deleted. `body`: the object's fields; its metadata is merged."""
        found = self.find(kind, namespace, name)
        if found is not None and "deletionTimestamp" in found["metadata"]:
            return None
        metadata: Object = {
            "name": name,
            **body.get("metadata", {}),
            "labels": {
                **body.get("metadata", {}).get("labels", {}),
                MANAGED_BY: MANAGER,
                CLUSTER: str(self.cluster_id),
                **labels,
            },
        }
        if KINDS[kind].namespaced:
            metadata["namespace"] = namespace
        made = {**body, "apiVersion": KINDS[kind].version, "kind": kind, "metadata": metadata}
        return self.api.apply(KINDS[kind].within(namespace), made)

    def remove(self, found: Object) -> None:
        self.api.delete(path_of(found))

    def _ours_check(self, kind: str, found: Object) -> None:
        tag = (found["metadata"].get("labels") or {}).get(CLUSTER, "")
        if tag == str(self.cluster_id):
            return
        raise object_not_ours(kind, found["metadata"]["name"], tag)


def path_of(found: Object) -> str:
    metadata = found["metadata"]
    return f"{KINDS[found['kind']].within(metadata.get('namespace', ''))}/{metadata['name']}"


def shown(found: Object) -> SiteObject:
    metadata = found["metadata"]
    return SiteObject(
        found["kind"], metadata["name"], metadata["uid"], uuid_read(metadata["labels"][CLUSTER])
    )
