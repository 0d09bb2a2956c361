"""gpuaas: a portal through which a provider of GPUs rents them out to its tenants."""

__version__ = "0.2.0"

from gpuaas.celery import app as celery_app

__all__ = ["__version__", "celery_app"]
