"""The contract of a driver: verbs all share, capabilities some have, frozen dataclasses in and out.

Drivers see no models of other rooms and open no transaction. Every verb is idempotent, returns at once with what was
observed, and raises only the errors of `core/errors.py`: Unavailable (try again), Unauthorized (our credentials),
NoCapacity, NotFound, Permanent (trying again cannot help). Vendor exceptions are mapped at the driver's edge.
`tests/contracts` runs unchanged against every driver.
"""

from gpuaas.providers.base.changes import (
    AdoptionStep,
    Difference,
    ForeignWorkspace,
    NodeCheckOutcome,
    SiteChange,
)
from gpuaas.providers.base.driver import (
    AccessCapability,
    AdoptionCapability,
    DriftCapability,
    Driver,
    HealthCapability,
    NodeCheckCapability,
    PreflightCapability,
    SignInCapability,
    SuspendCapability,
    UsageCapability,
    WardenCapability,
)
from gpuaas.providers.base.signin import SignIn, sign_in_of
from gpuaas.providers.base.site import (
    Check,
    Connection,
    DeviceKind,
    Inventory,
    NodeHealth,
    NodeTraits,
    ObservedNode,
    ObservedPool,
)
from gpuaas.providers.base.usage import UsageEvent, UsageKind
from gpuaas.providers.base.workspace import (
    Access,
    AccessKind,
    FlavorAmount,
    GpuAmount,
    Member,
    ObservedConsumer,
    ObservedWorkspace,
    Placement,
    StepOutcome,
    StepSpec,
    Tuning,
    UseState,
    WorkspaceRef,
    WorkspaceSpec,
)

__all__ = [
    "Access",
    "AccessCapability",
    "AccessKind",
    "AdoptionCapability",
    "AdoptionStep",
    "Check",
    "Connection",
    "DeviceKind",
    "Difference",
    "DriftCapability",
    "Driver",
    "FlavorAmount",
    "ForeignWorkspace",
    "GpuAmount",
    "HealthCapability",
    "Inventory",
    "Member",
    "NodeCheckCapability",
    "NodeCheckOutcome",
    "NodeHealth",
    "NodeTraits",
    "ObservedConsumer",
    "ObservedNode",
    "ObservedPool",
    "ObservedWorkspace",
    "Placement",
    "PreflightCapability",
    "SignIn",
    "SignInCapability",
    "SiteChange",
    "StepOutcome",
    "StepSpec",
    "SuspendCapability",
    "Tuning",
    "UsageCapability",
    "UsageEvent",
    "UsageKind",
    "UseState",
    "WardenCapability",
    "WorkspaceRef",
    "WorkspaceSpec",
    "sign_in_of",
]
