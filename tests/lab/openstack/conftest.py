"""A cloud whose machines boot, and what is sold of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.errors import LabError
from deploy.lab.guest.wishes import Flaws
from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tests.lab.openstack.booting import PORTAL, flavor_sold, left_behind, site_made


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
    return flavor_sold(as_olga, site_made(as_olga, machine_lab, "cloud-1"), "h100.two")
