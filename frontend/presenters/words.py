"""What pages call things at a site: a namespace with pods, or a project with machines. What the driver is able to do decides."""

from dataclasses import dataclass, replace

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import kind_of
from gpuaas.providers.base import AccessCapability, AccessKind, MachineCapability


@dataclass(frozen=True)
class Words:
    """`node`: where a consumer runs, "" where that is no tenant's business. `began`: how the first consumer comes to be.

    `put_away`: what the warden does with one that is more than was bought. `slips`: how that can be; `then` and
    `operator`: what its people and what operators can do.
    """

    access: AccessKind
    space: str
    consumer: str
    node: str
    began: str
    put_away: str
    slips: str
    then: str
    operator: str

    @property
    def take(self) -> str:
        return f"Get {self.access}"

    @property
    def begin(self) -> str:
        return f"{self.began.format(access=self.access)}; it shows here within seconds, with the reason where it has to wait."

    @property
    def command(self) -> str:
        """To be tried first with the credential in `{file}`, for a workspace called `{space}` at the site."""
        return COMMANDS[self.access]

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
        return f"{self.consumers} {self.put_away}"

    @property
    def none_removed(self) -> str:
        return (
            "No workspace here has held more than it bought. When one does for a moment, its newest surplus "
            f"{self.consumers} are {self.put_away} within seconds, and listed."
        )

    def count(self, number: int) -> str:
        return f"{number} {self.consumer if number == 1 else self.consumers}"


MACHINE = "machine"
COMMANDS = {
    AccessKind.KUBECONFIG: "kubectl --kubeconfig {file} -n {space} get pods",
    AccessKind.CLOUDS_YAML: "OS_CLIENT_CONFIG_FILE={file} openstack --os-cloud {space} server list",
}
PODS = Words(
    access=AccessKind.KUBECONFIG,
    space="namespace",
    consumer="pod",
    node="node",
    began="Get the {access} and run something that asks for GPUs",
    put_away="removed",
    slips="The site counts a moment late when pods are made and deleted quickly.",
    then="Ask for fewer GPUs at a time, or resize the workspace.",
    operator="Usage that was surplus is marked; a tenant with many of them may need a larger workspace.",
)
MACHINES = Words(
    access=AccessKind.CLOUDS_YAML,
    space="project",
    consumer=MACHINE,
    node="",
    began="Order one under Machines, or make one with your own client",
    put_away="put away",
    slips="The site lets some ways past its limits, a resize for one.",
    then="One that was shelved keeps its disk: delete another machine or resize the workspace, then unshelve it.",
    operator="The site's settings say whether one is shelved or deleted; its people see it beside the machine.",
)


def words_of(site: Site) -> Words:
    kind = kind_of(site)
    words = MACHINES if issubclass(kind, MachineCapability) else PODS
    return replace(words, access=kind.access_kind) if issubclass(kind, AccessCapability) else words
