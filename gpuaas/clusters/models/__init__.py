"""Templates, the clusters made from them, and their scaling policies."""

from gpuaas.clusters.models.clusters import (
    Cluster,
    ClusterGrant,
    ClusterHolding,
    ClusterOperation,
    ClusterOperationStep,
    ClusterPool,
    ClusterQueue,
    ClusterTransition,
    LedgerEntry,
    NodeBoot,
)
from gpuaas.clusters.models.imports import ParametersImport
from gpuaas.clusters.models.jobs import ClusterJob
from gpuaas.clusters.models.logins import ClusterLogin, ClusterUse
from gpuaas.clusters.models.policies import (
    PoolSample,
    ScalingDecision,
    ScalingOutcome,
    ScalingPolicy,
)
from gpuaas.clusters.models.templates import (
    ClusterTemplate,
    TemplateGrant,
    TemplateVersion,
)
from gpuaas.clusters.models.warm import WarmPool

__all__ = [
    "Cluster",
    "ClusterGrant",
    "ClusterHolding",
    "ClusterJob",
    "ClusterLogin",
    "ClusterOperation",
    "ClusterOperationStep",
    "ClusterPool",
    "ClusterQueue",
    "ClusterTemplate",
    "ClusterTransition",
    "ClusterUse",
    "LedgerEntry",
    "NodeBoot",
    "ParametersImport",
    "PoolSample",
    "ScalingDecision",
    "ScalingOutcome",
    "ScalingPolicy",
    "TemplateGrant",
    "TemplateVersion",
    "WarmPool",
]
