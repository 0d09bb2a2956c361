"""An operator publishes while workers look at the site: one waits for the other, and neither fails."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from gpuaas.catalog.models import GpuPool, GpuType, Site
from gpuaas.catalog.services import pool_publish, site_detach, site_probe
from gpuaas.catalog.services.contracts import pools_lock
from gpuaas.catalog.services.inventory import inventory_apply
from gpuaas.catalog.site import driver_of
from gpuaas.core import clock
from tenants.actors import Actor
from tests.lab.fixtures import until
from tests.workspaces.machines.test_races import waiting

pytestmark = pytest.mark.django_db(transaction=True)


def closed(work: Callable[[], object]) -> object:
    try:
        return work()
    finally:
        connection.close()


def h100(site: Site) -> GpuPool:
    return GpuPool.objects.select_related("gpu_type", "site").get(site=site, gpu_type__slug="h100-sxm-80gb")


def test_a_look_at_the_site_is_written_while_its_new_type_is_published(
    attached: Site, as_olga: Actor
) -> None:
    """The look has the pools and writes the types; who publishes must not have the type and wait for the pool."""
    site_probe(attached.pk)
    inventory, pool = driver_of(attached).probe(), h100(attached)
    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        pools_lock(attached.pk)
        published = threads.submit(closed, lambda: pool_publish(actor=as_olga, pool=pool))
        until(waiting, "who publishes waits for the pool")
        inventory_apply(site=attached, inventory=inventory, breaches={}, at=clock.now())
        transaction.on_commit(lambda: published.result(timeout=60))
    assert GpuType.objects.get(slug="h100-sxm-80gb").state == "active"
    assert pool.flavors.get().state == "active"


def test_a_site_is_detached_while_a_pool_is_published(attached: Site, as_olga: Actor) -> None:
    site_probe(attached.pk)
    pool = h100(attached)
    pool_publish(actor=as_olga, pool=pool)
    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        pools_lock(attached.pk)
        detached = threads.submit(closed, lambda: site_detach(actor=as_olga, site=attached))
        until(waiting, "who detaches waits for the pools")
        pool_publish(actor=as_olga, pool=pool)
        transaction.on_commit(lambda: detached.result(timeout=60))
    assert pool.flavors.get().state == "retired"
