"""Whether the policies act: they do so up to a second after they are made, and not at all where the site is broken."""

from enum import StrEnum

from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.guards.pods import PODS

ASKED, ANSWERED = "asked", "mutations act"


class Acting(StrEnum):
    NOTHING = "the site does not act on its admission policies yet"
    REFUSALS = "refusals act, additions do not"
    ALL = "refusals and additions act"


def probe(api: Api, namespace: str) -> Acting:
    """One dry run that never becomes a pod: the mutation changes its annotation, the refusal repeats it."""
    try:
        api.create(f"/api/v1/namespaces/{namespace}/pods", forbidden_pod(namespace), dryRun="All")
    except (Permanent, Unauthorized) as refused:
        if PODS not in refused.message:
            raise
        return Acting.ALL if ANSWERED in refused.message else Acting.REFUSALS
    return Acting.NOTHING


def forbidden_pod(namespace: str) -> Object:
    """Refused once the policy for pods acts."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "gpuaas-guard-",
            "namespace": namespace,
            "annotations": {names.PROBE: ASKED},
        },
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    }
