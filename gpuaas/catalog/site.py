"""The driver of a site with its credentials, decrypted for this use; and its capabilities, which need none."""

from gpuaas.catalog.models import Site
from gpuaas.core.crypto import decrypt_json
from gpuaas.providers.base import Connection, Driver, SoldPool
from gpuaas.providers.registry import driver_class, driver_for


def connection_of(site: Site, *, sold: tuple[SoldPool, ...] = ()) -> Connection:
    return Connection(
        site_id=site.pk,
        site_slug=site.slug,
        endpoint=site.endpoint,
        credentials=decrypt_json(site.credentials),
        options=site.options,
        sold=sold,
    )


def driver_of(site: Site, *, sold: tuple[SoldPool, ...] = ()) -> Driver:
    """`sold`: for the probe."""
    return driver_for(site.driver, connection_of(site, sold=sold))


def kind_of(site: Site) -> type[Driver]:
    """For `issubclass` with the capabilities."""
    return driver_class(site.driver)
