"""A whole virtual cluster with its syncer played, that a module's tests share unless they change it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.providers.base import Change, ClusterSpec
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.vcluster import names
from tests.contracts.clusters.rigs import carry_out
from tests.contracts.clusters.vcluster_rig import VirtualRig
from tests.lab.fixtures import LabSite


@dataclass
class Virtual:
    """host: with every right at the site. syncer: as the cluster's own account there."""

    rig: VirtualRig
    spec: ClusterSpec
    host: Api

    @property
    def syncer(self) -> Api:
        return self.rig.played.syncer(self.spec.external_name)

    @property
    def space(self) -> str:
        return f"{NAMESPACES}/{names.space(self.spec.external_name)}"


@pytest.fixture
def rig(lab: LabSite, virtual_lab: Lab) -> Iterator[VirtualRig]:
    made = VirtualRig(lab, virtual_lab)
    yield made
    made.close()


@pytest.fixture
def virtual(rig: VirtualRig) -> Virtual:
    return whole(rig)


def whole(rig: VirtualRig) -> Virtual:
    spec = rig.spec()
    carry_out(rig.driver, Change.CREATE, spec)
    return Virtual(rig, spec, rig.api)
