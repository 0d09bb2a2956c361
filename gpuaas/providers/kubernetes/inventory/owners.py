"""Whose the devices are that pods and claims of a site hold: a workspace's or cluster's of this portal, or others'."""

import uuid
from collections.abc import Callable, Iterable

from gpuaas.core.ids import uuid_read
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.nodechecks import NAMESPACE

Holders = Callable[[], frozenset[uuid.UUID]]


def spaces_ours(spaces: Iterable[Object], holders: Holders | None) -> frozenset[str]:
    """Names of the namespaces of `holders`, whose ids they have in a label of ours, and that of our own checks.

    A label is not enough: another portal at the same site marks its namespaces alike, and so does what we have given up. Without
    `holders` it is.
    """
    labelled = {each["metadata"]["name"]: _ids(each) for each in spaces}
    known = frozenset().union(*labelled.values()) if holders is None else holders()
    return frozenset({NAMESPACE, *(name for name, ids in labelled.items() if ids & known)})


def marked(spaces: Iterable[Object]) -> dict[str, uuid.UUID]:
    """Names of namespaces with the workspace or cluster whose they are by a label of ours."""
    return {each["metadata"]["name"]: holder for each in spaces for holder in _ids(each)}


def lent(spaces: Iterable[Object]) -> frozenset[str]:
    """Names of the namespaces that borrow their GPUs."""
    marks = ((each["metadata"]["name"], each["metadata"].get("annotations") or {}) for each in spaces)
    return frozenset(name for name, found in marks if names.NOTICE in found)


def _ids(space: Object) -> set[uuid.UUID]:
    labels = space["metadata"].get("labels") or {}
    found = (uuid_read(value) for key, value in labels.items() if key.startswith(f"{names.DOMAIN}/"))
    return {each for each in found if each is not None}
