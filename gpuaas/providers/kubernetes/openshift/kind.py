"""Declares the OpenShift driver: the Kubernetes driver with one more option."""

from gpuaas.providers.base import DriverKind
from gpuaas.providers.kubernetes.kind import CREDENTIALS, ENDPOINT, OPTIONS

ROUTES = {
    "type": "boolean",
    "title": "Routes",
    "description": "yes: the site's routers can reach workspaces",
}

KINDS = (
    DriverKind(
        name="openshift",
        label="OpenShift",
        summary="An OpenShift cluster with GPUs; a workspace is a project of it.",
        site="gpuaas.providers.kubernetes.openshift.driver:OpenShiftDriver",
        endpoint=ENDPOINT,
        credentials=CREDENTIALS,
        options={**OPTIONS, "properties": {**OPTIONS["properties"], "routes": ROUTES}},
    ),
)
