"""What pages call things at a site: a namespace with pods on Kubernetes, a project with machines on OpenStack."""

from dataclasses import dataclass

from gpuaas.catalog.models import Site
from gpuaas.providers.base import AccessKind


@dataclass(frozen=True)
class Words:
    """`command`: to be tried first with the credential in `{file}`, for a workspace called `{space}` at the site."""

    access: AccessKind
    space: str
    consumer: str
    command: str

    @property
    def take(self) -> str:
        return f"Get {self.access}"

    @property
    def consumers(self) -> str:
        return f"{self.consumer}s"

    def count(self, number: int) -> str:
        return f"{number} {self.consumer if number == 1 else self.consumers}"


KUBERNETES = Words(
    access=AccessKind.KUBECONFIG,
    space="namespace",
    consumer="pod",
    command="kubectl --kubeconfig {file} -n {space} get pods",
)
OPENSTACK = Words(
    access=AccessKind.CLOUDS_YAML,
    space="project",
    consumer="machine",
    command="OS_CLIENT_CONFIG_FILE={file} openstack --os-cloud {space} server list",
)


def words_of(site: Site) -> Words:
    return OPENSTACK if site.driver == "openstack" else KUBERNETES
