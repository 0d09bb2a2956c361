"""The driver of a workspace's site, and the rule that no site is called inside a transaction."""

from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.core.crypto import decrypt_json
from gpuaas.providers.base import Connection, Driver
from gpuaas.providers.registry import driver_for


def driver_of(site: Site) -> Driver:
    connection = Connection(
        site_id=site.pk,
        site_slug=site.slug,
        endpoint=site.endpoint,
        credentials=decrypt_json(site.credentials),
        options=site.options,
    )
    return driver_for(site.driver, connection)


def outside_transaction() -> None:
    """Raises RuntimeError inside a transaction (that of a test case does not count): a slow site must hold no lock."""
    with transaction.atomic(durable=True):
        pass
