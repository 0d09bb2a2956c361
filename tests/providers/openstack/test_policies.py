"""The policies that the operator guide recommends, as they stand there: they close what they claim, and workspaces go on.

On a cloud of its own: they are the whole cloud's.
"""

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from deploy.lab.openstack import Lab
from gpuaas.core.conditions import Status
from gpuaas.core.errors import Unauthorized
from gpuaas.providers.base import Connection, WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.providers.openstack.preflight import ports
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import ALICE, H100, provision, spec_of, take_away
from tests.providers.openstack.test_workspace import as_member, boot

pytestmark = pytest.mark.openstack
GUIDE = Path(__file__).parents[3] / "docs" / "operators" / "openstack.md"
SERVICE = re.compile(r"^    # (\w+)/policy\.yaml:", re.MULTILINE)


def recommended() -> dict[str, dict[str, str]]:
    """By service, from the guide's own text."""
    text = GUIDE.read_text(encoding="utf-8")
    block = re.search(r"\n\n((?:    # \w+/policy\.yaml:.*\n)(?:    .*\n)+)", text)
    assert block is not None
    parts = SERVICE.split(block[1])[1:]
    # after each name comes the rest of its comment, then its rules
    return {
        service: yaml.safe_load(rules.partition("\n")[2])
        for service, rules in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.fixture
def driver(own_openstack_lab: Lab) -> OpenStackDriver:
    credentials = {"clouds_yaml": own_openstack_lab.clouds.read_text(), "cloud": "lab"}
    options = {"external_network": "public", "aliases": {H100: "h100"}}
    return OpenStackDriver(Connection(uuid.uuid4(), "closed", "", credentials, options))


@pytest.fixture
def ready(own_openstack_lab: Lab, driver: OpenStackDriver) -> Iterator[WorkspaceSpec]:
    spec = spec_of(gpus=1, members=(ALICE,))
    try:
        provision(driver, spec)
        yield spec
    finally:
        for service in recommended():
            own_openstack_lab.policies(service, {})
        take_away(driver, spec)


def test_what_they_claim_is_closed_and_machines_still_start(
    own_openstack_lab: Lab, driver: OpenStackDriver, ready: WorkspaceSpec
) -> None:
    alice = as_member(driver, ready)
    (network,) = (
        row["id"] for row in alice.items("network", "/networks", "networks") if row["name"] == "workspace"
    )
    direct = {"network_id": network, "binding:vnic_type": "direct"}
    image = alice.post("image", "/images", {"disk_format": "raw", "container_format": "bare"})["id"]
    before = ports.direct(alice)
    assert (before.status, before.reason) == (Status.FALSE, "Allowed")
    assert "create a direct port and turn a port into a direct one" in before.message

    for service, rules in recommended().items():
        own_openstack_lab.policies(service, rules)
    server = boot(alice)  # with a port that Nova makes on her network
    until(
        lambda: alice.get("compute", f"/servers/{server}")["server"]["status"] == "ACTIVE",
        "she has a machine",
    )
    plain = alice.post("network", "/ports", {"port": {"network_id": network}})["port"]["id"]
    tried = all_that_is_closed(alice, server, plain, image, direct)
    assert {name for rules in recommended().values() for name in rules} == tried.keys()
    for call in tried.values():
        with pytest.raises(Unauthorized):
            call()
    assert alice.delete("network", f"/ports/{plain}")
    assert driver.drift(ready) == ()
    (after,) = (check for check in driver.preflight() if check.type == ports.DIRECT.type)
    assert (after.status, after.reason) == (Status.TRUE, "Refused"), after
    half_closed_is_told(own_openstack_lab, alice)


def half_closed_is_told(lab: Lab, alice: Cloud) -> None:
    """Where one of the two policies was forgotten, and where direct ports alone were thought of."""
    rules = recommended()["neutron"]
    lab.policies("neutron", {"update_port:binding:vnic_type": rules["update_port:binding:vnic_type"]})
    assert "A tenant may create a direct port: " in ports.direct(alice).message
    lab.policies(
        "neutron", {**rules, "create_port:binding:vnic_type": "not field:port:binding:vnic_type=direct"}
    )
    assert "A tenant may create a macvtap port: " in ports.direct(alice).message


def all_that_is_closed(
    alice: Cloud, server: str, port: str, image: str, direct: dict[str, str]
) -> dict[str, Callable[[], object]]:
    """By the policy that forbids it."""
    flavor = alice.items("compute", "/flavors", "flavors")[0]["id"]
    share = {"object_type": "network", "object_id": direct["network_id"], "action": "access_as_shared"}
    everybody = [{"op": "replace", "path": "/visibility", "value": "community"}]
    return {
        "os_compute_api:servers:resize": lambda: alice.post(
            "compute", f"/servers/{server}/action", {"resize": {"flavorRef": flavor}}
        ),
        "create_port:binding:vnic_type": lambda: alice.post("network", "/ports", {"port": direct}),
        "update_port:binding:vnic_type": lambda: alice.put(
            "network", f"/ports/{port}", {"port": {"binding:vnic_type": "direct"}}
        ),
        "create_rbac_policy": lambda: alice.post(
            "network", "/rbac-policies", {"rbac_policy": {**share, "target_tenant": "*"}}
        ),
        "communitize_image": lambda: alice.patch(
            "image", f"/images/{image}", everybody, kind="application/openstack-images-v2.1-json-patch"
        ),
    }
