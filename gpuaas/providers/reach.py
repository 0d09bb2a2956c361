"""Which addresses the portal calls: what a person or a site names may not lead to the portal's own machine or cloud.

Private networks are allowed, because sites are in them. Refused are link-local addresses and the other addresses at
which clouds give machines their credentials, what is no unicast address, and loopback unless SITES_ON_LOOPBACK. A name
is resolved once for each connection, and the connection is made to what was judged. Behind a proxy of the environment
(HTTPS_PROXY) only addresses that are written as numbers are judged here; the rest is the proxy's to refuse.
"""

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from django.conf import settings
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NameResolutionError, NewConnectionError

from gpuaas.core.errors import Unusable

SCHEMES: Final = frozenset({"http", "https"})
REDIRECTS: Final = frozenset({301, 302, 303, 305, 307, 308})
# what clouds answer to their own machines outside of 169.254.0.0/16 and fe80::/10
METADATA: Final = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
THIS_NETWORK = IPv4Network("0.0.0.0/8")
NAT64 = IPv6Network("64:ff9b::/96")


def address_check(url: str) -> None:
    """Raises Unusable unless it is http(s)://host[:port][/path] without credentials. Calls nothing and resolves no name."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Unusable("the address is not a URL") from error
    if not url.isprintable() or " " in url or "\\" in url:
        raise Unusable("the address is not a URL")
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise Unusable("the address is not a URL that begins with https:// (or http://) and names a host")
    if "@" in parts.netloc:
        raise Unusable("the address must not contain a user or a password")
    try:
        found = socket.getaddrinfo(parts.hostname.partition("%")[0], None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return  # a name
    for row in found:
        _require(parts.hostname, str(row[4][0]))


def is_refused(text: str) -> bool:
    """Of one IP address, however the resolver writes it."""
    address = _plain(ip_address(text.partition("%")[0]))
    if address.is_loopback:
        return not settings.SITES_ON_LOOPBACK
    return (
        address in METADATA
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or (isinstance(address, IPv4Address) and address in THIS_NETWORK)
    )


def is_loopback(host: str) -> bool:
    """Whether the host of a URL is the machine itself, by its name or as an address is written."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = socket.getaddrinfo(host.partition("%")[0], None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return any(_plain(ip_address(str(row[4][0]).partition("%")[0])).is_loopback for row in found)


def addresses_of(host: str, port: int | None) -> list[str]:
    """To which a connection may be made now, in the resolver's order. Raises Unusable if one of them is refused, and OSError
    where the name leads nowhere."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(str(error)) from error
    addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
    for address in addresses:
        _require(host, address)
    return addresses


def pools_guard(manager: urllib3.PoolManager) -> None:
    """Connections that the manager makes from now on are judged. One to a proxy is the deployment's own and is not."""
    if manager.proxy is None:
        manager.pool_classes_by_scheme = {"http": GuardedHTTPPool, "https": GuardedHTTPSPool}


def session_guard(session: requests.Session) -> None:
    """The same for a session of requests, and its redirects stay at the origin that was called, or lead from its http to
    its https: they would carry the token along."""
    for adapter in session.adapters.values():
        pools_guard(adapter.poolmanager)  # type: ignore[attr-defined]  # the stub knows only the base class
    session.hooks["response"].append(_redirect_require)


class _Guarded(HTTPConnection):
    """Connects to the addresses that were judged, in the resolver's order."""

    def _new_conn(self) -> socket.socket:
        name = self._dns_host
        try:
            addresses = addresses_of(name, self.port)
        except OSError as error:
            raise NameResolutionError(self.host, self, socket.gaierror(str(error))) from error
        try:
            for address in addresses[:-1]:
                self._dns_host = address
                try:
                    return super()._new_conn()
                except NewConnectionError:
                    continue
            self._dns_host = addresses[-1]
            return super()._new_conn()
        finally:
            self._dns_host = name


class _GuardedTLS(_Guarded, HTTPSConnection):
    pass


class GuardedHTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Guarded


class GuardedHTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _GuardedTLS


def _require(host: str, address: str) -> None:
    if is_refused(address):
        raise Unusable(
            f"the portal does not call {host}: it leads to an address ({address}) at which no site can be"
        )


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _redirect_require(response: requests.Response, **_options: Any) -> None:
    if response.status_code not in REDIRECTS or "Location" not in response.headers:
        return
    asked = urlsplit(response.url)
    target = urlsplit(urljoin(response.url, response.headers["Location"]))
    upgraded = (asked.scheme, target.scheme) == ("http", "https")
    same = (asked.scheme, asked.netloc) == (target.scheme, target.netloc)
    if target.hostname != asked.hostname or not (same or upgraded):
        raise Unusable(f"the site at {asked.netloc} sends the portal elsewhere, which it does not follow")
