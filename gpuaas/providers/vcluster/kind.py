"""Declares the virtual cluster driver, which builds clusters at sites of the Kubernetes driver."""

from gpuaas.providers.base import DriverKind

KINDS = (
    DriverKind(
        name="vcluster",
        label="Virtual cluster",
        summary="A control plane of its own in a namespace; its pods run on the site's nodes.",
        clusters="gpuaas.providers.vcluster.driver:VirtualClusterDriver",
    ),
)
