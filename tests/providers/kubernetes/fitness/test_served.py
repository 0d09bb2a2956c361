"""Sites that serve other versions of APIs than the newest: what the portal cannot do there, it says, or it refuses."""

from collections.abc import Iterator

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Permanent
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.preflight.rights import site_role
from tests.lab.fixtures import LabSite
from tests.providers.kubernetes.conftest import H100, Room, make_room, make_spec
from tests.providers.kubernetes.escapes.shapes import claim
from tests.providers.kubernetes.fitness.conftest import account, control_plane
from tests.providers.kubernetes.fitness.test_findings import DAEMON_SETS, daemon_set, found, standing
from tests.providers.kubernetes.test_escapes import H200

HONORS = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
EARLIER = ("v1beta1", "v1beta2")
SERVED = ",".join(
    [
        *(f"resource.k8s.io/{version}=true" for version in EARLIER),
        *(
            f"admissionregistration.k8s.io/v1/mutatingadmissionpolic{end}=false"
            for end in ("ies", "ybindings")
        ),
    ]
)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with control_plane(
        tmp_path_factory.mktemp("older"), runtime_config=SERVED, feature_gates="MutatingAdmissionPolicy=false"
    ) as lab:
        yield lab


@pytest.fixture(scope="module")
def room(older: Lab) -> Room:
    return make_room(LabSite(older.kubeconfig), make_spec(gpus=(H100, H200)))


@pytest.mark.parametrize("version", EARLIER)
def test_claims_of_earlier_versions_are_refused(room: Room, version: str) -> None:
    """Where v1 is not served no claim is converted to it, so the rules for v1 would see none of them."""
    one = claim()
    if version == "v1beta1":
        one = {"devices": {"requests": [{"name": "gpu", "deviceClassName": "h200"}]}}
    for plural, spec in (("resourceclaims", one), ("resourceclaimtemplates", {"spec": one})):
        body = {"metadata": {"name": "mine"}, "spec": spec}
        with pytest.raises(Permanent, match=r"use resource\.k8s\.io/v1"):
            room.tenant.create(room.path(plural, f"/apis/resource.k8s.io/{version}"), body)


def test_nothing_is_sold_where_images_reach_gpus_and_nobody_can_hide_them(older: Lab, room: Room) -> None:
    portal, admin = account(older, site_role()), Api(older.kubeconfig.read_text())
    unknown = found(portal, "VisibleDevices")
    assert (unknown.status, unknown.reason) == (Status.UNKNOWN, "NotShown")
    assert "serves no MutatingAdmissionPolicy" in unknown.message
    toolkit = daemon_set("nvidia-container-toolkit-daemonset", "toolkit:1", env={HONORS: "true"})
    with standing(admin, DAEMON_SETS, toolkit):
        check = found(portal, "VisibleDevices")
    assert (check.status, check.reason, check.blocking) == (Status.FALSE, "Open", True)
