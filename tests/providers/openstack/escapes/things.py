"""Of Neutron and Glance."""

from typing import Any

from tests.providers.openstack.escapes.shapes import Escape, each

DENIED = "disallowed by policy"
UNKNOWN: dict[str, Any] = {"status": 404, "words": ""}
FOREIGN: dict[str, Any] = {"status": 400, "words": "other than the authenticated project"}
PROVIDER = {
    "provider:network_type": "vlan",
    "provider:physical_network": "physnet1",
    "provider:segmentation_id": 100,
}

NETWORK = [
    *each("POST", "network", [
        ("choose the PCI device of a port", "/ports",
         {"port": {"network_id": "{network}", "binding:profile": {"pci_slot": "0000:10:00.0"}}}),
        ("choose the host of a port", "/ports",
         {"port": {"network_id": "{network}", "binding:host_id": "gpu-mixed-1"}}),
        ("a port of another tenant's network", "/ports", {"port": {"network_id": "{their_network}"}}, UNKNOWN),
        ("a port of the outside network", "/ports", {"port": {"network_id": "{public}"}}),
        ("a port that counts as another tenant's", "/ports",
         {"port": {"network_id": "{network}", "project_id": "{theirs}"}}, FOREIGN),
        ("a network that counts as another tenant's", "/networks", {"network": {"project_id": "{theirs}"}}, FOREIGN),
        ("a floating IP that counts as another tenant's", "/floatingips",
         {"floatingip": {"floating_network_id": "{public}", "project_id": "{theirs}"}}, FOREIGN),
        ("a network that everybody sees", "/networks", {"network": {"shared": True}}),
        ("a network to the outside", "/networks", {"network": {"router:external": True}}),
        ("a network on the site's own wires", "/networks", {"network": PROVIDER}),
        ("a subnet of the outside network", "/subnets",
         {"subnet": {"network_id": "{public}", "ip_version": 4, "cidr": "198.51.100.0/24"}}),
        ("share a network with everybody", "/rbac-policies",
         {"rbac_policy": {"object_type": "network", "object_id": "{network}", "action": "access_as_shared",
                          "target_tenant": "*"}}),
        ("share one's own network with another tenant", "/rbac-policies",
         {"rbac_policy": {"object_type": "network", "object_id": "{network}", "action": "access_as_shared",
                          "target_tenant": "{theirs}"}}, {"status": 409, "words": "Quota exceeded"}),
        ("a subnet pool of one's own", "/subnetpools",
         {"subnetpool": {"name": "mine", "prefixes": ["10.9.0.0/16"]}}, {"status": 409, "words": "Quota exceeded"}),
        ("share another tenant's network with oneself", "/rbac-policies",
         {"rbac_policy": {"object_type": "network", "object_id": "{their_network}", "action": "access_as_shared",
                          "target_tenant": "{project}"}}, {"status": 409, "words": "Quota exceeded"}),
        ("an address scope for everybody", "/address-scopes",
         {"address_scope": {"name": "mine", "ip_version": 4, "shared": True}}),
        ("a subnet pool for everybody", "/subnetpools",
         {"subnetpool": {"name": "mine", "prefixes": ["10.9.0.0/16"], "shared": True}}),
        ("open another tenant's security group", "/security-group-rules",
         {"security_group_rule": {"security_group_id": "{their_group}", "direction": "ingress"}}),
    ]),
    *each("PUT", "network", [
        ("raise one's quotas in Neutron", "/quotas/{project}", {"quota": {"port": 999}}),
        ("choose the PCI device of a port that is there", "/ports/{port}",
         {"port": {"binding:profile": {"pci_slot": "0000:10:00.0"}}}),
        ("choose the host of a port that is there", "/ports/{port}", {"port": {"binding:host_id": "gpu-mixed-1"}}),
        ("rename the outside network", "/networks/{public}", {"network": {"name": "mine"}}),
        ("change another tenant's router", "/routers/{their_router}", {"router": {"name": "mine"}}, UNKNOWN),
    ]),
    *each("DELETE", "network", [
        ("take off one's quotas in Neutron", "/quotas/{project}"),
        ("delete another tenant's network", "/networks/{their_network}", None, UNKNOWN),
        ("delete another tenant's port", "/ports/{their_port}", None, UNKNOWN),
        ("delete another tenant's security group", "/security-groups/{their_group}", None, UNKNOWN),
    ]),
    *each("GET", "network", [
        ("look at another tenant's network", "/networks/{their_network}", None, UNKNOWN),
        ("look at another tenant's port", "/ports/{their_port}", None, UNKNOWN),
        ("look at another tenant's quotas", "/quotas/{theirs}"),
    ]),
]  # fmt: skip

