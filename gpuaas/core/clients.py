"""Says who asked, and whether over TLS: the peer of the connection, or what a trusted proxy says (GPUAAS_TRUSTED_PROXIES).

What anybody else says of it is gone before something reads it, so that limits, the audit log, reports of nodes and redirects
to https all have the same address and scheme.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

Address = IPv4Address | IPv6Address
SAID = "HTTP_X_FORWARDED_"


class ClientMiddleware:
    """The outermost one. REMOTE_ADDR is an address or empty from here on: a socket file has no peer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        meta = request.META
        said = {name: meta.pop(name) for name in list(meta) if name.startswith(SAID)}
        client = address_of(meta.get("REMOTE_ADDR") or "")
        if client is not None and is_trusted(client):
            client = _client_of(client, said.get(f"{SAID}FOR", ""))
            scheme = said.get(f"{SAID}PROTO", "").rpartition(",")[2].strip().lower()
            if scheme in {"http", "https"}:
                meta[f"{SAID}PROTO"] = scheme
        meta["REMOTE_ADDR"] = str(client or "")
        return self.get_response(request)


def address_of(text: str) -> Address | None:
    """Of `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1` or `[2001:db8::1]:443`; None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped if isinstance(found, IPv6Address) else None) or found


def is_trusted(address: Address) -> bool:
    return any(address in network for network in settings.TRUSTED_PROXIES)


def _client_of(proxy: Address, said: str) -> Address:
    """Each proxy appends whom it heard: from the right, the first that is no proxy of ours. What stands left of it, or of
    what is no address, is hearsay."""
    client = proxy
    for word in reversed(said.split(",")):
        found = address_of(word)
        if found is None:
            break
        client = found
        if not is_trusted(found):
            break
    return client
