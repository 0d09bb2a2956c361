"""Of Nova and Placement: both GPUs of the workspace are taken when these are tried."""

from typing import Any

from tests.providers.openstack.escapes.shapes import REFUSED, Escape, each

OVER: dict[str, Any] = {"words": "CUSTOM_PCI_10DE_20B0 is over limit of 2"}
UNKNOWN: dict[str, Any] = {"status": 404, "words": "could not be found"}
HINTED: dict[str, Any] = {"words": "requested_destination"}


def server(**more: Any) -> dict[str, Any]:
    body = {"name": "more", "flavorRef": "{flavor}", "imageRef": "{image}", "networks": "none"}
    return {"server": {**body, **more}}


def disk(**more: Any) -> dict[str, Any]:
    return {"boot_index": -1, "source_type": "blank", "destination_type": "local", **more}


ROOT = {"boot_index": 0, "uuid": "{image}", "source_type": "image", "destination_type": "local"}

BOOTS = each(
    "POST",
    "compute",
    [
        ("boot one more machine than was bought", "/servers", server(), OVER),
        ("boot three in one request", "/servers", server(min_count=3, max_count=3), OVER),
        ("boot as many as there are, from one up", "/servers", server(min_count=1, max_count=9), OVER),
        ("boot one more as if it were not of the workspace", "/servers", server(project_id="{theirs}"),
         {"status": 400, "words": "Additional properties"}),
        ("boot with extra specs of one's own", "/servers", server(extra_specs={"pci_passthrough:alias": "a100:8"}),
         {"status": 400, "words": "Additional properties"}),
        ("boot with a hint at a host", "/servers",
         {**server(), "os:scheduler_hints": {"same_host": ["{server}"]}}, OVER),
        ("boot with a hint that asks for devices", "/servers",
         {**server(), "os:scheduler_hints": {"query": '["=", "$free_ram_mb", 1]'}}, OVER),
        ("boot on a host by the availability zone", "/servers", server(availability_zone="nova:gpu-a100-1"),
         {"words": "forced_host"}),
        ("boot on a host by its name", "/servers", server(host="gpu-a100-1"), HINTED),
        ("boot on a hypervisor by its name", "/servers", server(hypervisor_hostname="gpu-a100-1"), HINTED),
        ("boot with another tenant's flavor by its id", "/servers", server(flavorRef="{their_flavor}"),
         {"status": 400, "words": "could not be found"}),
        ("boot with another tenant's flavor by its name", "/servers", server(flavorRef="{their_flavor_name}"),
         {"status": 400, "words": "could not be found"}),
        ("boot from another tenant's image", "/servers", server(imageRef="{their_image}"),
         {"status": 400, "words": "image"}),
        ("boot on another tenant's network", "/servers", server(networks=[{"uuid": "{their_network}"}]),
         {"status": 400, "words": "could not be found"}),
        ("boot with another tenant's port", "/servers", server(networks=[{"port": "{their_port}"}]),
         {"status": 400, "words": "could not be found"}),
        ("boot with disks that were not bought", "/servers",
         server(block_device_mapping_v2=[ROOT, disk(volume_size=9999)]), OVER),
        ("boot with swap that was not bought", "/servers",
         server(block_device_mapping_v2=[ROOT, disk(volume_size=9999, guest_format="swap")]),
         OVER),
    ],
)  # fmt: skip

FLAVORS = [
    *each("GET", "compute", [
        ("look at another tenant's flavor", "/flavors/{their_flavor}", None, UNKNOWN),
        ("see who else has a flavor", "/flavors/{flavor}/os-flavor-access"),
    ]),
    *each("POST", "compute", [
        ("make a flavor", "/flavors", {"flavor": {"name": "mine", "vcpus": 1, "ram": 1024, "disk": 1}}),
        ("grant oneself another tenant's flavor", "/flavors/{their_flavor}/action",
         {"addTenantAccess": {"tenant": "{project}"}}),
        ("make a flavor of eight GPUs out of one", "/flavors/{flavor}/os-extra_specs",
         {"extra_specs": {"pci_passthrough:alias": "a100:8"}}),
    ], words=REFUSED),
    *each("PUT", "compute", [
        ("change what a flavor asks for", "/flavors/{flavor}/os-extra_specs/pci_passthrough:alias",
         {"pci_passthrough:alias": "a100:8"}),
        ("rename a flavor", "/flavors/{flavor}", {"flavor": {"description": "mine"}}),
    ], words=REFUSED),
    Escape("delete the portal's flavor", "DELETE", "compute", "/flavors/{flavor}", words=REFUSED),
]  # fmt: skip


def action(**body: Any) -> tuple[str, dict[str, Any]]:
    return "/servers/{server}/action", body


