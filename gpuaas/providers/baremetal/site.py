"""A hub as a site of the portal: its capacity is the hosts of the portal's inventory, for clusters only."""

from collections.abc import Mapping
from typing import Any

from gpuaas.core.errors import Permanent
from gpuaas.providers import base
from gpuaas.providers.baremetal.facts import kind_of
from gpuaas.providers.baremetal.hub import Hub, shown
from gpuaas.providers.baremetal.models import HELD, Host, HostState
from gpuaas.providers.baremetal.plan import DEPLOYMENT
from gpuaas.providers.kubeapi.client import shared
from gpuaas.providers.kubeconfig import kubeconfig_of, kubeconfig_require

REFUSAL = "bare-metal hosts are available as clusters only; order a cluster here, not a workspace"
MAKE = (base.StepSpec("workspace", "Make the workspace"),)


class BareMetalSiteDriver(base.Driver):
    """Credentials: `kubeconfig` of the hub."""

    name = "bare-metal"
    changes = {
        base.Change.CREATE: MAKE,
        base.Change.RESIZE: MAKE,
        base.Change.DELETE: (base.StepSpec("gone", "Verify that nothing is left"),),
    }

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        kubeconfig_require(credentials, who="a hub of bare metal")

    def probe(self) -> base.Inventory:
        version = shared(kubeconfig_of(self.connection.credentials)).get("/version")["gitVersion"]
        ordered = map(shown, Hub(self.connection, None).items(DEPLOYMENT))
        hosts = list(Host.objects.filter(site_id=self.connection.site_id))
        pools = {
            host.resource_name: base.ObservedPool(kind_of(host), host.resource_name)
            for host in hosts
            if host.gpus
        }
        return base.Inventory(
            server_version=str(version),
            pools=tuple(pools.values()),
            nodes=tuple(map(_node, hosts)),
            names=tuple(sorted(pools)),
            marked={one.name: one.cluster_id for one in ordered if one.cluster_id is not None},
        )

    def perform(self, change: base.Change, spec: base.WorkspaceSpec, step: str) -> base.StepOutcome:
        """Nothing is ever created, so a deletion is done at once."""
        del spec, step
        if change is not base.Change.DELETE:
            raise Permanent(REFUSAL)
        return base.StepOutcome(done=True)

    def observe(self, ref: base.WorkspaceRef) -> base.ObservedWorkspace:
        del ref
        return base.ObservedWorkspace(exists=False)


def _node(host: Host) -> base.ObservedNode:
    return base.ObservedNode(
        name=host.name,
        kind_slug=kind_of(host).slug if host.gpus else "",
        capacity=host.gpus,
        allocated=host.gpus if host.state in HELD else 0,
        vcpus=host.vcpus,
        memory_gib=host.memory_gib,
        ready=host.state != HostState.BROKEN,
        reason=host.reason,
    )
