"""Adds to every error of a site which site was called, and for what."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpuaas.core.errors import GpuaasError


@contextmanager
def evident(site: str, verb: str) -> Iterator[None]:
    """Adds `site` and `verb` as evidence to an error that has none."""
    try:
        yield
    except GpuaasError as error:
        error.detail.setdefault("evidence", [f"{site} {verb}: {error.message}"])
        raise
