"""Declares the Cluster API driver, which builds clusters at sites of the Kubernetes driver."""

from gpuaas.providers.base import DriverKind

KINDS = (
    DriverKind(
        name="cluster-api",
        label="Cluster API",
        summary="Clusters that a management cluster makes from a ClusterClass.",
        clusters="gpuaas.providers.clusterapi.driver:ClusterApiDriver",
    ),
)
