"""Checks whether tenants may create ports with devices, which no limit counts; tested with a member's rights."""

from collections.abc import Callable

from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import Check
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.verdicts import Kind, some

DIRECT = Kind("DirectPorts")
# kinds for which Nova looks for a device
KINDS = (
    "direct",
    "macvtap",
    "direct-physical",
    "virtio-forwarder",
    "vdpa",
    "remote-managed",
    "accelerator-direct",
    "accelerator-direct-physical",
)
# quota of a project for this test, by Neutron's names
ROOM = {"network": 1, "port": 2, "security_group": 1, "security_group_rule": 4}
REMEDY = (
    'Set "create_port:binding:vnic_type" and "update_port:binding:vnic_type" to "role:admin or role:service" in Neutron\'s '
    "policy.yaml; if tenants need such ports, list no virtual function of a GPU in [pci] device_spec without a physical_network."
)


def direct(own: Cloud) -> Check:
    """`own`: signed in as a member of a project. Everything created is deleted again."""
    network = own.post("network", "/networks", {"network": {"name": "gpuaas-canary"}})["network"]["id"]
    try:
        plain = _made(own, {"network_id": network})
        made = _first(lambda kind: _remove(own, _made(own, {"network_id": network, **_of(kind)})))
        turned = _first(lambda kind: own.put("network", f"/ports/{plain}", {"port": _of(kind)}))
        _remove(own, plain)
    finally:
        own.delete("network", f"/networks/{network}")
    may = [f"create a {made} port"] if made else []
    may += [f"turn a port into a {turned} one"] if turned else []
    if may:
        return DIRECT.bad(
            "Allowed",
            f"A tenant may {' and '.join(may)}: a machine with it gets any virtual function without a physical_network, which no "
            "limit counts. The warden removes it.",
            REMEDY,
        )
    return DIRECT.good(
        "Refused", f"Tenants cannot create ports with devices: tested {some(list(KINDS), most=8)}."
    )


def clean_up(cloud: Cloud, project_id: str) -> None:
    """Delete leftovers of a killed test, and Neutron's own objects of the project."""
    for path in ("ports", "networks", "security-groups"):
        for row in cloud.items("network", f"/{path}", path.replace("-", "_"), project_id=project_id):
            cloud.delete("network", f"/{path}/{row['id']}")
    cloud.delete("network", f"/quotas/{project_id}")


def _of(kind: str) -> Object:
    return {"binding:vnic_type": kind}


def _made(own: Cloud, port: Object) -> str:
    return str(own.post("network", "/ports", {"port": port})["port"]["id"])


def _remove(own: Cloud, port: str) -> None:
    own.delete("network", f"/ports/{port}")


def _first(ask: Callable[[str], object]) -> str:
    """The first kind that is not refused, "" = none. Versions of Neutron that do not know a kind refuse it."""
    for kind in KINDS:
        try:
            ask(kind)
        except (Unauthorized, Permanent):
            continue
        return kind
    return ""
