"""Declares the drivers of simulated sites."""

from gpuaas.providers.base import DriverKind, Nouns
from gpuaas.providers.fields import document, secret, section

CREDENTIALS = section(
    kubeconfig=document("Kubeconfig", "validated like a real one, but not used"),
    token=secret("Token", "only if the simulated site needs one"),
)

KINDS = (
    DriverKind(
        name="sandbox",
        label="Sandbox",
        summary="A simulated fleet for trying things out; `gpuaas-portal sandbox_fleet` gives a new site its nodes.",
        site="gpuaas.providers.sandbox.readings:SandboxPodsDriver",
        clusters="gpuaas.providers.sandbox.clusters.driver:SandboxClusterDriver",
        simulated=True,
        endpoint="shown, never called",
        credentials=CREDENTIALS,
    ),
    DriverKind(
        name="sandbox-cloud",
        label="Sandbox cloud",
        summary="A simulated cloud of machines for trying things out; `gpuaas-portal sandbox_fleet` gives a new site its nodes.",
        site="gpuaas.providers.sandbox.machines:SandboxCloudDriver",
        nouns=Nouns(space="project", consumer="machine", node=""),
        simulated=True,
        endpoint="shown, never called",
        credentials=CREDENTIALS,
    ),
)
