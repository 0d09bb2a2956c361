"""Finds namespaces that could become workspaces: not the site's own, not ours, not the one the portal runs in."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from fractions import Fraction
from math import ceil

from gpuaas.providers.base import ForeignWorkspace
from gpuaas.providers.kubeapi import demand, names, namespaces
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import whoami
from gpuaas.providers.kubeapi.quantities import GIB, quantity, whole

# by name; others are recognized by the priority of their pods
SITES_OWN = (
    "default",
    "kube-*",
    "openshift",
    "openshift-*",
    "*-system",
    "*-operator",
    "*-operators",
    "nvidia-*",
    "node-feature-discovery",
    "cert-manager",
    "ingress-nginx",
    "istio-*",
    "local-path-storage",
    "hypershift",
    "gpuaas-*",
)
SYSTEM_PRIORITY = "system-"
_ACCOUNT = "system:serviceaccount:"


@dataclass
class Held:
    """What the live consumers of a namespace request."""

    # exact, by resource name
    requests: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    placed: dict[str, Counter[str]] = field(default_factory=dict)
    consumers: int = 0
    sites_own: bool = False

    def add(self, pod: Object) -> None:
        self.consumers += 1
        self.sites_own = self.sites_own or is_sites_pod(pod)
        for name, amount in requests_of(pod).items():
            self.requests[name] += amount
        node = pod["spec"].get("nodeName")
        for name, count in demand.devices(pod).items() if node else ():
            self.placed.setdefault(node, Counter())[name] += count


def adoptable(api: Api, *, sites_own: Iterable[str] = ()) -> tuple[ForeignWorkspace, ...]:
    """`sites_own`: more patterns of names that are the site's."""
    patterns = [*SITES_OWN, *sites_own, *_home(api)]
    spaces = [space for space in api.items(namespaces.COLLECTION) if not _is_out(space, patterns)]
    held = _held(api)
    quotas = _by_namespace(api.items("/api/v1/resourcequotas"))
    claims = _by_namespace(api.items("/api/v1/persistentvolumeclaims"))
    return tuple(
        _foreign(space, held.get(name, Held()), quotas.get(name, []), claims.get(name, []))
        for space in sorted(spaces, key=lambda space: str(space["metadata"]["name"]))
        if not held.get(name := space["metadata"]["name"], Held()).sites_own
    )


def is_sites_own(api: Api, name: str, sites_own: Iterable[str] = ()) -> bool:
    return _matches(name, [*SITES_OWN, *sites_own, *_home(api)])


def is_sites_pod(pod: Object) -> bool:
    return str(pod["spec"].get("priorityClassName") or "").startswith(SYSTEM_PRIORITY)


def is_live(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in demand.FINISHED


def requests_of(pod: Object) -> dict[str, Fraction]:
    """As the scheduler and the quota count: the sum of containers and sidecars, or the largest init container."""
    spec = pod["spec"]
    total = _sum(spec.get("containers") or [])
    inits = spec.get("initContainers") or []
    sidecars = [each for each in inits if each.get("restartPolicy") == "Always"]
    for name, amount in _sum(sidecars).items():
        total[name] = total.get(name, Fraction(0)) + amount
    for each in inits:
        for name, amount in _sum([each]).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Fraction(0)) + quantity(text)
    return total


def storage_of(claim: Object) -> Fraction:
    return quantity(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _sum(containers: Iterable[Object]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for container in containers:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in asked.items():
            total[name] = total.get(name, Fraction(0)) + quantity(text)
    return total


def _is_out(space: Object, patterns: list[str]) -> bool:
    metadata = space["metadata"]
    ours = names.WORKSPACE in (metadata.get("labels") or {}) or names.is_workspace_namespace(metadata["name"])
    return ours or namespaces.is_terminating(space) or _matches(metadata["name"], patterns)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _home(api: Api) -> list[str]:
    """The namespace of the portal's service account, if it uses one."""
    user = whoami(api)
    return [user.removeprefix(_ACCOUNT).split(":")[0]] if user.startswith(_ACCOUNT) else []


def _held(api: Api) -> dict[str, Held]:
    held: dict[str, Held] = {}
    for page in api.pages("/api/v1/pods"):
        for pod in filter(is_live, page.get("items") or []):
            held.setdefault(pod["metadata"]["namespace"], Held()).add(pod)
    return held


def _by_namespace(items: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for item in items:
        found.setdefault(item["metadata"]["namespace"], []).append(item)
    return found


def _foreign(space: Object, held: Held, quotas: list[Object], claims: list[Object]) -> ForeignWorkspace:
    return ForeignWorkspace(
        external_name=space["metadata"]["name"],
        created_at=datetime.fromisoformat(space["metadata"]["creationTimestamp"]),
        gpus={name: ceil(count) for name, count in sorted(held.requests.items()) if demand.is_device(name)},
        vcpus=ceil(held.requests["cpu"]),
        memory_gib=ceil(held.requests["memory"] / GIB),
        storage_gib=ceil(sum(map(storage_of, claims)) / GIB),
        consumers=held.consumers,
        placed={node: dict(counts) for node, counts in held.placed.items()},
        hard=_allowed(quotas),
    )


def _allowed(quotas: Iterable[Object]) -> dict[str, int]:
    """By GPU name; with several quotas the smallest counts."""
    allowed: dict[str, int] = {}
    for quota in quotas:
        for key, text in (quota["spec"].get("hard") or {}).items():
            name = key.removeprefix("requests.")
            if key.startswith("requests.") and demand.is_device(name):
                allowed[name] = min(allowed.get(name, whole(text)), whole(text))
    return allowed
