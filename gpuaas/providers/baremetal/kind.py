"""Declares bare-metal sites and the driver that builds clusters of their hosts."""

from gpuaas.providers.base import DriverKind
from gpuaas.providers.fields import document, section

CREDENTIALS = section(kubeconfig=document("Kubeconfig", "for the hub: the cluster that installs the hosts"))

KINDS = (
    DriverKind(
        name="bare-metal",
        label="Bare metal",
        summary="Bare-metal hosts behind a hub cluster; they are available as clusters only.",
        site="gpuaas.providers.baremetal.site:BareMetalSiteDriver",
        workspaces=False,
        hosts=True,
        endpoint="only if it differs from the kubeconfig's",
        credentials=CREDENTIALS,
    ),
    DriverKind(
        name="openshift-bare-metal",
        label="OpenShift on bare metal",
        summary="OpenShift on whole machines of a bare-metal site.",
        clusters="gpuaas.providers.baremetal.driver:OpenShiftBareMetalDriver",
        experimental="It has never run against real hosts; their firmware and BMCs were simulated.",
    ),
)
