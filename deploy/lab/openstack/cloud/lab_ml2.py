"""A Neutron mechanism driver that binds every port: with no agents, the others would fail every boot. And a
floating IP of a port is ACTIVE,
as the router's agent would report it: there are clients that wait for it."""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins.ml2 import api


class LabMechanismDriver(api.MechanismDriver):
    def initialize(self):
        for event in (events.AFTER_CREATE, events.AFTER_UPDATE):
            registry.subscribe(report_floating_ip, resources.FLOATING_IP, event)

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
