"""A control plane of our own, for what changes the whole site; and the portal's account with the rights of `site_role`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.lab.kubernetes import Lab, LabError
from gpuaas.providers.base import Connection
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.rights import NAMESPACE, ROLE, site_role
from tests.lab.fixtures import LabSite, until

COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
Asked = tuple[str, str, str]  # group, resource with its subresource, verb
FREE = {"authentication.k8s.io", "authorization.k8s.io"}  # everybody may ask about themselves


@dataclass(frozen=True)
class PortalSite(LabSite):
    """As an operator attaches a site: with an account that has these rights and no others."""

    portal_kubeconfig: str = ""

    def connection(self) -> Connection:
        made = super().connection()
        return Connection(made.site_id, made.site_slug, "", {"kubeconfig": self.portal_kubeconfig})


@contextmanager
def control_plane(folder: Path, *, runtime_config: str = "", feature_gates: str = "") -> Iterator[Lab]:
    lab = Lab(state_dir=folder)
    try:
        lab.up(runtime_config=runtime_config, feature_gates=feature_gates)
    except LabError as error:
        lab.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    yield lab
    lab.down(purge=True)


@pytest.fixture(scope="session")
def fit_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with control_plane(tmp_path_factory.mktemp("fit-lab")) as lab:
        yield lab


@pytest.fixture(scope="session")
def portal(fit_lab: Lab) -> PortalSite:
    return account(fit_lab, site_role())


def account(lab: Lab, printed: list[Object]) -> PortalSite:
    """With what `site_role` has printed and no more."""
    admin = Api(lab.kubeconfig.read_text())
    for each in printed:
        admin.apply(COLLECTIONS[each["kind"]], each)
    token = admin.create(
        f"{COLLECTIONS['ServiceAccount']}/{ROLE}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86_400},
        },
    )["status"]["token"]
    kubeconfig = with_token(lab, token)
    mine = Api(kubeconfig)
    until(lambda: _may_list_nodes(mine), "the role is in force")
    return PortalSite(lab.kubeconfig, kubeconfig)


@pytest.fixture(scope="session", autouse=True)
def sent(portal: PortalSite) -> Iterator[set[Asked]]:
    """What the portal's account asks of the API server, in the words of its rights."""
    with listening(portal.portal_kubeconfig) as found:
        yield found


@contextmanager
def listening(kubeconfig: str) -> Iterator[set[Asked]]:
    found: set[Asked] = set()
    honest = Api._send
    token = Api(kubeconfig).authorization()

    def listened(self: Api, method: str, path: str, **options: Any) -> Any:
        if self.authorization() == token:
            found.update(asked(method, path, options.get("query") or {}))
        return honest(self, method, path, **options)

    patched = pytest.MonkeyPatch()
    patched.setattr(Api, "_send", listened)
    yield found
    patched.undo()


def asked(method: str, path: str, query: dict[str, str]) -> Iterator[Asked]:
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < 3:
        return  # /version, and the list of groups
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if not rest or group in FREE:
        return  # what a group serves
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, *sub = rest if len(rest) > 1 else [rest[0], ""]
    resource = "/".join([resource, *sub[:1]])
    verbs = {
        "GET": ["get"] if name else ["watch" if query.get("watch") else "list"],
        "POST": ["create"],
        "PUT": ["update"],
        "PATCH": ["patch", "create"] if query.get("force") else ["patch"],
        "DELETE": ["delete" if name else "deletecollection"],
    }[method]
    for verb in verbs:
        yield group, resource, verb


@pytest.fixture
def admin(fit_lab: Lab) -> Api:
    return Api(fit_lab.kubeconfig.read_text())


def with_token(lab: Lab, token: str) -> str:
    given: Object = yaml.safe_load(lab.kubeconfig.read_text())
    given["users"] = [{"name": each["name"], "user": {"token": token}} for each in given["users"]]
    text: str = yaml.safe_dump(given)
    return text


def _may_list_nodes(api: Api) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"resource": "nodes", "verb": "list"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(api.create(path, review)["status"]["allowed"])
