"""The driver of a cluster, with the credentials of its site decrypted for this use."""

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import connection_of
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.core.outside import outside_transaction
from gpuaas.providers.base import ClusterDriver
from gpuaas.providers.registry import cluster_driver_for

__all__ = ["cluster_driver_of", "outside_transaction"]


def cluster_driver_of(template: ClusterTemplate, site: Site) -> ClusterDriver:
    return cluster_driver_for(template.driver, connection_of(site))
