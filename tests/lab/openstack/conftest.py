"""A cloud whose machines boot, and what is sold of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.errors import LabError
from deploy.lab.guest.wishes import Flaws
from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.catalog.services.flavors import flavor_create, flavor_publish
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tests.lab.fixtures import until
from tests.lab.openstack.booting import H100, NAME, PORTAL, left_behind


@pytest.fixture(scope="session")
def machine_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(state_dir=tmp_path_factory.mktemp("machines"))
    try:
        lab.up(machines=True)
        yield lab
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        lab.down(purge=True)
    assert left_behind(lab) == []


@pytest.fixture
def booting(machine_lab: Lab, live_server: Any, settings: Any) -> Iterator[Lab]:
    """Its machines find the portal, and nothing is wrong with them at first; none is left at the end."""
    settings.PUBLIC_URL = PORTAL
    machine_lab.wishes.portal_set(live_server.url)
    machine_lab.wishes.flaws_set(Flaws())
    yield machine_lab
    machine_lab.wishes.clear()


@pytest.fixture
def sold(machine_lab: Lab, as_olga: Actor) -> Flavor:
    """Two GPUs for each worker."""
    site = site_create(
        actor=as_olga,
        slug="cloud-1",
        name="Cloud",
        driver="openstack",
        credentials={"clouds_yaml": machine_lab.clouds.read_text(), "cloud": "lab"},
        options={"external_network": "public", "aliases": {NAME: "h100"}},
    )
    until(lambda: site_probe(site.pk), "the site answers")
    pool = GpuPool.objects.get(site=site, gpu_type__slug=H100)
    pool_publish(actor=as_olga, pool=pool)
    flavor = flavor_create(
        actor=as_olga, pool=pool, slug="h100.two", name="2 × H100", vcpus=2, memory_gib=4, disk_gib=8, gpus=2
    )
    flavor_publish(actor=as_olga, flavor=flavor)
    capacity_sync(str(site.pk))
    return flavor
