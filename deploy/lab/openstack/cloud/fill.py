"""What a cloud's operator sets up once: fill.py FACTS STEP. Each step may be repeated.

identity   service users, endpoints, registered limits, the resource classes of the GPUs
conductor  waits until nova-conductor listens
hosts      waits until every host is up and all its GPUs are in Placement and in Nova, and volumes can be made
resources  an image and a public network
balancing  Octavia's database, service user and endpoint
FACTS is a JSON file: urls, ports, passwords, topology, limit_file, seconds, begun.
"""

import io
import json
import sys
import time
from collections import Counter
from pathlib import Path

import amqp

REGION = "RegionOne"
USERS = {
    "placement": "placement",
    "compute": "nova",
    "image": "glance",
    "network": "neutron",
    "block-storage": "cinder",
}
BALANCING = {"load-balancer": "octavia"}
# small, so that a test meets them; no GPU of any kind, so that each project has to be given some
REGISTERED = {
    "servers": 10,
    "class:VCPU": 64,
    "class:MEMORY_MB": 262_144,
    "class:DISK_GB": 4096,
    "class:VGPU": 0,
    "server_metadata_items": 128,
    "server_injected_files": 5,
    "server_injected_file_content_bytes": 10_240,
    "server_injected_file_path_bytes": 255,
    "server_key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
}
facts = json.loads(Path(sys.argv[1]).read_text())
models, hosts = facts["topology"]["models"], facts["topology"]["hosts"]
deadline = time.monotonic() + facts["seconds"]


def connect(**scope):
    import openstack

    auth = {
        "auth_url": facts["urls"]["identity"],
        "username": "admin",
        "password": facts["passwords"]["admin"],
        "user_domain_id": "default",
        **scope,
    }
    return openstack.connect(auth=auth, region_name=REGION, load_yaml_config=False, load_envvars=False)


def as_admin():
    return connect(project_name="admin", project_domain_id="default")


def wait(look, what):
    """Until `look` returns nothing that is missing."""
    while missing := look():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: {missing}")
        time.sleep(0.2)


def resource_class(model):
    return f"CUSTOM_PCI_{model['vendor_id']}_{model['product_id']}".upper()


def identity():
    keystone = connect(system_scope="all").identity
    endpoints = _services(keystone, USERS)
    # by endpoint: a service and a region instead would do, too, but older Novas answer 500 for a limit of 0 then
    compute = endpoints["compute"]
    Path(facts["limit_file"]).write_text(f"[oslo_limit]\nendpoint_id = {compute.id}\n")
    wanted = dict(REGISTERED)
    wanted |= {f"class:{resource_class(m)}": 0 for m in models.values() if m["kind"] != "vgpu"}
    known = {
        row.resource_name for row in keystone.registered_limits() if row.service_id == compute.service_id
    }
    for name in sorted(wanted.keys() - known):
        keystone.create_registered_limit(
            service_id=compute.service_id, region_id=REGION, resource_name=name, default_limit=wanted[name]
        )
    # nova-computes would make these, but when several do so at once one may wait a minute for its next try
    placement = as_admin().placement
    for model in models.values():
        if model["kind"] != "vgpu":
            path = f"/resource_classes/{resource_class(model)}"
            placement.put(path, microversion="1.7").raise_for_status()
        for trait in model.get("traits", []):
            placement.put(f"/traits/{trait}", microversion="1.6").raise_for_status()


def _services(keystone, users):
    """The public endpoint of each service, after it was made or set right."""
    project = next(keystone.projects(name="service", domain_id="default"), None)
    project = project or keystone.create_project(name="service", domain_id="default")
    roles = {role.name: role for role in keystone.roles()}
    services = {service.type: service for service in keystone.services()}
    known = {(row.service_id, row.interface): row for row in keystone.endpoints(region_id=REGION)}
    public = {}
    for kind, name in users.items():
        user = next(keystone.users(name=name, domain_id="default"), None) or keystone.create_user(
            name=name,
            domain_id="default",
            default_project_id=project.id,
            password=facts["passwords"]["service"],
        )
        for role in ("admin", "service"):
            keystone.assign_project_role_to_user(project, user, roles[role])
        if kind == "compute":
            keystone.assign_system_role_to_user(user, roles["reader"], system="all")
        service = services.get(kind) or keystone.create_service(type=kind, name=name)
        for interface in ("public", "internal"):
            row, url = known.get((service.id, interface)), facts["urls"][kind]
            if row is None:
                row = keystone.create_endpoint(
                    service_id=service.id, interface=interface, region_id=REGION, url=url
                )
            elif row.url != url:
                keystone.update_endpoint(row, url=url)
            if interface == "public":
                public[kind] = row
    return public


