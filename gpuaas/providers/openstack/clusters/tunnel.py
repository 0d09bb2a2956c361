"""The way of a Slurm cluster's workers at other sites to its head: each has a WireGuard tunnel to the head's address, and in it an
address of its own (docs/decisions/0100). The head's part is written on the head itself (slurm_tunnel.py).

A worker begins, and keeps its tunnel open, so it needs no external address and no open port.
"""

import ipaddress
import json
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import ClusterKind, ClusterSpec, NodePool
from gpuaas.providers.openstack.clusters.plan import control_name
from gpuaas.providers.openstack.clusters.slurm import NODES_MOST
from gpuaas.providers.openstack.clusters.slurm_tunnel import PORT, address_of, key_of, text_of

# apart from every cluster's network (place.py), and from those of pods and services
NETWORK = ipaddress.ip_network("10.64.0.0/16")
FIRST, EACH = 1024, 512  # where workers begin in it, and the room of each pool
KEEP_OPEN_S = 25  # WireGuard's own advice behind NAT: most routers forget a silent flow of UDP after 30 s


def is_tunneled(spec: ClusterSpec) -> bool:
    """Whether workers at other sites come in by a tunnel to the head."""
    return spec.spans and spec.kind is ClusterKind.SLURM


def head_address() -> str:
    return str(NETWORK[1])


def worker_address(spec: ClusterSpec, pool: NodePool, number: int) -> str:
    """The same at home and elsewhere: pools are counted in the order in which the cluster has them."""
    return address_of(_room(spec, pool.name), number)


def head_knows(spec: ClusterSpec) -> str:
    """For gpuaas-tunnel on the head, as JSON."""
    known = {
        "head": control_name(spec, 1),
        "address": f"{head_address()}/{NETWORK.prefixlen}",
        "secret": secret_of(spec).hex(),
        "most": NODES_MOST,
        "pools": [
            {"name": f"{spec.external_name}-{pool.name}-", "room": _room(spec, pool.name)}
            for pool in spec.elsewhere
        ],
    }
    return json.dumps(known, indent=1)


def worker_configuration(spec: ClusterSpec, pool: NodePool, name: str, head: str) -> str:
    """WireGuard's, of one worker: its own key, and the head as the way to all others. `head`: its address in the cluster's network.
    Raises Permanent without `spec.join`."""
    if spec.join is None:
        raise Permanent("workers at a burst site need the address of the cluster's own site")
    number, secret = int(name.rpartition("-")[2]), secret_of(spec)
    authority = X25519PrivateKey.from_private_bytes(key_of(secret, control_name(spec, 1))).public_key()
    return (
        "[Interface]\n"
        f"Address = {worker_address(spec, pool, number)}/32\n"
        f"PrivateKey = {key_text(secret, name)}\n"
        "[Peer]\n"
        f"PublicKey = {text_of(authority.public_bytes_raw())}\n"
        f"Endpoint = {urlsplit(spec.join.endpoint).hostname}:{PORT}\n"
        f"AllowedIPs = {head}/32, {NETWORK}\n"
        f"PersistentKeepalive = {KEEP_OPEN_S}\n"
    )


def secret_of(spec: ClusterSpec) -> bytes:
    """The head's: the keys of all machines in the tunnel follow from it."""
    return spec.boots.derive("tunnel")


def key_text(secret: bytes, machine: str) -> str:
    """The private key of one machine, as WireGuard writes it."""
    return text_of(key_of(secret, machine))


def _room(spec: ClusterSpec, pool: str) -> str:
    place = [one.name for one in spec.elsewhere].index(pool)
    return str(NETWORK[FIRST + EACH * place])
