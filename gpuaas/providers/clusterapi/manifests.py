"""The objects of one cluster: its namespace, the Cluster with its topology, and its add-ons. Pure."""

from typing import Any

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import ClusterSpec, NodePool
from gpuaas.providers.clusterapi import names
from gpuaas.providers.clusterapi.settings import ClassSettings
from gpuaas.providers.kubeapi import names as site_names
from gpuaas.providers.kubeapi.client import Object

# one worker after the other, each taken away before its successor comes: never more of them than are reserved
ONE_BY_ONE: Object = {
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
}


def version(release: str) -> str:
    """As Cluster API writes it."""
    return release if release.startswith("v") else f"v{release}"


def tags(spec: ClusterSpec) -> dict[str, str]:
    return {
        names.TAG: str(spec.id),
        site_names.PROJECT: spec.project_slug,
        site_names.ORGANIZATION: spec.organization_slug,
    }


def namespace(spec: ClusterSpec) -> Object:
    metadata = {"name": spec.external_name, "labels": tags(spec)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def cluster(spec: ClusterSpec, settings: ClassSettings) -> Object:
    return {
        "apiVersion": f"{names.GROUP}/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": spec.external_name,
            "labels": tags(spec),
            "annotations": {names.RELEASE: spec.release},
        },
        "spec": {
            "topology": {
                "classRef": {"name": settings.name, "namespace": settings.namespace},
                "version": version(spec.release),
                "controlPlane": {
                    "replicas": spec.control_plane.count,
                    "metadata": {"labels": {names.TAG: str(spec.id)}},
                },
                "variables": _variables(spec, settings),
                "workers": {"machineDeployments": [_pool(spec, pool, settings) for pool in spec.pools]},
            }
        },
    }


def addon_objects(spec: ClusterSpec, name: str, settings: ClassSettings) -> tuple[Object, Object]:
    """A ConfigMap with the manifests, and the ClusterResourceSet that applies them in the cluster and keeps them applied."""
    called = addon_name(spec, name)
    metadata = {"name": called, "namespace": spec.external_name, "labels": {**tags(spec), names.ADDON: name}}
    text = settings.addons[name].manifests
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"addon.yaml": text}}
    chosen: Object = {
        "apiVersion": f"addons.{names.GROUP}/v1beta2",
        "kind": "ClusterResourceSet",
        "metadata": metadata,
        "spec": {
            "clusterSelector": {"matchLabels": {names.TAG: str(spec.id)}},
            "resources": [{"kind": "ConfigMap", "name": called}],
            "strategy": "Reconcile",
        },
    }
    return data, chosen


def addon_name(spec: ClusterSpec, name: str) -> str:
    return f"{spec.external_name}-{name}"


def _variables(spec: ClusterSpec, settings: ClassSettings) -> list[Object]:
    """The template's variables, then the order's parameters, then add-ons that are switches of the class."""
    found: dict[str, Any] = dict(settings.variables)
    for name, value in spec.parameters.items():
        found[settings.parameters.get(name, name)] = value
    for name, addon in settings.addons.items():
        if addon.variable:
            found[addon.variable] = name in spec.addons
    return [{"name": name, "value": value} for name, value in found.items()]


def _pool(spec: ClusterSpec, pool: NodePool, settings: ClassSettings) -> Object:
    metadata: Object = {"labels": {names.TAG: str(spec.id)}}
    if pool.release != spec.release:
        # a topology has one release: pools at another one defer their upgrade
        metadata["annotations"] = {names.DEFER_UPGRADE: ""}
    made: Object = {
        "class": settings.pool_classes.get(pool.name, settings.worker_class),
        "name": pool.name,
        "replicas": pool.flavor.count,
        "metadata": metadata,
        "rollout": ONE_BY_ONE,
    }
    if settings.flavor_variable:
        flavor = settings.flavors.get(pool.flavor.slug, pool.flavor.slug)
        made["variables"] = {"overrides": [{"name": settings.flavor_variable, "value": flavor}]}
    return made


def addon_check(spec: ClusterSpec, name: str, settings: ClassSettings) -> None:
    if name not in spec.addons:
        raise Permanent(f"the cluster has no add-on {name!r}")
    if name not in settings.addons:
        raise Permanent(
            f"the template does not define the add-on {name}",
            detail={
                "evidence": [f"settings.addons has no {name}"],
                "next": "An operator must add a version of the template whose settings define it.",
            },
        )
