"""Hosts of a rack, and the people of a cluster that they join."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from deploy.lab.kubernetes import Lab, LabError
from gpuaas.core import clock
from gpuaas.providers.baremetal.models import Host, HostState
from gpuaas.providers.kubeapi.client import Api
from tests.lab.fixtures import LabSite
from tests.providers.baremetal.kubelets import MACHINE_CONFIG, Asker, account
from tests.providers.baremetal.rack import host_make

BoundHost = Callable[..., Host]


@pytest.fixture
def cluster_id() -> uuid.UUID:
    return uuid.uuid4()


@pytest.fixture
def bound(db: None, cluster_id: uuid.UUID) -> BoundHost:
    """A host that was bound to the cluster just now."""
    site_id = uuid.uuid4()

    def one(**facts: object) -> Host:
        held = {"state": HostState.BOUND, "cluster_id": cluster_id, "bound_at": clock.now(), "binding": 1}
        slot = f"gpu-{Host.objects.filter(cluster_id=cluster_id).count() + 1}"
        return host_make(site_id, **{**held, "slot": slot, **facts})

    return one


@pytest.fixture(scope="package")
def bare_metal_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """A control plane of its own: an approver looks at every request of its cluster."""
    lab = Lab(state_dir=tmp_path_factory.mktemp("bare-metal"))
    try:
        lab.up()
    except LabError as error:
        lab.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    yield LabSite(lab.kubeconfig)
    lab.down(purge=True)


@pytest.fixture(scope="package")
def admin(bare_metal_lab: LabSite) -> Api:
    return bare_metal_lab.api()


@pytest.fixture(scope="package")
def bootstrapper(bare_metal_lab: LabSite, admin: Api) -> Asker:
    """Whose credential OpenShift gives to machines that boot for the first time."""
    return account(admin, bare_metal_lab.kubeconfig, MACHINE_CONFIG, "node-bootstrapper")


@pytest.fixture(scope="package")
def tenant(bare_metal_lab: LabSite, admin: Api) -> Asker:
    """Somebody who may create requests all the same."""
    return account(admin, bare_metal_lab.kubeconfig, "somebody-else", "node-bootstrapper")