def _unserved(queues):
    """Those of the RPC queues that nobody reads yet."""
    left = []
    with amqp.Connection(
        f"127.0.0.1:{facts['ports']['amqp']}", userid="openstack", password=facts["passwords"]["amqp"]
    ) as connection:
        for queue in queues:
            try:
                if not connection.channel().queue_declare(queue, passive=True).consumer_count:
                    left.append(queue)
            except amqp.NotFound:
                left.append(queue)
    return left


def conductor():
    """A nova-compute that asks too early waits ten seconds for no answer."""
    wait(lambda: _unserved(["conductor"]), "nobody serves")


def all_hosts():
    """On a later start the databases say so from last time: then it is the queues and the signs of life that tell."""
    names = [host["name"] for host in hosts]
    wait(
        lambda: _unserved(["conductor", "scheduler", *(f"compute.{name}" for name in names)]), "nobody serves"
    )
    cloud = as_admin()
    wait(lambda: _down(cloud, names), "Nova does not call these up")
    wait(lambda: _unserved(["cinder-scheduler"]), "nobody serves")
    wait(lambda: not _pools(cloud), "Cinder knows no place for volumes")
    cloud.placement.default_microversion = "1.39"
    wait(lambda: _lacking(cloud.placement), "GPUs that are not there")


def _down(cloud, names):
    up = {
        service.host
        for service in cloud.compute.services(binary="nova-compute")
        if service.state == "up" and (not service.updated_at or service.updated_at >= facts["begun"])
    }
    return [name for name in names if name not in up]


def _pools(cloud):
    """Of the scheduler's memory: where it may put a volume."""
    return cloud.block_storage.get("/scheduler-stats/get_pools").json().get("pools")


def _lacking(placement):
    rows, lacking = _pci_rows(), {}
    for host in hosts:
        wanted, devices = _wanted(host)
        found = Counter(_inventory(placement, host["name"]))
        if any(found[name] != amount for name, amount in wanted.items()) or rows.get(host["name"]) != devices:
            lacking[host["name"]] = {
                "wanted": wanted,
                "found": dict(found),
                "devices": rows.get(host["name"]),
            }
    return lacking


def _wanted(host):
    """Inventory by resource class, and how many devices Nova has in its own table."""
    wanted, devices = Counter({"VCPU": host["vcpus"]}), 0
    for gpu in host.get("gpus", []):
        model = models[gpu["model"]]
        if model["kind"] == "vgpu":
            wanted["VGPU"] += gpu["count"] * model["functions"]
            continue
        each = model["functions"] if model["kind"] == "vf" else 1
        wanted[resource_class(model)] += gpu["count"] * each
        devices += gpu["count"] * each
    return dict(wanted), devices


def _inventory(placement, host):
    roots = placement.get("/resource_providers", params={"name": host}).json()["resource_providers"]
    found = Counter()
    for root in roots:
        tree = placement.get("/resource_providers", params={"in_tree": root["uuid"]}).json()
        for provider in tree["resource_providers"]:
            answer = placement.get(f"/resource_providers/{provider['uuid']}/inventories").json()
            for name, inventory in answer["inventories"].items():
                found[name] += inventory["total"]
    return found


def _database(**chosen):
    import pymysql

    return pymysql.connect(
        host="127.0.0.1",
        port=facts["ports"]["mysql"],
        user="openstack",
        password=facts["passwords"]["db"],
        **chosen,
    )


def _pci_rows():
    """The API does not tell, and they are written after Placement's inventory."""
    with _database(database="nova") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT n.host, COUNT(p.id) FROM compute_nodes n LEFT JOIN pci_devices p"
            " ON p.compute_node_id = n.id AND p.deleted = 0 WHERE n.deleted = 0 GROUP BY n.host"
        )
        return dict(cursor.fetchall())


def resources():
    cloud = as_admin()
    image = next(cloud.image.images(name="tiny"), None) or cloud.image.create_image(
        name="tiny",
        disk_format="raw",
        container_format="bare",
        visibility="public",
        data=io.BytesIO(bytes(1024)),
    )
    if next(cloud.network.networks(name="public"), None) is None:
        network = cloud.network.create_network(
            name="public",
            is_router_external=True,
            provider_network_type="flat",
            provider_physical_network="public",
        )
        cloud.network.create_subnet(
            network_id=network.id, name="public", ip_version=4, cidr="192.0.2.0/24", is_dhcp_enabled=False
        )
    wait(lambda: cloud.image.get_image(image).status != "active", "the image is not active")


def balancing():
    with _database() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS octavia")
    _services(connect(system_scope="all").identity, BALANCING)


STEPS = {
    "identity": identity,
    "conductor": conductor,
    "hosts": all_hosts,
    "resources": resources,
    "balancing": balancing,
}

if __name__ == "__main__":
    STEPS[sys.argv[2]]()
