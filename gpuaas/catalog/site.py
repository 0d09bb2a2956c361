"""The driver of a site, with its credentials opened for this one use; and what it is able to do, which needs none."""

from gpuaas.catalog.models import Site
from gpuaas.core.crypto import decrypt_json
from gpuaas.providers.base import Connection, Driver
from gpuaas.providers.registry import driver_for, driver_kind


def connection_of(site: Site) -> Connection:
    return Connection(
        site_id=site.pk,
        site_slug=site.slug,
        endpoint=site.endpoint,
        credentials=decrypt_json(site.credentials),
        options=site.options,
    )


def driver_of(site: Site) -> Driver:
    return driver_for(site.driver, connection_of(site))


def kind_of(site: Site) -> type[Driver]:
    """For `issubclass` with the capabilities."""
    return driver_kind(site.driver)
