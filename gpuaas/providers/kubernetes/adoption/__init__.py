"""Adopts namespaces that existed before the portal: candidates, plan, and the label that marks one as a workspace's."""

from gpuaas.providers.kubernetes.adoption.find import adoptable
from gpuaas.providers.kubernetes.adoption.plan import Plan, adopt

__all__ = ["Plan", "adopt", "adoptable"]
