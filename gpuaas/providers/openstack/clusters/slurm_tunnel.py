#!/usr/bin/python3
"""Run on the head of a Slurm cluster with pools at other sites, as gpuaas-tunnel FILE: writes WireGuard's configuration, in which each
worker that those pools may ever have is a peer, so that pools grow without a change here.

The head runs this very file, so it imports nothing but the standard library. FILE is made by `head_knows` (tunnel.py): the head's own
name and address in the tunnel, the secret from which all keys follow, and of each pool how its workers are named and addressed.
"""

import base64
import hashlib
import hmac
import ipaddress
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PORT = 51820


def key_of(secret: bytes, machine: str) -> bytes:
    """A machine's private key, 32 bytes."""
    return hmac.new(secret, machine.encode(), hashlib.sha256).digest()


def text_of(key: bytes) -> str:
    """As WireGuard writes keys."""
    return base64.b64encode(key).decode()


def address_of(room: str, number: int) -> str:
    """In the tunnel, of the worker of this number of a pool, whose room begins at the address `room`."""
    return str(ipaddress.ip_address(room) + number)


def configuration(known: dict[str, Any]) -> Iterator[str]:
    """Line by line. Workers speak to each other through the head, and to nothing else of its network."""
    secret = bytes.fromhex(known["secret"])
    yield "[Interface]"
    yield f"Address = {known['address']}"
    yield f"ListenPort = {PORT}"
    yield f"PrivateKey = {text_of(key_of(secret, known['head']))}"
    yield "PostUp = sysctl --quiet --write net.ipv4.conf.%i.forwarding=1"
    for pool in known["pools"]:
        for number in range(1, known["most"] + 1):
            yield "[Peer]"
            yield f"PublicKey = {_public(key_of(secret, pool['name'] + str(number)))}"
            yield f"AllowedIPs = {address_of(pool['room'], number)}/32"


def _public(key: bytes) -> str:
    done = subprocess.run(["wg", "pubkey"], input=text_of(key), capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    for line in configuration(json.loads(Path(sys.argv[1]).read_text())):
        sys.stdout.write(f"{line}\n")
