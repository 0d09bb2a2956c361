"""The driver of a workspace's site, and the rule that no site is called inside a transaction."""

from gpuaas.catalog.site import driver_of
from gpuaas.core.outside import outside_transaction

__all__ = ["driver_of", "outside_transaction"]
