"""A Neutron mechanism driver that binds every port: with no agents, the others would fail every boot. And a
floating IP of a port is ACTIVE,
as the router's agent would report it: there are clients that wait for it.

Where GPUAAS_LAB_MACHINES names a folder, each floating IP of a port is written there, as `deploy/lab/guest/wishes.py` reads it: machines
that boot are reached by it.
"""

import json
import os
from pathlib import Path

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api


class LabMechanismDriver(api.MechanismDriver):
    def initialize(self):
        for event in (events.AFTER_CREATE, events.AFTER_UPDATE):
            registry.subscribe(report_floating_ip, resources.FLOATING_IP, event)
        registry.subscribe(forget_floating_ip, resources.FLOATING_IP, events.AFTER_DELETE)

    def bind_port(self, context):
        segment = next(iter(context.segments_to_bind), None)
        if segment is not None:
            details = {portbindings.CAP_PORT_FILTER: True, portbindings.OVS_HYBRID_PLUG: False}
            context.set_binding(
                segment[api.ID], portbindings.VIF_TYPE_OVS, details, status=constants.PORT_STATUS_ACTIVE
            )


def report_floating_ip(resource, event, routers, payload):
    found = payload.latest_state
    is_used = bool(found.get("port_id"))
    status = constants.FLOATINGIP_STATUS_ACTIVE if is_used else constants.FLOATINGIP_STATUS_DOWN
    routers.update_floatingip_status(payload.context.elevated(), payload.resource_id, status)
    if is_used:
        lead(payload.context.elevated(), payload.resource_id, found)
    else:
        forget_floating_ip(resource, event, routers, payload)


def forget_floating_ip(resource, event, routers, payload):
    file_of(payload.resource_id).unlink(missing_ok=True)


def lead(context, identity, address):
    if "GPUAAS_LAB_MACHINES" not in os.environ:
        return
    network = directory.get_plugin().get_port(context, address["port_id"])["network_id"]
    leads = {"address": address["floating_ip_address"], "network": network, "to": address["fixed_ip_address"]}
    file = file_of(identity)
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_suffix(".new")
    half.write_text(json.dumps(leads))
    half.replace(file)


def file_of(identity):
    return Path(os.environ.get("GPUAAS_LAB_MACHINES", os.devnull)) / "outside" / f"{identity}.json"
