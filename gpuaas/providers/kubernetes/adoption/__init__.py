"""Taking over namespaces that were there before the portal: which, what it would mean, and the mark that does it."""

from gpuaas.providers.kubernetes.adoption.find import adoptable
from gpuaas.providers.kubernetes.adoption.plan import Plan, adopt

__all__ = ["Plan", "adopt", "adoptable"]
