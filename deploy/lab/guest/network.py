"""Networks that nothing of the host's own shows in: for each a namespace with a bridge, and for each machine one with a card on it. By one
more bridge the networks reach the floating IPs of each other, as routers to one external network."""

import ctypes
import ipaddress
import os
import socket
import threading
from collections.abc import Iterable
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.guest.wishes import Outside

TAG = "gpuaas-guest"
METADATA = "169.254.169.254"
NAMESPACES = Path("/run/netns")
WIDTH = 16  # of a cluster's subnet
FLOATING = "192.0.2.0/24"  # as the cloud has it (openstack/cloud/fill.py)
ROUTERS = ipaddress.ip_network("198.18.0.0/16")  # where routers have addresses of their own
CLONE_NEWNET = 0x40000000


def hub_name(network: str, lab: str) -> str:
    return f"{TAG}-{lab}-net-{network[:8]}"


def machine_name(uuid: str, lab: str) -> str:
    return f"{TAG}-{lab}-{uuid[:8]}"


def hub_make(name: str, address: str) -> None:
    """With the first address of the machines' subnet, as a router has it, and that of the metadata service."""
    router = next(ipaddress.ip_network(f"{address}/{WIDTH}", strict=False).hosts())
    output_of("ip", "netns", "add", name)
    output_of("ip", "-n", name, "link", "set", "lo", "up")
    output_of("ip", "-n", name, "link", "add", "br0", "up", "type", "bridge")
    output_of("ip", "-n", name, "address", "add", f"{router}/{WIDTH}", "dev", "br0")
    output_of("ip", "-n", name, "address", "add", f"{METADATA}/32", "dev", "br0")


def outside_name(lab: str) -> str:
    return f"{TAG}-{lab}-net-outside"


def outside_make(lab: str) -> None:
    name = outside_name(lab)
    output_of("ip", "netns", "add", name)
    output_of("ip", "-n", name, "link", "add", "br0", "up", "type", "bridge")


def outside_join(hub: str, lab: str, number: int) -> None:
    """As the router of this number; whatever its machines send there comes from its own address."""
    outside, port = outside_name(lab), f"v{number}"
    output_of("ip", "-n", outside, "link", "add", port, "type", "veth", "peer", "name", "out", "netns", hub)
    output_of("ip", "-n", outside, "link", "set", port, "master", "br0", "up")
    output_of("ip", "-n", hub, "address", "add", f"{ROUTERS[number]}/{ROUTERS.prefixlen}", "dev", "out")
    output_of("ip", "-n", hub, "link", "set", "out", "up")
    output_of("ip", "-n", hub, "route", "add", FLOATING, "dev", "out")
    output_of("ip", "netns", "exec", hub, "sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1")
    outside_lead(hub, [])


def outside_lead(hub: str, addresses: Iterable[Outside]) -> None:
    """From now on exactly these floating IPs lead to the machines of a network."""
    inward, outward = [], []
    output_of("ip", "-n", hub, "address", "flush", "dev", "out", "to", FLOATING)
    for one in addresses:
        output_of("ip", "-n", hub, "address", "add", f"{one.address}/32", "dev", "out")
        inward.append(f"add rule ip outside inward ip daddr {one.address} dnat to {one.to}")
        outward.append(f'add rule ip outside outward oifname "out" ip saddr {one.to} snat to {one.address}')
    rules = [
        "add table ip outside",
        "flush table ip outside",
        "add chain ip outside inward { type nat hook prerouting priority -100; }",
        "add chain ip outside outward { type nat hook postrouting priority 100; }",
        *inward,
        *outward,
        'add rule ip outside outward oifname "out" masquerade',
    ]
    output_of("ip", "netns", "exec", hub, "nft", "; ".join(rules))


def card_plug(name: str, hub: str, address: str) -> None:
    """A namespace for one machine; its card is set up as Neutron's DHCP would."""
    router = next(ipaddress.ip_network(f"{address}/{WIDTH}", strict=False).hosts())
    port = _port(name)
    output_of("ip", "netns", "add", name)
    output_of("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
    output_of("ip", "-n", hub, "link", "set", port, "master", "br0", "up")
    output_of("ip", "-n", name, "link", "set", "lo", "up")
    output_of("ip", "-n", name, "address", "add", f"{address}/{WIDTH}", "dev", "eth0")
    output_of("ip", "-n", name, "link", "set", "eth0", "up")
    output_of("ip", "-n", name, "route", "add", "default", "via", str(router))


def card_cut(name: str, hub: str) -> None:
    """At the network's end of its cable, where the machine cannot undo it."""
    output_of("ip", "-n", hub, "link", "set", _port(name), "down")


def _port(machine: str) -> str:
    """The name of its cable's other end."""
    return f"v{machine[-8:]}"


def namespaces(lab: str) -> list[str]:
    """All of one lab, machines first."""
    if not NAMESPACES.exists():
        return []
    found = [path.name for path in NAMESPACES.iterdir() if path.name.startswith(f"{TAG}-{lab}-")]
    return sorted(found, key=lambda name: ("-net-" in name, name))


def namespace_remove(name: str) -> None:
    """Its cards go with it."""
    if (NAMESPACES / name).exists():
        output_of("ip", "netns", "delete", name)


def listen_in(name: str, address: str, port: int) -> socket.socket:
    """A socket that listens inside the namespace, for a process that stays outside of it."""
    found: list[socket.socket] = []

    def enter() -> None:
        descriptor = os.open(NAMESPACES / name, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
                return
            found.append(socket.create_server((address, port), backlog=64))
        finally:
            os.close(descriptor)

    thread = threading.Thread(target=enter)  # the namespace is the thread's, and ends with it
    thread.start()
    thread.join()
    if not found:
        raise LabError(f"nothing can listen at {address}:{port} in the namespace {name}")
    return found[0]