ACTIONS = each(
    "POST",
    "compute",
    [
        ("resize to another tenant's flavor", *action(resize={"flavorRef": "{their_flavor}"}),
         {"status": 400, "words": "could not be found"}),
        ("resize to the same flavor", *action(resize={"flavorRef": "{flavor}"}),
         {"status": 400, "words": "must change flavor"}),
        ("move a machine to another host", *action(migrate=None)),
        ("move a running machine to a host of one's choice",
         *action(**{"os-migrateLive": {"host": "gpu-mixed-1", "block_migration": "auto"}})),
        ("evacuate a machine", *action(evacuate={})),
        ("reset the state of a machine", *action(**{"os-resetState": {"state": "active"}})),
        ("give back a shelved machine's devices at will", *action(shelveOffload=None)),
        ("inject network information", *action(injectNetworkInfo=None)),
        ("bring back what was deleted", *action(restore=None), {"status": 409}),
        ("tell Nova of events as Neutron does", "/os-server-external-events",
         {"events": [{"name": "network-changed", "server_uuid": "{server}"}]}, {"words": REFUSED}),
    ],
)  # fmt: skip

THEIRS = [
    *each("GET", "compute", [
        ("look at another tenant's machine", "/servers/{their_server}", None, UNKNOWN),
        ("see what was done with another tenant's machine", "/servers/{their_server}/os-instance-actions",
         None, UNKNOWN),
        ("list the machines of all tenants", "/servers/detail?all_tenants=1"),
        ("list the machines of one other tenant", "/servers?all_tenants=1&project_id={theirs}"),
        ("list another member's keys", "/os-keypairs?user_id={other}"),
        ("see what others use", "/os-simple-tenant-usage?detailed=1"),
        ("see what one other tenant uses", "/os-simple-tenant-usage/{theirs}"),
        ("see another tenant's limits", "/limits?tenant_id={theirs}"),
        ("see another tenant's quotas", "/os-quota-sets/{theirs}"),
        ("see the hypervisors", "/os-hypervisors/detail"),
        ("see the hosts of the zones", "/os-availability-zone/detail"),
        ("see the aggregates", "/os-aggregates"),
        ("see what moves", "/os-migrations"),
    ]),
    *each("POST", "compute", [
        ("stop another tenant's machine", "/servers/{their_server}/action", {"os-stop": None}, UNKNOWN),
        ("open another tenant's console", "/servers/{their_server}/remote-consoles",
         {"remote_console": {"protocol": "vnc", "type": "novnc"}}, UNKNOWN),
        ("read another tenant's console", "/servers/{their_server}/action", {"os-getConsoleOutput": {}}, UNKNOWN),
        ("set another tenant's password", "/servers/{their_server}/action",
         {"changePassword": {"adminPass": "mine"}}, UNKNOWN),
        ("make a key for another member", "/os-keypairs",
         {"keypair": {"name": "k", "type": "ssh", "user_id": "{other}", "public_key": "ssh-ed25519 AAAA"}}),
        ("plug a port into another tenant's machine", "/servers/{their_server}/os-interface",
         {"interfaceAttachment": {"net_id": "{network}"}}, UNKNOWN),
    ]),
    Escape("delete another tenant's machine", "DELETE", "compute", "/servers/{their_server}", **UNKNOWN),
    Escape("mark another tenant's machine", "PUT", "compute", "/servers/{their_server}/metadata/a",
           {"meta": {"a": "b"}}, **UNKNOWN),
    Escape("raise one's quota in Nova", "PUT", "compute", "/os-quota-sets/{project}", {"quota_set": {"cores": 99}},
           words=REFUSED),
]  # fmt: skip

PLACEMENT = [
    *each("GET", "placement", [
        ("see the site's GPUs", "/resource_providers"),
        ("see where GPUs are free", "/allocation_candidates?resources=VCPU:1"),
        ("see what another tenant holds", "/usages?project_id={theirs}"),
        ("see what a machine was given", "/allocations/{server}"),
    ], words="Policy does not allow"),
    Escape("give back one's own allocation and keep the GPU", "DELETE", "placement", "/allocations/{server}",
           words="Policy does not allow"),
    Escape("write an allocation of eight GPUs", "PUT", "placement", "/allocations/{server}",
           {"allocations": {}, "project_id": "{project}", "user_id": "{me}", "consumer_generation": None,
            "consumer_type": "INSTANCE"}, words="Policy does not allow"),
    Escape("move allocations about", "POST", "placement", "/reshaper", {}, words="Policy does not allow"),
]  # fmt: skip

ALL = [*BOOTS, *FLAVORS, *ACTIONS, *THEIRS, *PLACEMENT]
