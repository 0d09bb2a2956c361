"""Checks whether existing objects fit into what would be bought: the site counts them all, but evicts nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from gpuaas.providers.base import AdoptionStep
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.claims import DRA
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.quantities import GIB, quantity
from gpuaas.providers.kubernetes.adoption.find import requests_of, storage_of

PLAIN = {"services", "persistentvolumeclaims", "secrets", "configmaps", "replicationcontrollers"}
_COUNT = "count/"
_PER_CLASS = ".deviceclass.resource.k8s.io/devices"


@dataclass(frozen=True)
class Use:
    """The use of each key of a quota by a namespace's live pods and other objects."""

    api: Api
    namespace: str
    pods: tuple[Object, ...]

    def beyond(self, hard: Mapping[str, str], quota: str) -> Iterator[AdoptionStep]:
        for key, limit in sorted(hard.items()):
            used = self.of(key)
            if used is not None and used > quantity(limit):
                detail = f"{_text(key, used)} of {key} in use, {limit} would be allowed"
                yield AdoptionStep(quota, "create", detail, blocking=True)

    def of(self, key: str) -> Fraction | None:
        """None for a key that only the site can count."""
        if key == "pods":
            return Fraction(len(self.pods))
        if key == "requests.storage":
            return sum(map(storage_of, self._listed("/api/v1", "persistentvolumeclaims")), Fraction(0))
        if names.storage_class_of(key):
            return None  # what is there stays; a class that is not bought admits nothing more
        if key.startswith("requests."):
            return self._requested.get(key.removeprefix("requests."), Fraction(0))
        if key.endswith(_PER_CLASS):
            return self._claimed.get(key.removesuffix(_PER_CLASS), Fraction(0))
        if key.startswith("services."):
            return Fraction(self._services(key))
        return self._counted(key.removeprefix(_COUNT)) if key.startswith(_COUNT) or key in PLAIN else None

    @cached_property
    def _requested(self) -> dict[str, Fraction]:
        total: dict[str, Fraction] = {}
        for pod in self.pods:
            for name, amount in requests_of(pod).items():
                total[name] = total.get(name, Fraction(0)) + amount
        for device_class, amount in self._claimed.items():
            name = names.implicit_resource(device_class)
            total[name] = total.get(name, Fraction(0)) + amount
        return total

    @cached_property
    def _claimed(self) -> dict[str, Fraction]:
        """By device class. A claim of all devices counts as 32, as at the site."""
        total: dict[str, Fraction] = {}
        for claim in self.api.items_if_known(f"{DRA}/namespaces/{self.namespace}/resourceclaims"):
            for request in (claim["spec"].get("devices") or {}).get("requests") or []:
                for exact in (
                    [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or []
                ):
                    count = 32 if exact.get("allocationMode") == "All" else int(exact.get("count", 1))
                    name = exact["deviceClassName"]
                    total[name] = total.get(name, Fraction(0)) + count
        return total

    def _services(self, key: str) -> int:
        kinds = {
            "services.loadbalancers": ("LoadBalancer",),
            "services.nodeports": ("NodePort", "LoadBalancer"),
        }
        services = self._listed("/api/v1", "services")
        return sum(service["spec"].get("type") in kinds.get(key, ()) for service in services)

    def _counted(self, resource: str) -> Fraction | None:
        plural, _, group = resource.partition(".")
        base = "/api/v1" if not group else self._group(group)
        return Fraction(len(self._listed(base, plural))) if base else None

    def _group(self, group: str) -> str:
        found = self.api.find(f"/apis/{group}")
        return f"/apis/{found['preferredVersion']['groupVersion']}" if found else ""

    def _listed(self, base: str, plural: str) -> list[Object]:
        return self.api.items_if_known(f"{base}/namespaces/{self.namespace}/{plural}")


def _text(key: str, used: Fraction) -> str:
    if key in ("requests.memory", "requests.storage", "requests.ephemeral-storage") or "hugepages" in key:
        return f"{float(used / GIB):.4g}Gi"
    return f"{float(used):.10g}"
