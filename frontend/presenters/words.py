"""What pages call things at a site: a namespace with pods or a project with machines, as its driver declares."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from gpuaas.catalog.models import GpuType, Site
from gpuaas.catalog.site import kind_of
from gpuaas.providers.base import AccessCapability, AccessKind, Driver, MachineCapability
from gpuaas.providers.base.kind import Nouns
from gpuaas.providers.registry import kind_or_missing
from quotas.resources import gpu_type_slug, gpus_named, resource_unit


@dataclass(frozen=True)
class Words:
    """The words that differ between kinds of sites.

    `node`: where a consumer runs, "" where tenants do not see that. `first_step`: how to start the first consumer.
    `evicted`: what the warden does with a consumer above what was bought. `overrun_cause`: how there can be one.
    `advice` and `operator_advice`: what the workspace's members and what operators can do about it.
    """

    access: AccessKind
    space: str
    consumer: str
    node: str
    first_step: str
    evicted: str
    overrun_cause: str
    advice: str
    operator_advice: str

    @property
    def take(self) -> str:
        return f"Get {self.access}"

    @property
    def start_hint(self) -> str:
        return f"{self.first_step.format(access=self.access)}. It appears here within seconds, with the reason if it has to wait."

    @property
    def command(self) -> str:
        """A first command to try with the credential in `{file}`; `{space}` is the workspace's name at the site."""
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
        return f"Every {self.space} at this site belongs to the portal or to the site itself."

    @property
    def adoptable(self) -> str:
        return (
            f"{self.space.capitalize()}s that tenants used before the portal can become workspaces that are limited and "
            "billed. Everything in them keeps running. Listing them changes nothing."
        )

    @property
    def removed(self) -> str:
        return f"{self.consumers} {self.evicted}"

    @property
    def none_removed(self) -> str:
        return (
            "No workspace at this site has held more than it bought. If one does, its newest surplus "
            f"{self.consumers} are {self.evicted} within seconds and listed here."
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
    first_step="Get the {access} and run something that requests GPUs",
    evicted="removed",
    overrun_cause="The site's count lags briefly when pods are created and deleted quickly.",
    advice="Request fewer GPUs at a time, or resize the workspace.",
    operator_advice="Surplus usage is marked. A tenant with many removals may need a larger workspace.",
)
MACHINES = Words(
    access=AccessKind.CLOUDS_YAML,
    space="project",
    consumer=MACHINE,
    node="",
    first_step="Order one under Machines, or create one with your own client",
    evicted="shelved or deleted",
    overrun_cause="The site does not check its limits for every operation, for example a machine's resize.",
    advice="A shelved machine keeps its disk. Delete another machine or resize the workspace, then unshelve it.",
    operator_advice="The site's settings decide whether a machine is shelved or deleted. Members see it beside the machine.",
)


def words_of(site: Site) -> Words:
    return _words(kind_of(site), kind_or_missing(site.driver).nouns)


@cache
def _words(kind: type[Driver], nouns: Nouns) -> Words:
    """Rows of a list ask for the same ones over and over."""
    words = MACHINES if issubclass(kind, MachineCapability) else PODS
    words = replace(words, space=nouns.space, consumer=nouns.consumer, node=nouns.node)
    return replace(words, access=kind.access_kind) if issubclass(kind, AccessCapability) else words


def units_of(resources: Iterable[str]) -> dict[str, str]:
    """Each in a sentence, GPUs by the name of their type: `H100 SXM 80 GB GPUs`, `GiB of memory`. One query."""
    slugs = {resource: gpu_type_slug(resource) for resource in resources}
    wanted = sorted(filter(None, slugs.values()))
    names = dict(GpuType.objects.filter(slug__in=wanted).values_list("slug", "name")) if wanted else {}
    return {
        resource: gpus_named(resource, names[slug]) if slug in names else resource_unit(resource)
        for resource, slug in slugs.items()
    }