IMAGE = [
    *each("POST", "image", [
        ("an image for everybody", "/images", {"name": "mine", "visibility": "public"}),
        ("an image that counts as another tenant's", "/images", {"name": "mine", "owner": "{theirs}"}),
        ("let oneself use another tenant's image", "/images/{their_image}/members", {"member": "{project}"}, UNKNOWN),
    ], words="not"),
    *each("GET", "image", [
        ("look at another tenant's image", "/images/{their_image}", None, UNKNOWN),
        ("read another tenant's image", "/images/{their_image}/file", None, UNKNOWN),
    ]),
    Escape("delete another tenant's image", "DELETE", "image", "/images/{their_image}", **UNKNOWN),
    Escape("delete the site's image", "DELETE", "image", "/images/{image}", words="not"),
]  # fmt: skip

ALL = [
    Escape(row.what, row.verb, row.service, row.path, row.body, row.status,
           row.words or (DENIED if row.service == "network" and row.status == 403 else ""))
    for row in (*NETWORK, *IMAGE)
]  # fmt: skip

KEY = {"name": "k", "type": "ssh", "public_key": "ssh-ed25519 AAAA"}
# what a member may do, and somebody who may only look may not
ORDINARY = [
    *each("POST", "compute", [
        ("make a machine", "/servers",
         {"server": {"name": "more", "flavorRef": "{flavor}", "imageRef": "{image}", "networks": "none"}}),
        ("stop a machine", "/servers/{server}/action", {"os-stop": None}),
        ("reboot a machine", "/servers/{server}/action", {"reboot": {"type": "HARD"}}),
        ("shelve a machine", "/servers/{server}/action", {"shelve": None}),
        ("pause a machine", "/servers/{server}/action", {"pause": None}),
        ("lock a machine", "/servers/{server}/action", {"lock": None}),
        ("resize a machine", "/servers/{server}/action", {"resize": {"flavorRef": "{flavor}"}}),
        ("rebuild a machine", "/servers/{server}/action", {"rebuild": {"imageRef": "{image}"}}),
        ("take a snapshot", "/servers/{server}/action", {"createImage": {"name": "mine"}}),
        ("plug a port in", "/servers/{server}/os-interface", {"interfaceAttachment": {"net_id": "{network}"}}),
        ("open a console", "/servers/{server}/remote-consoles",
         {"remote_console": {"protocol": "vnc", "type": "novnc"}}),
        ("make a server group", "/os-server-groups", {"server_group": {"name": "mine", "policy": "affinity"}}),
    ]),
    Escape("delete a machine", "DELETE", "compute", "/servers/{server}"),
    Escape("mark a machine", "PUT", "compute", "/servers/{server}/metadata/a", {"meta": {"a": "b"}}),
    *each("POST", "network", [
        ("make a network", "/networks", {"network": {"name": "mine"}}),
        ("make a port", "/ports", {"port": {"network_id": "{network}"}}),
        ("make a direct port", "/ports", {"port": {"network_id": "{network}", "binding:vnic_type": "direct"}}),
        ("take a floating IP", "/floatingips", {"floatingip": {"floating_network_id": "{public}"}}),
        ("make a security group", "/security-groups", {"security_group": {"name": "mine"}}),
        ("share a network with another tenant", "/rbac-policies",
         {"rbac_policy": {"object_type": "network", "object_id": "{network}", "action": "access_as_shared",
                          "target_tenant": "{theirs}"}}),
    ]),
    Escape("delete a network", "DELETE", "network", "/networks/{network}"),
    Escape("make a port direct", "PUT", "network", "/ports/{port}", {"port": {"binding:vnic_type": "direct"}}),
    Escape("make an image", "POST", "image", "/images", {"name": "mine"}),
]  # fmt: skip
