"""The storage classes of a site. Pure."""

from collections.abc import Iterable

from gpuaas.providers.base import ObservedStorageClass
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
# characters of the part of a quota's key that has the name; a longer name is closed by the guards alone
_KEY_LONGEST = 253


def classes_of(rows: Iterable[Object]) -> tuple[ObservedStorageClass, ...]:
    """By name. Of several defaults Kubernetes takes the newest, and of equally old ones the first by name."""
    known = [row for row in rows if _is_limitable(row["metadata"]["name"])]
    defaults = sorted(
        (row["metadata"] for row in known if is_default(row)), key=lambda each: str(each["name"])
    )
    newest = max(defaults, key=lambda each: str(each.get("creationTimestamp", "")), default={"name": ""})
    return tuple(
        ObservedStorageClass(name, str(row.get("provisioner", "")), default=name == newest["name"])
        for name, row in sorted((row["metadata"]["name"], row) for row in known)
    )


def is_default(row: Object) -> bool:
    annotations = row["metadata"].get("annotations") or {}
    return any(annotations.get(key) == "true" for key in _DEFAULT)


def _is_limitable(name: str) -> bool:
    return len(names.storage_quota_key(name).partition("/")[0]) <= _KEY_LONGEST
