"""Probes whether the policies act: up to a second after their creation they do not, and never at a broken site."""

from enum import StrEnum

from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards.pods import PODS

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
    """A pod that is refused once the policy for pods acts."""
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
