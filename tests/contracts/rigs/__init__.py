"""What the contract suite needs of a driver's site beside the driver: to act as its tenants, and to break it."""

from tests.contracts.rigs.base import (
    ALICE,
    BOB,
    CHARLIE,
    Refused,
    Rig,
    adopt,
    ensure_step,
    ref,
    release_step,
)
from tests.contracts.rigs.kubernetes import KubernetesRig, RealPodsRig, pod, workload
from tests.contracts.rigs.openstack import OpenStackRig
from tests.contracts.rigs.sandbox import SandboxRig

__all__ = [
    "ALICE",
    "BOB",
    "CHARLIE",
    "KubernetesRig",
    "OpenStackRig",
    "RealPodsRig",
    "Refused",
    "Rig",
    "SandboxRig",
    "adopt",
    "ensure_step",
    "pod",
    "ref",
    "release_step",
    "workload",
]
