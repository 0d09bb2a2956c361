"""Hosts of a rack, and the people of a cluster that they join."""

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from deploy.lab.kubernetes import Lab, LabError
from gpuaas.core import clock
from gpuaas.providers.baremetal.models import Host, HostState
from gpuaas.providers.kubernetes.client import Api
from tests.lab.fixtures import LabSite
from tests.providers.baremetal.kubelets import MACHINE_CONFIG, Asker, account

BoundHost = Callable[..., Host]
_NUMBERS = itertools.count(1)


def host_make(site_id: uuid.UUID, **facts: object) -> Host:
    number = next(_NUMBERS)
    made = {
        "name": f"dgx-{uuid.uuid4().hex[:8]}",
        "resource_name": "nvidia.com/gpu",
        "gpus": 8,
        "bmc_address": f"redfish-virtualmedia://10.1.{number // 250}.{number % 250 + 1}/redfish/v1/Systems/1",
        "bmc_secret": "bmc",
        "boot_mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
        "interfaces": [{"name": "eno1", "mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"}],
        "addresses": [f"192.0.2.{number % 250 + 1}"],
        "root_device": {"deviceName": "/dev/nvme0n1"},
        **facts,
    }
    return Host.objects.create(site_id=site_id, **made)


@pytest.fixture
def cluster_id() -> uuid.UUID:
    return uuid.uuid4()


@pytest.fixture
def bound(db: None, cluster_id: uuid.UUID) -> BoundHost:
    """A host that was bound to the cluster just now."""
    site_id = uuid.uuid4()

    def one(**facts: object) -> Host:
        held = {"state": HostState.BOUND, "cluster_id": cluster_id, "bound_at": clock.now(), "binding": 1}
        return host_make(site_id, **{**held, **facts})

    return one


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
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
def admin(plane: LabSite) -> Api:
    return plane.api()


@pytest.fixture(scope="package")
def bootstrapper(plane: LabSite, admin: Api) -> Asker:
    """Whose credential OpenShift gives to machines that boot for the first time."""
    return account(admin, plane.kubeconfig, MACHINE_CONFIG, "node-bootstrapper")


@pytest.fixture(scope="package")
def tenant(plane: LabSite, admin: Api) -> Asker:
    """Somebody who may create requests all the same."""
    return account(admin, plane.kubeconfig, "somebody-else", "node-bootstrapper")
