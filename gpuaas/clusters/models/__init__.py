"""Templates, the clusters that are made of them, and what scales those."""

from gpuaas.clusters.models.clusters import (
    Cluster,
    ClusterGrant,
    ClusterHolding,
    ClusterOperation,
    ClusterOperationStep,
    ClusterPool,
    ClusterTransition,
    LedgerEntry,
    NodeBoot,
)
from gpuaas.clusters.models.imports import ParametersImport
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
    "ClusterOperation",
    "ClusterOperationStep",
    "ClusterPool",
    "ClusterTemplate",
    "ClusterTransition",
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
