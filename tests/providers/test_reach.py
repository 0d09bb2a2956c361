"""No address that a person or a site gives leads to the portal's own machine or to its cloud's metadata."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings

from gpuaas.core.errors import GpuaasError, Invalid, Unavailable, Unusable
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.reach import address_check
from gpuaas.providers.registry import credentials_check
from tests.factories.credentials import kubeconfig_made

LOOPBACK = (
    *("127.0.0.1", "127.1", "127.255.0.9", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1"),
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"),
)
NEVER = (
    *("169.254.169.254", "169.254.170.2", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"),
    *(
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fe80::1]",
        "[fe80::1%25lo]",
    ),
    *("[fd00:ec2::254]", "[fd20:ce::254]", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("0.0.0.0", "0", "0.1.2.3", "[::]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "240.0.0.1"),
)
SITES = (
    "10.0.0.7",
    "172.16.3.4",
    "192.168.1.1",
    "100.64.0.1",
    "203.0.113.9",
    "[fd12:3456::7]",
    "k8s.invalid",
)
MALFORMED = (
    *("", "k8s.invalid", "//k8s.invalid", "https://", "https:///x", "http://:80", "https://k8s.invalid:port"),
    *(
        "file:///etc/passwd",
        "ftp://k8s.invalid",
        "gopher://k8s.invalid:6379/_",
        "unix:///run/x",
        "javascript:1",
    ),
    *("https://user@k8s.invalid", "https://user:word@k8s.invalid", "https://k8s.invalid\\@169.254.169.254/"),
    *("https://k8s.invalid /", "https://k8s.invalid\n", "https://[::1", "https://@k8s.invalid"),
)


class Heard(ThreadingHTTPServer):
    """A real server on loopback that sends whoever asks elsewhere, and remembers that it was asked."""

    def __init__(self, elsewhere: str = "") -> None:
        self.elsewhere = elsewhere
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.asked.append("a connection")
        return super().verify_request(request, client_address)


class Answer(BaseHTTPRequestHandler):
    server: Heard

    def _answer(self) -> None:
        self.send_response(302 if self.server.elsewhere else 200)
        self.send_header("Location", self.server.elsewhere)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = _answer  # noqa: N815  the library's names

    def log_message(self, *_told: Any) -> None:
        pass


@pytest.fixture
def inside() -> Iterator[Heard]:
    """What nobody outside should be able to make the portal ask."""
    server = Heard()
    yield server
    server.shutdown()
    server.server_close()


def kubernetes(server: str) -> str:
    return kubeconfig_made(clusters=[{"name": "c", "cluster": {"server": server}}])


def cloud(url: str) -> dict[str, str]:
    own = {"application_credential_id": "i", "application_credential_secret": "s"}
    return {"auth_url": url, **own}


@pytest.mark.parametrize("host", [*LOOPBACK, *NEVER])
def test_an_address_where_no_site_can_be(host: str, settings: Settings) -> None:
    settings.SITES_ON_LOOPBACK = False
    with pytest.raises(Unusable, match="the portal does not call"):
        address_check(f"https://{host}:6443/")
    with pytest.raises(Invalid):
        credentials_check("kubernetes", {"kubeconfig": kubernetes(f"https://{host}:6443")})
    with pytest.raises(Invalid):
        credentials_check("openstack", cloud(f"https://{host}:5000/v3"))


@pytest.mark.parametrize("host", NEVER)
def test_the_lab_may_use_loopback_and_nothing_else(host: str) -> None:
    address_check("https://127.0.0.1:6443")
    with pytest.raises(Unusable):
        address_check(f"https://{host}:6443")


@pytest.mark.parametrize("host", SITES)
def test_sites_are_in_private_networks_too(host: str, settings: Settings) -> None:
    settings.SITES_ON_LOOPBACK = False
    address_check(f"https://{host}:6443/v3")


@pytest.mark.parametrize("url", MALFORMED)
def test_what_is_no_address_of_a_site(url: str) -> None:
    with pytest.raises(Unusable):
        address_check(url)
    with pytest.raises(GpuaasError):
        Api(kubernetes(url))


def test_a_name_that_leads_to_the_portals_machine_is_not_even_connected_to(
    inside: Heard, settings: Settings
) -> None:
    settings.SITES_ON_LOOPBACK = False
    named = inside.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Unusable, match="localhost: it leads to an address"):
        Api(kubernetes(named)).get("/version")
    with pytest.raises(Unusable, match="localhost: it leads to an address"):
        Cloud(cloud(named)).get("identity", "/")
    assert inside.asked == []


def test_a_name_is_resolved_once_and_what_was_judged_is_called(
    inside: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes its address between the judgement and the call (DNS rebinding) gains nothing."""
    real, asked = socket.getaddrinfo, []

    def resolver(host: str, *more: Any, **options: Any) -> Any:
        if host != "rebound.invalid":
            return real(host, *more, **options)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "169.254.169.254", *more, **options)

    api = Api(kubernetes(inside.url.replace("127.0.0.1", "rebound.invalid")))
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    assert api.get("/version") == {}
    assert asked == ["rebound.invalid"]
    api.close()
    with pytest.raises(Unusable):
        api.get("/version")
    assert len(inside.asked) == 1


def test_one_address_of_several_is_enough_to_refuse(inside: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolver(host: str, *more: Any, **options: Any) -> Any:
        if host != "both.invalid":
            return real(host, *more, **options)
        return real("127.0.0.1", *more, **options) + real("169.254.169.254", *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with pytest.raises(Unusable):
        Api(kubernetes(inside.url.replace("127.0.0.1", "both.invalid"))).get("/version")
    assert inside.asked == []


def test_a_site_cannot_send_the_portal_elsewhere(inside: Heard) -> None:
    """A tenant is the administrator of a cluster on demand, and so of what answers there."""
    door = Heard(elsewhere=f"{inside.url}/latest/meta-data")
    with pytest.raises(Unavailable, match="elsewhere"):
        Api(kubernetes(door.url)).get("/api/v1/nodes")
    with pytest.raises(Unusable, match="elsewhere"):
        Cloud(cloud(door.url)).get("identity", "/")
    assert door.asked
    assert inside.asked == []
    door.shutdown()
    door.server_close()


def test_a_kubeconfig_names_no_proxy(inside: Heard) -> None:
    through = kubeconfig_made(
        clusters=[{"name": "c", "cluster": {"server": "https://k8s.invalid", "proxy-url": inside.url}}]
    )
    with pytest.raises(Invalid, match="contains proxy-url"):
        credentials_check("kubernetes", {"kubeconfig": through})
    with pytest.raises(Unusable, match="contains proxy-url"):
        Api(through)


def test_a_cloud_is_signed_in_to_at_its_keystone() -> None:
    """Other ways to sign in name addresses of their own."""
    auth = {"auth_url": "https://k.invalid/v3", "username": "u", "password": "p"}
    entry = {"auth_type": "v3oidcpassword", "auth": {**auth, "discovery_endpoint": "http://169.254.169.254"}}
    with pytest.raises(Invalid, match="auth_type must be one of"):
        credentials_check("openstack", {"clouds_yaml": str({"clouds": {"c": entry}})})
