"""What pages call things at a site: a namespace with pods on Kubernetes, a project with machines on OpenStack."""

from dataclasses import dataclass, replace

from gpuaas.catalog.models import Site
from gpuaas.providers.base import AccessKind


@dataclass(frozen=True)
class Words:
    """`command`: to be tried first with the credential in `{file}`, for a workspace called `{space}` at the site.

    `node`: where a consumer runs, "" where that is no tenant's business. `begin`: how the first consumer comes to be.
    """

    access: AccessKind
    space: str
    consumer: str
    node: str
    begin: str
    command: str

    @property
    def take(self) -> str:
        return f"Get {self.access}"

    @property
    def consumers(self) -> str:
        return f"{self.consumer}s"

    @property
    def machines(self) -> bool:
        return self.consumer == MACHINE

    @property
    def none(self) -> str:
        return f"No {self.consumers}"

    @property
    def none_yet(self) -> str:
        return f"No {self.consumers} yet"

    @property
    def all_known(self) -> str:
        return f"Every {self.space} at this site is the portal's or the site's own."

    @property
    def adoptable(self) -> str:
        return (
            f"{self.space.capitalize()}s that tenants used before the portal can become workspaces: counted, limited and "
            "billed, with what runs in them left running. Looking changes nothing."
        )

    @property
    def removed(self) -> str:
        return f"removed {self.consumers}"

    @property
    def none_removed(self) -> str:
        return (
            "No workspace here has held more than it bought. When one does for a moment, its newest surplus "
            f"{self.consumers} are removed within seconds, and listed."
        )

    def count(self, number: int) -> str:
        return f"{number} {self.consumer if number == 1 else self.consumers}"


MACHINE = "machine"
BEGIN = "it shows here within seconds, with the reason where it has to wait."
KUBERNETES = Words(
    access=AccessKind.KUBECONFIG,
    space="namespace",
    consumer="pod",
    node="node",
    begin=f"Get the kubeconfig and run something that asks for GPUs; {BEGIN}",
    command="kubectl --kubeconfig {file} -n {space} get pods",
)
OPENSTACK = Words(
    access=AccessKind.CLOUDS_YAML,
    space="project",
    consumer=MACHINE,
    node="",
    begin=f"Order one under Machines, or make one with your own client; {BEGIN}",
    command="OS_CLIENT_CONFIG_FILE={file} openstack --os-cloud {space} server list",
)
OWN = {
    "openstack": OPENSTACK,
    # a simulated one hands out kubeconfigs
    "sandbox-cloud": replace(OPENSTACK, access=AccessKind.KUBECONFIG, command=KUBERNETES.command),
}


def words_of(site: Site) -> Words:
    return OWN.get(site.driver, KUBERNETES)
