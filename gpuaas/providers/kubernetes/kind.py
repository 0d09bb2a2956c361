"""Declares the Kubernetes driver."""

from gpuaas.providers.base import DriverKind
from gpuaas.providers.fields import KUBECONFIG, OIDC, section, text, texts
from gpuaas.providers.kubeapi import bounds

CREDENTIALS = section(kubeconfig=KUBECONFIG)
OPTIONS = section(
    pool_label=text(
        "Label of pools", "the label that names a node's pool; gpuaas.io/pool if empty", maxLength=317
    ),
    egress_cidrs=texts(
        "Networks that workspaces can reach",
        "external networks, one per line, for example 10.0.0.0/8; none if empty",
    ),
    gpu_resources=texts(
        "Additional GPU resources", "extended resources that are GPUs but have no GPU vendor's domain"
    ),
    schedulers=texts(
        "Further schedulers",
        "names that pods may give as schedulerName besides the default one, one per line, for example volcano",
    ),
    check_image=text("Image of node checks", "the image in which nvidia-smi runs on a node"),
    sites_namespaces=texts(
        "The site's own namespaces", "names, one per line; * matches anything; never adopted"
    ),
    environments_direct={
        "type": "boolean",
        "title": "Reach environments directly",
        "description": "by the addresses of their pods, where the door has a route to them; otherwise by the API server",
    },
    oidc=OIDC,
    object_bounds=bounds.schema(),
)
ENDPOINT = "only if it differs from the kubeconfig's"

KINDS = (
    DriverKind(
        name="kubernetes",
        label="Kubernetes",
        summary="A Kubernetes cluster with GPUs; a workspace is a namespace in it.",
        site="gpuaas.providers.kubernetes.driver:KubernetesDriver",
        endpoint=ENDPOINT,
        credentials=CREDENTIALS,
        options=OPTIONS,
    ),
)
