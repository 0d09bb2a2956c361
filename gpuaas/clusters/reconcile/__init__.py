"""Making the site match what is wanted: `plan` decides, `run` does, `record` writes down."""

from gpuaas.clusters.reconcile.run import run

__all__ = ["run"]
