"""A hub as a site of the portal: what it has are the hosts of our inventory, whole, for clusters only."""

from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.baremetal.facts import kind_of
from gpuaas.providers.baremetal.models import HELD, Host, HostState
from gpuaas.providers.base import (
    Driver,
    Inventory,
    ObservedNode,
    ObservedPool,
    ObservedWorkspace,
    StepOutcome,
    StepSpec,
    WorkspaceRef,
    WorkspaceSpec,
)
from gpuaas.providers.kubernetes.client import shared

REFUSAL = "whole machines are given out as clusters only; order a cluster here, not a workspace"


class BareMetalSiteDriver(Driver):
    """Credentials: `kubeconfig` of the hub."""

    name = "bare-metal"

    def probe(self) -> Inventory:
        kubeconfig = self.connection.credentials.get("kubeconfig")
        if not isinstance(kubeconfig, str) or not kubeconfig.strip():
            raise Unauthorized("the site has no kubeconfig among its credentials")
        version = shared(kubeconfig).get("/version")["gitVersion"]
        hosts = list(Host.objects.filter(site_id=self.connection.site_id))
        pools = {
            host.resource_name: ObservedPool(kind_of(host), host.resource_name) for host in hosts if host.gpus
        }
        return Inventory(
            server_version=str(version),
            pools=tuple(pools.values()),
            nodes=tuple(map(_node, hosts)),
            names=tuple(sorted(pools)),
        )

    def ensure_steps(self) -> tuple[StepSpec, ...]:
        return (StepSpec("workspace", "Make the workspace"),)

    def ensure(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        del spec, step
        raise Permanent(REFUSAL)

    def release_steps(self) -> tuple[StepSpec, ...]:
        return (StepSpec("gone", "Make sure that nothing is left"),)

    def release(self, ref: WorkspaceRef, step: str) -> StepOutcome:
        """There never was anything."""
        del ref, step
        return StepOutcome(done=True)

    def observe(self, ref: WorkspaceRef) -> ObservedWorkspace:
        del ref
        return ObservedWorkspace(exists=False)


def _node(host: Host) -> ObservedNode:
    return ObservedNode(
        name=host.name,
        kind_slug=kind_of(host).slug if host.gpus else "",
        capacity=host.gpus,
        allocated=host.gpus if host.state in HELD else 0,
        vcpus=host.vcpus,
        memory_gib=host.memory_gib,
        ready=host.state != HostState.BROKEN,
        reason=host.reason,
    )
