"""A second limit: one ClusterResourceQuota across all namespaces of a project of the portal at a site.

Its limits are the sums of the namespaces' own quotas, read from the site each time: it needs no state of ours, and the
last update is right. A namespace's quota is always written before this one, and this one is written only over the
version that was read before the quotas were: so an earlier update cannot undo a later one, and once a workspace's step
is done, the sum contains its share. It is never lowered while a namespace lacks its quota, which may only be missing.
"""

import random
import time
import uuid
from collections.abc import Iterable, Mapping
from fractions import Fraction

from gpuaas.core.errors import Unavailable
from gpuaas.providers.kubeapi import demand, names, namespaces
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.quantities import quantity
from gpuaas.providers.kubernetes.openshift.projects import served

API = "/apis/quota.openshift.io/v1"
WALLS = f"{API}/clusterresourcequotas"
# attempts to write over the version that was read; after a conflict a random wait, longer each time
TRIES = 8
PLAIN = ("requests.cpu", "requests.memory", "requests.storage")
# a label for each workspace in the sum: a namespace that is gone no longer says whose it was
_OF = f"{names.DOMAIN}/of-"
_MIB = 1024**2


def is_served(api: Api) -> bool:
    return "clusterresourcequotas" in served(api, API)


def settle(api: Api, *, project: str, organization: str) -> bool:
    """Set the limits to the sums of the namespaces' quotas; False if the site does not serve ClusterResourceQuotas."""
    if not is_served(api):
        return False
    for tried in range(1, TRIES + 1):
        began = time.monotonic()
        try:
            _settle_once(api, project, organization)
            break
        except Unavailable:
            if tried == TRIES:
                raise
            time.sleep(random.uniform(0, (time.monotonic() - began) * 2 * tried))  # noqa: S311  spreads load, hides nothing
    return True


def settle_without(api: Api, workspace: uuid.UUID) -> None:
    """Remove the share of a workspace whose namespace is gone."""
    if not is_served(api):
        return
    for wall in api.items(WALLS, labelSelector=f"{_OF}{workspace}"):
        labels = wall["metadata"]["labels"]
        settle(api, project=labels[names.PROJECT], organization=labels[names.ORGANIZATION])


def name_of(project: str) -> str:
    return f"gpuaas-{project}"


def _settle_once(api: Api, project: str, organization: str) -> None:
    path = f"{WALLS}/{name_of(project)}"
    present = api.find(path)  # read first: the write below is made over this version
    chosen = {names.PROJECT: project, names.ORGANIZATION: organization}
    spaces = api.items(
        namespaces.COLLECTION, labelSelector=f"{names.selector_text(chosen)},{names.WORKSPACE}"
    )
    if not spaces:
        if present is not None:
            version = {key: present["metadata"][key] for key in ("uid", "resourceVersion")}
            api.delete(path, {"preconditions": version})
        return
    quotas = [
        api.find(f"{namespaces.path(each['metadata']['name'])}/resourcequotas/{names.QUOTA}")
        for each in spaces
    ]
    hard = _sum(quota["spec"].get("hard") or {} for quota in quotas if quota)
    if present is not None and not all(quotas):
        hard = _larger(hard, present["spec"]["quota"].get("hard") or {})
    body = _manifest(project, chosen, hard, [each["metadata"]["labels"][names.WORKSPACE] for each in spaces])
    if present is None:
        api.create(WALLS, body)
    elif _differs(present, body):
        body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
        api.replace(path, body)


def _sum(quotas: Iterable[Mapping[str, str]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for hard in quotas:
        for key, text in hard.items():
            if key in PLAIN or (key.startswith("requests.") and demand.is_device(key)):
                total[key] = total.get(key, Fraction(0)) + quantity(text)
    return total


def _larger(hard: dict[str, Fraction], present: Mapping[str, str]) -> dict[str, Fraction]:
    return {
        key: max(hard.get(key, Fraction(0)), quantity(present.get(key, "0")))
        for key in (*hard, *(key for key in present if key not in hard))
    }


def _manifest(
    project: str, chosen: Mapping[str, str], hard: Mapping[str, Fraction], workspaces: Iterable[str]
) -> Object:
    labels = {names.MANAGED_BY: names.MANAGER, **chosen, **{f"{_OF}{each}": "" for each in workspaces}}
    selector = {
        "matchLabels": dict(chosen),
        "matchExpressions": [{"key": names.WORKSPACE, "operator": "Exists"}],
    }
    return {
        "apiVersion": "quota.openshift.io/v1",
        "kind": "ClusterResourceQuota",
        "metadata": {"name": name_of(project), "labels": labels},
        "spec": {
            "selector": {"labels": selector},
            "quota": {"hard": {key: _text(key, amount) for key, amount in sorted(hard.items())}},
        },
    }


def _text(key: str, amount: Fraction) -> str:
    """Whole numbers, rounded up; memory and storage in Gi, or in Mi if it is not a whole number of Gi."""
    if key in ("requests.memory", "requests.storage"):
        mib = -(-amount // _MIB)
        return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"
    return str(-(-amount // 1))


def _differs(present: Object, body: Object) -> bool:
    labels = present["metadata"].get("labels") or {}
    ours = {
        key: value
        for key, value in labels.items()
        if key.startswith(f"{names.DOMAIN}/") or key == names.MANAGED_BY
    }
    return bool(ours != body["metadata"]["labels"] or present["spec"] != body["spec"])
